from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.small_suite import SMALL, write_suite
from thetarbm_cli import parameters, suite
from thetarbm_cli.errors import InputError
from thetarbm_cli.specs import TrainData, train_spec
from thetarbm_cli.suite import Cell, choose_cells, find_suite, load_suite, shipped_path, suite_names

SHIPPED = load_suite(shipped_path())

# The paper's tables, copied from the paper and not from the suite.
ERRORS = {
    "rbm": (15.41, 16.04, 16.39),
    "orbm": (15.61, 15.87, 16.61),
    "tirbm": (14.07, 13.35, 14.08),
    "theta": (10.31, 10.08, 10.85),
}
GAMMAS = {
    "rbm": (0.1746, 0.1775, 0.1724, 0.1751, 0.1721, 0.1746),
    "orbm": (0.1754, 0.1782, 0.1737, 0.1764, 0.1710, 0.1735),
    "tirbm": (0.8434, 0.8295, 0.8106, 0.8118, 0.7878, 0.7917),
    "theta": (0.9000, 0.9062, 0.9087, 0.9098, 0.9103, 0.9093),
}
TABLE_3 = ((8.9, 9.1, 9.0, 9.6), (8.9, 9.4, 9.3, 11.0), (9.0, 9.9, 10.0, 13.4), (9.0, 10.9, 11.3, 16.1))
# What an experiment learns from, by a word of its name.
OTHER_SETS = {"mnist": "mnist", "fashion": "fashion-rot"}


def loaded(folder: Path, text: str, *, check_settings: bool = True) -> suite.Suite:
    return load_suite(write_suite(folder, text), check_settings=check_settings)


def problems(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as raised:
        loaded(folder, text)
    return str(raised.value)


def cell_of(found: suite.Suite, name: str, profile: str = "paper") -> Cell:
    return next(cell for cell in found.cells(profile) if cell.name == name)


# The shipped suite


def paper_says(cell: Cell) -> dict[str, float]:
    if cell.experiment in ERRORS or "nearest" in cell.tables:
        column = (0.3, 0.2, 0.1).index(cell.at["sparsity"])
        train, test = GAMMAS[cell.model][2 * column : 2 * column + 2]
        error = ERRORS[cell.model][column]
        return {"test_error_percent": error, "gamma_train": train, "gamma_test": test}
    if cell.experiment == "perturbation":
        return {"test_error_percent": TABLE_3[cell.at["n"] - 1][round(10 * cell.at["p"]) - 1]}
    mnist = {"mnist-theta": (0.77, 0.77), "mnist-tirbm": (0.82, 0.25)}
    if cell.experiment in mnist:
        return dict(zip(("gamma_train", "gamma_test"), mnist[cell.experiment], strict=True))
    return {}


@pytest.mark.parametrize("profile", SHIPPED.profiles)
def test_declared_cells_are_complete_and_have_the_papers_numbers(profile: str) -> None:
    for cell in SHIPPED.cells(profile):
        assert cell.published == paper_says(cell), cell.name
        spec = cell.train_spec()
        words = [word for word in cell.experiment.split("-") if word in OTHER_SETS]
        assert spec.data.dataset == (OTHER_SETS[words[0]] if words else "mnist-rot"), cell.name
        if "sparsity" in cell.at:
            assert spec.parameters["sparsity"] == cell.at["sparsity"], cell.name
        assert cell.measure_specs, cell.name
        assert cell.label, cell.name


def test_the_suite_has_every_cell_of_the_paper() -> None:
    counts = {table: sum(table in cell.tables for cell in SHIPPED.cells()) for table in ("1", "2", "3", "mnist")}
    assert counts == {"1": 15, "2": 12, "3": 16, "mnist": 2}
    assert list(SHIPPED.tables)[:4] == ["1", "2", "3", "mnist"]
    assert {table for cell in SHIPPED.cells() for table in cell.tables} == SHIPPED.tables.keys()
    requested = [cell for cell in SHIPPED.cells() if cell.on_request]
    assert {cell.experiment for cell in requested if not cell.tables} == {"tirbm-reference"}
    assert {cell.experiment for cell in requested if "1" in cell.tables} == {"augmented"}


def test_nothing_is_chosen_on_the_test_images() -> None:
    """Cells of a choice are judged on validation images, and none of those of the test images' draw."""
    for profile in SHIPPED.profiles:
        for cell in SHIPPED.cells(profile):
            chosen = "choice" in cell.tables
            assert ({spec.part for spec in cell.measure_specs} == {"valid"}) == chosen, cell.name
            assert not chosen or (cell.at["data_seed"] != 0 and cell.train_spec().data.learn_from == "train")
    learned = {cell.experiment for cell in SHIPPED.cells() if cell.train_spec().data.learn_from == "train+valid"}
    assert learned == {"best", "best-draws", "best-fashion", "beyond-pixels"}
    best, chosen_cell = cell_of(SHIPPED, "best"), cell_of(SHIPPED, "choice-best/data_seed=1")
    assert best.train_spec().parameters == chosen_cell.train_spec().parameters
    assert {spec.svm for spec in best.measure_specs if spec.svm} == {spec.svm for spec in chosen_cell.measure_specs}


def test_the_reference_has_its_authors_settings() -> None:
    spec = cell_of(SHIPPED, "tirbm-reference").train_spec()
    authors = SHIPPED.choices["tirbm-settings"].options["authors"].set
    assert spec.parameters == {**parameters.defaults("tirbm"), **authors, "epochs": 150}


def test_cells_of_table_3_know_the_unperturbed_one() -> None:
    table = [cell for cell in SHIPPED.cells() if "3" in cell.tables]
    unperturbed = table[0].unperturbed(SHIPPED.cells())
    assert unperturbed is not None
    assert unperturbed.published["test_error_percent"] == 10.31


@pytest.mark.parametrize("model", ["rbm", "orbm", "tirbm", "theta"])
def test_defaults_of_the_suite_are_those_of_the_models(model: str) -> None:
    defaults = {**parameters.defaults(model), **{f"data.{name}": value for name, value in TrainData()}}
    assert {name: defaults[name] for name in SHIPPED.defaults.set} == SHIPPED.defaults.set


@pytest.mark.parametrize("profile", ["paper", "quick", "tiny"])
def test_train_and_run_mean_the_same_training(profile: str) -> None:
    cell = cell_of(SHIPPED, "theta/sparsity=0.2", profile)
    size = {name: value for name, value in SHIPPED.profile(profile).set.items() if name not in ("data.test",)}
    assert cell.train_spec(3) == train_spec("theta", {**size, "sparsity": 0.2}, seed=3)


def test_survey_and_paper_share_trainings() -> None:
    paper, survey = (cell_of(SHIPPED, "theta/sparsity=0.3", profile) for profile in ("paper", "survey"))
    assert paper.train_spec() == survey.train_spec()
    assert paper.measure_specs != survey.measure_specs


# What a user's suite means


def test_a_user_adds_an_experiment_by_adding_yaml(tmp_path: Path) -> None:
    more = SMALL + (
        "  - name: floors\n    label: floors\n    model: theta\n"
        "    grid: {floor: [0.0, 0.1], tensor: [tied, full]}\n    tables: ['1']\n"
    )
    cells = loaded(tmp_path, more).cells("tiny")
    names = [cell.name for cell in cells if cell.experiment == "floors"]
    assert names == [f"floors/floor={floor},tensor={tensor}" for floor in ("0", "0.1") for tensor in ("tied", "full")]
    learned = {**parameters.defaults("theta"), "floor": 0.1, "tensor": "full", "hidden": 20, "epochs": 3}
    assert cells[-1].train_spec().parameters == learned


def test_settings_of_a_measurement_are_axes_too(tmp_path: Path) -> None:
    more = SMALL + (
        "  - name: readings\n    label: readings\n    model: theta\n"
        "    set: {perturbation.n: 1, perturbation.p: 0.1, svm.C: 1}\n"
        "    grid: {features: [probabilities, states], svm.scaled: [true], draws: [one]}\n    measures: [error]\n"
    )
    first, second = (cell for cell in loaded(tmp_path, more).cells() if cell.experiment == "readings")
    assert first.train_spec() == second.train_spec()
    (one,), (other,) = first.measure_specs, second.measure_specs
    assert (one.features, other.features) == ("probabilities", "states")
    assert other.svm is not None
    assert (other.svm.C, other.svm.scaled, other.draws) == (1, True, "one")


def test_an_experiment_is_like_another_but_for_what_it_says(tmp_path: Path) -> None:
    more = SMALL + '  - {name: twin, like: rbm, model: theta, set: {epochs: 5}, tables: ["2"]}\n'
    found = loaded(tmp_path, more)
    first, twin = (cell_of(found, f"{name}/sparsity=0.3") for name in ("rbm", "twin"))
    assert (twin.label, twin.published, twin.at) == (first.label, first.published, first.at)
    assert (twin.model, twin.tables) == ("theta", ("2",))
    other = cell_of(found, "other")
    assert (other.label, other.measures) == ("the same", ("error",))
    assert other.given == {**cell_of(found, "again").given, "epochs": 2}
    for wrong in ("nobody", "later", "[1]"):
        text = SMALL + f"  - {{name: wrong, like: {wrong}}}\n  - {{name: later, label: x, model: rbm}}\n"
        assert re.search(r"experiments\[4\]\.like: no experiment .* above: ", problems(tmp_path, text))


def test_options_lie_over_an_experiment_and_under_profile_and_grid(tmp_path: Path) -> None:
    more = SMALL + "  - {name: o, label: o, model: rbm, readings: {floor: tenth}, set: {floor: 0.5}}\n"
    assert cell_of(loaded(tmp_path, more), "o").given["floor"] == 0.1
    by_grid = more.replace("set: {floor: 0.5}", "grid: {floor: [0.7]}")
    assert cell_of(loaded(tmp_path, by_grid), "o/floor=0.7").given["floor"] == 0.7
    by_profile = more.replace("set: {hidden: 20}", "set: {hidden: 20, floor: 0.9}").replace(", set: {floor: 0.5}", "")
    assert cell_of(loaded(tmp_path, by_profile), "o", "tiny").given["floor"] == 0.9


def test_profiles_and_tables_of_the_shipped_suite_are_there(tmp_path: Path) -> None:
    found = loaded(tmp_path, SMALL)
    assert found.profiles.keys() == SHIPPED.profiles.keys()
    assert found.tables == SHIPPED.tables
    assert found.profiles["survey"] == SHIPPED.profiles["survey"]
    # One of the same name takes from the shipped one what it lacks.
    assert found.profiles["tiny"].set == {**SHIPPED.profiles["tiny"].set, "hidden": 20}
    assert (found.profiles["paper"].seeds, found.profiles["paper"].about) == (2, SHIPPED.profiles["paper"].about)
    assert found.defaults.set == {}
    own = SMALL.replace("title: small\n", "title: small\ntables: {'1': {title: Mine}, mine: {title: Own}}\n")
    assert list(loaded(tmp_path, own).tables) == [*SHIPPED.tables, "mine"]
    assert loaded(tmp_path, own).tables["1"].title == "Mine"


def test_controls_take_what_they_have_of_common_settings(tmp_path: Path) -> None:
    text = SMALL.replace("profiles:", "defaults: {set: {epochs: 3, data.seed: 4, rotations: 5}}\nprofiles:")
    text += "  - {name: p, label: p, model: pixels, measures: [error]}\n"
    text += "  - {name: a, label: a, model: aligned-pixels, measures: [error]}\n"
    found = loaded(tmp_path, text)
    assert cell_of(found, "p").train_spec().parameters == {}
    assert cell_of(found, "a").train_spec().parameters["rotations"] == 5
    assert cell_of(found, "p").train_spec().data.seed == 4
    # What it is given itself, it must have.
    assert "model pixels has no setting 'epochs'" in problems(
        tmp_path, SMALL + "  - {name: p, label: p, model: pixels, set: {epochs: 3}}\n"
    )


def test_cells_are_chosen_by_experiment_cell_pattern_and_table() -> None:
    cells = SHIPPED.cells()
    assert {cell.experiment for cell in choose_cells(cells, ["fashion"])} >= {"fashion-rbm", "fashion-pixels"}
    assert [cell.name for cell in choose_cells(cells, ["theta/sparsity=0.3"])] == ["theta/sparsity=0.3"]
    assert len(choose_cells(cells, ["perturbation/n=1,*"])) == 4
    assert not any(cell.on_request for cell in choose_cells(cells, []))
    with pytest.raises(InputError, match="no experiment, cell or table 'thta'; did you mean theta"):
        choose_cells(cells, ["thta"])


def test_names_for_completion_are_read_without_checks(tmp_path: Path) -> None:
    names = suite_names(write_suite(tmp_path, SMALL.replace("model: theta", "model: thta")))
    assert list(names["experiments"]) == ["rbm", "theta", "again", "other"]
    assert "rbm/sparsity=0.1" in names["cells"]
    assert names["profiles"].keys() == SHIPPED.profiles.keys()
    assert suite_names(tmp_path / "none.yaml")["cells"] == {}


# What is wrong


THETA = "    model: theta\n"
AXIS = "[0.3, 0.1]}\n    measures"
GIVEN = "{sparsity: 0.3}\n    m"
PROBLEMS = {
    "older format": ("format: 2", "format: 1", "1:9: format: input should be 2"),
    "unknown key": ("title: small", "title: small\ncolour: red", "3:1: colour: unknown key"),
    "unknown key inside": (THETA, f"{THETA}    modle: x\n", "experiments[1].modle: unknown key"),
    "wrong type": ("seeds: 2", "seeds: two", "profiles.paper.seeds: input should be a valid integer"),
    "unknown model": ("model: theta", "model: thta", "experiments[1].model: unknown model 'thta': did you mean theta?"),
    "unknown table": ('tables: ["1"]', "tables: [speed]", "experiments[1].tables[0]: no table 'speed'"),
    "unknown measure": ("[error]\n    tables", "[errors]\n    tables", "measures[0]: no measure 'errors'"),
    "unknown data set": (GIVEN, "{data.dataset: mnst}\n    m", "unknown data set 'mnst': did you mean mnist?"),
    "unknown option": ("like: again", "like: again\n    readings: {floor: fifth}", "no option 'fifth' of 'floor'"),
    "unknown choice": ("choices: [floor]", "choices: [flor]", "designs.all.choices[0]: no choice 'flor'"),
    "unknown cell": ('"rbm/*"', '"rbn/*"', "designs.all.cells[0]: there is no cell 'rbn/*'"),
    "two taken": ("tenth: {set", "tenth: {taken: true, set", "options: one option is to be `taken`, not 2"),
    "wrong option": ("{floor: 0.1}", "{floor: -0.1}", "options.tenth: rbm: floor must be 0 or above"),
    "taken file name": ("title: small", "title: small\ntables: {table1: {title: t}}", "'table1' is taken"),
    "missing key": ("    label: RBM\n", "", "experiments[0].label: field required"),
    "duplicate name": ("name: again", "name: rbm", "experiments[2].name: the name 'rbm' is taken by experiments[0]"),
    "duplicate key": (THETA, f"{THETA}    model: rbm\n", "model: 'model' is there twice"),
    "cell without runs": ("at: {sparsity: 0.3}", "at: {sparsity: 0.4}", "published[0].at: a cell without runs"),
    "value twice": (AXIS, AXIS.replace("0.1", "0.3"), "grid.sparsity: the value 0.3 is there 2"),
    "unknown setting": (GIVEN, "{sparsty: 0.3}\n    m", "set.sparsty: again with profile paper"),
    "unknown dotted setting": (GIVEN, "{svm.Q: 0.3}\n    m", "set.svm.Q: again with profile paper"),
    "wrong value": (GIVEN, "{svm.C: -1}\n    m", "setting svm.C: input should be greater than 0"),
    "half a perturbation": (f"sparsity: {AXIS}", "n: [1, 2]}\n    measures", "setting perturbation.p: field required"),
    "not YAML": ("title: small", "title: [small", "has 1 problem"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_told_with_place_and_excerpt(name: str, tmp_path: Path) -> None:
    before, after, words = PROBLEMS[name]
    assert before in SMALL
    text = SMALL.replace(before, after, 1)
    if name == "duplicate name":
        text = text.replace("like: again", "like: rbm")
    message = problems(tmp_path, text)
    assert words in message
    line, column = map(int, re.findall(r"suite\.yaml:(\d+):(\d+): ", message)[0])
    assert f"{line:>6} | {text.splitlines()[line - 1]}" in message
    assert message.splitlines()[3].index("^") == 9 + column - 1


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = SMALL
    for name in ("wrong type", "unknown key inside", "unknown key"):
        before, after, _ = PROBLEMS[name]
        text = text.replace(before, after, 1)
    message = problems(tmp_path, text)
    assert "has 3 problems" in message
    lines = [int(line) for line in re.findall(r"suite\.yaml:(\d+):\d+: ", message)]
    assert len(lines) == 3
    assert lines == sorted(lines)


def test_of_many_problems_the_first_are_told(tmp_path: Path) -> None:
    message = problems(tmp_path, SMALL + "".join(f"zzz{number}: 1\n" for number in range(80)))
    assert message.startswith(f"{tmp_path / 'suite.yaml'} has 80 problems, of which the first 50 are:")
    assert message.count("unknown key") == 50


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"- 1\n- 2\n", "valid dictionary"),
        (b"format: 2020-13-45\n", "format"),
        (b"a:\n\tb: 1\n", "problem"),
        (b"x: &a [1]\n", "1:4: anchor &a is not allowed"),
        (b"x: [1]\ny: *a\n", "alias [*]a is not allowed|undefined alias"),
        (b"x: &a 1\ny: *a\n", "2:4: alias [*]a is not allowed"),
        (b"x: !!python/object/apply:os.system [ls]\n", "tag .*os.system is not allowed"),
        (b"x: " + b"[" * 30 + b"]" * 30, "deeper than 20 levels"),
        (b"#" * (suite.LARGEST_BYTES + 1), "larger than 1000000 bytes"),
    ],
)
def test_files_that_are_no_suite(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_suite(path)


def test_a_path_that_is_no_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is not a file"):
        load_suite(tmp_path)
    with pytest.raises(InputError, match=r"cannot read the suite .*No such file"):
        load_suite(tmp_path / "none.yaml")


def test_a_grid_has_a_limit(tmp_path: Path) -> None:
    axis = "[" + ", ".join(str(number / 1000) for number in range(1, 60)) + "]"
    message = problems(tmp_path, SMALL.replace("{sparsity: [0.3, 0.1]}", f"{{sparsity: {axis}, floor: {axis}}}", 1))
    assert "experiments[0].grid: the suite has " in message
    assert "10000 may be" in message


def test_which_suite_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_suite() == shipped_path()
    (tmp_path / "experiments.yaml").write_text(SMALL, encoding="utf-8")
    assert load_suite().title == "small"
    assert find_suite(Path("other.yaml")) == Path("other.yaml")


# Whatever a file says, it is read or refused

WORDS = [b"&a ", b"*a", b"!!python/name:os.system ", b"<<: ", b"? ", b"- ", b"{", b"[", b"|\n", b"\n\t", b"---\n", b"9e999", b".nan", b".inf", b"0x", b"1:2:3", b"2001-1-1", b"2001-99-99", b"\x85", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"like: rbm\n", b"null", b"~"]  # noqa: E501  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.sampled_from([10**30, -(2**63), 0.1, -1e300, 5e-324, "", "NaN", "0", "rbm", "../..", "é" * 300, "𝛉", "pixels"])
    | st.floats()
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.é", max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the places of all values in a tree."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(each for key, child in inner for each in places(child, (*place, key)))]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_are_read_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    content = SMALL.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(start + 20, len(content))))
        content = content[:start] + data.draw(st.sampled_from(WORDS) | st.binary(max_size=4)) + content[end:]
    path = tmp_path / "suite.yaml"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        load_suite(path)
    suite_names(path)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_are_taken_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    content = yaml.safe_load(SMALL)
    for _ in range(data.draw(st.integers(1, 2))):
        *above, key = data.draw(st.sampled_from(places(content)[1:]))
        parent = content
        for each in above:
            parent = parent[each]
        if data.draw(st.booleans()) and isinstance(parent, dict):
            parent[data.draw(st.sampled_from(["like", "set", "grid", "readings", "svm.C", "data.dataset", "x"]))] = (
                data.draw(TREES)
            )
        else:
            parent[key] = data.draw(TREES)
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    with contextlib.suppress(InputError):
        load_suite(path)
    suite_names(path)
