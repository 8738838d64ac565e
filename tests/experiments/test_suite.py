from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.experiments.suites import SMALL, write_suite
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments import suite_file as suitefile
from thetarbm_cli.experiments.runs.settings import CHANGED_DEFAULTS, Perturbation, SVMSettings, resolve
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.models import model_class

LEARNING = CHANGED_DEFAULTS["theta"]

# What an experiment learns from, by a word of its name.
OTHER_SETS = {"mnist": "mnist", "fashion": "fashion-rot"}

ROOT = Path(__file__).parents[2]
SHIPPED = load_suite(suitefile.shipped_path())

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
def test_declared_cells_resolve_and_have_the_papers_numbers(profile: str) -> None:
    for cell in SHIPPED.cells(profile):
        assert cell.published == paper_says(cell), cell.name
        settings = cell.settings()
        assert settings.model == cell.model, cell.name
        words = [word for word in cell.experiment.split("-") if word in OTHER_SETS]
        learned = OTHER_SETS[words[0]] if words else "mnist-rot"
        assert settings.data.train_on == learned, cell.name
        if "sparsity" in cell.at:
            assert settings.complete_parameters["sparsity"] == cell.at["sparsity"], cell.name


def test_the_suite_has_every_cell_of_the_paper() -> None:
    counts = {table: sum(table in cell.tables for cell in SHIPPED.cells()) for table in ("1", "2", "3", "mnist")}
    assert counts == {"1": 15, "2": 12, "3": 16, "mnist": 2}
    requested = [cell for cell in SHIPPED.cells() if cell.on_request]
    assert {cell.experiment for cell in requested if not cell.tables} == {"tirbm-reference"}
    assert {cell.experiment for cell in requested if "1" in cell.tables} == {"augmented"}
    beside = {"making", "draws", "fashion", "choice", "beyond", "invariance", "nearest"}
    beside |= {"best_draws", "best_fashion"}
    assert {table for cell in requested if "1" not in cell.tables for table in cell.tables} == beside
    assert all(cell.perturbation == {**cell.at, "scope": "train"} for cell in SHIPPED.cells() if "3" in cell.tables)


def test_nothing_is_chosen_on_the_test_images() -> None:
    """Cells of a choice are judged on validation images, and none of those of the test images' draw."""
    protocols = {cell.experiment: cell.data.get("protocol", "paper") for cell in SHIPPED.cells()}
    for cell in SHIPPED.cells():
        chosen = "choice" in cell.tables
        assert (protocols[cell.experiment] == "choice") == chosen
        assert not chosen or cell.at["data_seed"] != 0
    best_ones = {"best", "best-draws", "best-fashion"}
    assert {name for name, protocol in protocols.items() if protocol == "final"} == {*best_ones, "beyond-pixels"}
    (settings,) = {repr((c.model, c.parameters, c.svm)) for c in SHIPPED.cells() if c.experiment in best_ones}
    assert "theta-local" in settings
    best = next(cell for cell in SHIPPED.cells() if cell.experiment == "best")
    twins = [cell for cell in SHIPPED.cells() if "choice" in cell.tables and cell.model == best.model]
    assert any(
        (cell.svm, {**cell.parameters, **cell.at}) == (best.svm, {**best.parameters, **cell.at}) for cell in twins
    )


def test_cells_of_table_3_know_the_unperturbed_one() -> None:
    table = [cell for cell in SHIPPED.cells() if "3" in cell.tables]
    unperturbed = table[0].unperturbed(SHIPPED.cells())
    assert unperturbed.published["test_error_percent"] == 10.31


@pytest.mark.parametrize("model", ["rbm", "orbm", "tirbm", "theta"])
def test_defaults_of_the_suite_are_those_of_the_models(model: str) -> None:
    defaults = model_class(model).default_settings()
    assert {name: defaults[name] for name in SHIPPED.defaults.parameters} == SHIPPED.defaults.parameters


@pytest.mark.parametrize("profile", ["paper", "quick", "tiny"])
def test_train_and_run_mean_the_same_run(profile: str) -> None:
    cell = next(cell for cell in SHIPPED.cells(profile) if cell.name == "theta/sparsity=0.2")
    assert cell.settings() == resolve("theta", profile=profile, parameters={"sparsity": 0.2})


def test_the_shipped_schema_takes_the_shipped_suite() -> None:
    schema = json.loads((ROOT / "docs" / "schema" / "experiments.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load((ROOT / "experiments.yaml").read_text(encoding="utf-8")), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**yaml.safe_load(SMALL), "unknown": 1}, schema)


def test_a_user_adds_an_experiment_by_adding_yaml(tmp_path: Path) -> None:
    more = SMALL + (
        "  - name: floors\n    label: floors\n    model: theta\n"
        "    grid: {floor: [0.0, 0.1], tensor: [tied, full]}\n    tables: ['1']\n"
    )
    cells = load_suite(write_suite(tmp_path, more)).cells("tiny")
    names = [cell.name for cell in cells if cell.experiment == "floors"]
    assert names == [f"floors/floor={floor},tensor={tensor}" for floor in ("0", "0.1") for tensor in ("tied", "full")]
    assert cells[-1].settings().parameters == {**LEARNING, "floor": 0.1, "tensor": "full", "hidden": 20, "epochs": 3}


def test_settings_of_a_run_are_axes_too(tmp_path: Path) -> None:
    more = SMALL + (
        "  - name: readings\n    label: readings\n    model: theta\n    perturbation: {n: 1, p: 0.1}\n"
        "    svm: {C: 1}\n    grid: {features: [probabilities, states], svm.scaled: [true], draws: [one]}\n"
    )
    first, second = (
        c.settings() for c in load_suite(write_suite(tmp_path, more)).cells() if c.experiment == "readings"
    )
    assert (first.features, second.features) == ("probabilities", "states")
    assert second.svm == SVMSettings(C=1, scaled=True)
    assert second.perturbation == Perturbation(n=1, p=0.1, draws="one")
    assert second.parameters == LEARNING


@pytest.mark.parametrize(
    ("axis", "words"),
    [("svm.C: [-1]", "setting svm.C: .*greater than 0"), ("source: [5]", "setting data.source: .*valid string")],
)
def test_a_wrong_setting_of_a_run_is_a_sentence_where_no_model_is_asked(axis: str, words: str, tmp_path: Path) -> None:
    more = SMALL + f"  - name: wrong\n    label: wrong\n    model: rbm\n    grid: {{{axis}}}\n"
    cell = load_suite(write_suite(tmp_path, more), check_settings=False).cells()[-1]
    with pytest.raises(InputError, match=words):
        _ = cell.data_settings


THETA = "    model: theta\n"
AXIS = "[0.3, 0.1]}\n    measures"
GIVEN = "{sparsity: 0.3}\n    m"
PROBLEMS = {
    "unknown key": ("title: small", "title: small\ncolour: red", "3:1: colour: unknown key"),
    "unknown key inside": (THETA, f"{THETA}    modle: x\n", "experiments[1].modle: unknown key"),
    "wrong type": ("seeds: 1\n", "seeds: one\n", "profiles.tiny.seeds: input should be a valid integer"),
    "unknown model": ("model: theta", "model: thta", "experiments[1].model: unknown model 'thta': did you mean theta?"),
    "unknown table": ('tables: ["1"]', "tables: [speed]", "experiments[1].tables[0]: no table 'speed'"),
    "table of the paper": ("title: small", "title: small\ntables: {table1: {title: t}}", "'table1' is taken"),
    "missing key": ("    label: RBM\n", "", "experiments[0].label: field required"),
    "duplicate name": ("name: again", "name: rbm", "experiments[2].name: the name 'rbm' is taken by experiments[0]"),
    "duplicate key": (THETA, f"{THETA}    model: rbm\n", "model: 'model' is there twice"),
    "cell without runs": ("at: {sparsity: 0.3}", "at: {sparsity: 0.4}", "published[0].at: a cell without runs"),
    "value twice": (AXIS, AXIS.replace("0.1", "0.3"), "grid.sparsity: the value 0.3 is there 2"),
    "unknown setting": (GIVEN, "{sparsty: 0.3}\n    m", "parameters.sparsty: again with profile paper"),
    "wrong preset": ("label: RBM\n", "label: RBM\n    preset: reference\n", "[0].preset: model rbm has no preset"),
    "axis without perturbation": (f"sparsity: {AXIS}", "n: [1, 2]}\n    measures", "needs a `perturb"),
    "not YAML": ("title: small", "title: [small", "has 1 problem"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_told_with_place_and_excerpt(name: str, tmp_path: Path) -> None:
    before, after, words = PROBLEMS[name]
    assert before in SMALL
    text = SMALL.replace(before, after, 1)
    with pytest.raises(InputError) as raised:
        load_suite(write_suite(tmp_path, text))
    message = str(raised.value)
    assert words in message
    line, column = map(int, re.findall(r"suite\.yaml:(\d+):(\d+): ", message)[0])
    assert f"{line:>6} | {text.splitlines()[line - 1]}" in message
    assert message.splitlines()[3].index("^") == 9 + column - 1


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = SMALL
    for name in ("wrong type", "unknown key inside", "missing key"):
        before, after, _ = PROBLEMS[name]
        text = text.replace(before, after, 1)
    with pytest.raises(InputError, match="has 3 problems") as raised:
        load_suite(write_suite(tmp_path, text))
    lines = [int(line) for line in re.findall(r"suite\.yaml:(\d+):\d+: ", str(raised.value))]
    assert len(lines) == 3
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"- 1\n- 2\n", "valid dictionary"),
        (b"format: 2020-13-45\n", "format"),
        (b"a:\n\tb: 1\n", "problem"),
    ],
)
def test_files_that_are_no_suite(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_suite(path)


def test_which_suite_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert suitefile.find_suite() == ROOT / "experiments.yaml"
    (tmp_path / "experiments.yaml").write_text(SMALL, encoding="utf-8")
    assert load_suite().title == "small"
    assert suitefile.find_suite(Path("other.yaml")) == Path("other.yaml")
