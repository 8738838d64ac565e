"""A suite read from its file and checked as a whole: every problem is found at once.

Each is shown with path, line, column and an excerpt.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.multiverse import Readings
from thetarbm_cli.experiments.runs.record import SuitePart
from thetarbm_cli.experiments.suite.schema import PERTURBATION_AXES, Experiment, Suite
from thetarbm_cli.experiments.suite_file import MOST_CELLS, Document, Place, find_suite, read_document
from thetarbm_cli.outcomes import TABLES
from thetarbm_cli.registry import MODELS


def load_suite(given: Path | None = None, *, check_settings: bool = True) -> Suite:
    """Read and check a suite: the file that is given, else the one of the current folder, else the shipped one.

    With `check_settings`, those of every cell are tried on its model, too; who reads only records does without.
    """
    document = read_document(find_suite(given))
    try:
        suite = Suite.model_validate(document.content)
    except ValidationError as error:
        for problem in error.errors():
            _note(document, problem["loc"], problem["type"], problem["msg"])
        document.raise_problems()
        raise AssertionError("unreachable") from error
    _check_names(document, suite)
    _check_choices(document, suite)
    _check_options_named(document, suite)
    _check_size(document, suite)
    document.raise_problems()
    for number, experiment in enumerate(suite.experiments):
        _check_cells(document, experiment, ("experiments", number))
    document.raise_problems()
    if check_settings:
        _check_settings(document, suite)
        document.raise_problems()
        _check_options(document, suite)
        document.raise_problems()
    return suite


def suite_identity(suite: Suite, given: Path | None = None) -> SuitePart:
    """How records name the suite that they were made for: by its file's name and its title, whatever its content."""
    return SuitePart(file=find_suite(given).name, title=suite.title)


def _note(document: Document, location: tuple[int | str, ...], kind: str, message: str) -> None:
    """Note a problem that pydantic found; it names the alternatives of a union after the place, which are dropped."""
    place: list[int | str] = []
    for key in location:
        if (*place, key) not in document.marks and kind != "missing":
            break
        place.append(key)
    if kind == "extra_forbidden":
        document.add(tuple(place), "unknown key", at_key=True)
    elif tuple(place) not in document.noted:
        document.add(tuple(place), message[0].lower() + message[1:])


def _check_names(document: Document, suite: Suite) -> None:
    lists: dict[str, list[str]] = {
        "experiments": [each.name for each in suite.experiments],
        "assumptions": [each.name for each in suite.assumptions],
    }
    for section, names in lists.items():
        for number, name in enumerate(names):
            if name in names[:number]:
                document.add((section, number, "name"), f"the name {name!r} is taken by {section}[{names.index(name)}]")
    if "theory" in lists["experiments"]:
        document.add(("experiments", lists["experiments"].index("theory"), "name"), "'theory' is a name of its own")
    for name in suite.tables:
        # Files are called after tables, those of a number table1 and so on.
        if name in (*TABLES, "all", "verdicts") or re.fullmatch(r"table\d+", name):
            document.add(("tables", name), f"the name {name!r} is taken", at_key=True)
    for number, experiment in enumerate(suite.experiments):
        for place, name in enumerate(experiment.tables):
            if name not in suite.table_kinds:
                known = ", ".join(suite.table_kinds)
                document.add(
                    ("experiments", number, "tables", place), f"no table {name!r}: {known}, or add it to `tables`"
                )


def _check_choices(document: Document, suite: Suite) -> None:
    """Note choices without one taken option, or that are there twice."""
    owners: dict[str, str] = {}
    for number, assumption in enumerate(suite.assumptions):
        for name, choice in assumption.choices.items():
            place: Place = ("assumptions", number, "choices", name)
            if name in owners:
                document.add(place, f"the choice {name!r} is there for {owners[name]} already", at_key=True)
            owners[name] = assumption.name
            taken = [option for option, each in choice.options.items() if each.taken]
            if len(taken) != 1:
                document.add((*place, "options"), f"one option is to be `taken`, not {len(taken)}", at_key=True)
            elif choice.options[taken[0]].alone:
                document.add((*place, "options", taken[0], "alone"), "the taken option is never alone")


def _check_options_named(document: Document, suite: Suite) -> None:
    """Note names of choices, options and cells in readings and designs that are of nothing."""
    choices = suite.choices
    named: list[tuple[Place, dict[str, str]]] = [
        (("experiments", number, "readings"), each.readings) for number, each in enumerate(suite.experiments)
    ]
    if suite.multiverse is not None:
        named += [(("multiverse", "excludes", n), each) for n, each in enumerate(suite.multiverse.excludes)]
        named += [
            (("multiverse", "designs", design, "universes", name, "options"), each.options)
            for design, designed in suite.multiverse.designs.items()
            for name, each in designed.universes.items()
        ]
    for place, options in named:
        for name, option in options.items():
            if name not in choices or option not in choices[name].options:
                document.add((*place, name), f"there is no option {option!r} of {name!r}")
    if suite.multiverse is None:
        return
    document.raise_problems()
    cells = [(cell.experiment, cell.name) for cell in suite.cells(next(iter(suite.profiles)))]
    for design, each in suite.multiverse.designs.items():
        for number, name in enumerate(each.choices):
            if name not in choices:
                place = ("multiverse", "designs", design, "choices", number)
                document.add(place, f"there is no choice {name!r}: it has {', '.join(choices)}")
        for universe, named_universe in each.universes.items():
            for name in named_universe.options.keys() - set(each.choices):
                place = ("multiverse", "designs", design, "universes", universe, "options", name)
                document.add(place, f"the design has no choice {name!r}", at_key=True)
        for number, pattern in enumerate(each.cells):
            if not any(pattern == experiment or fnmatchcase(name, pattern) for experiment, name in cells):
                document.add(("multiverse", "designs", design, "cells", number), f"there is no cell {pattern!r}")


def _check_size(document: Document, suite: Suite) -> None:
    """Note a grid that is too large, before any of its cells is made."""
    counts = [math.prod(len(values) for values in each.grid.values()) for each in suite.experiments]
    total = len(suite.profiles) * sum(counts)
    if total > MOST_CELLS:
        place: Place = ("experiments", counts.index(max(counts)), "grid")
        document.add(place, f"the suite has {total} cells in its {len(suite.profiles)} profiles, {MOST_CELLS} may be")


def _check_cells(document: Document, experiment: Experiment, place: Place) -> None:
    """Note values that are in an axis twice, and published values that no run can be compared with."""
    for axis, values in experiment.grid.items():
        for value, count in Counter(map(repr, values)).items():
            if count > 1:
                document.add((*place, "grid", axis), f"the value {value} is there {count} times")
        if axis in PERTURBATION_AXES and experiment.perturbation is None:
            document.add((*place, "grid", axis), f"axis {axis!r} needs a `perturbation`", at_key=True)
    cells = [dict(zip(experiment.grid, values, strict=True)) for values in itertools.product(*experiment.grid.values())]
    seen: list[dict[str, Any]] = []
    for number, published in enumerate(experiment.published):
        if published.at not in cells:
            document.add((*place, "published", number, "at"), "a cell without runs: the grid has no such values")
        elif published.at in seen:
            document.add((*place, "published", number, "at"), "this cell has a published value already")
        seen.append(published.at)


def _check_settings(document: Document, suite: Suite) -> None:
    """Try the settings of every cell of every profile on their model."""
    numbers = {experiment.name: number for number, experiment in enumerate(suite.experiments)}
    for number, experiment in enumerate(suite.experiments):
        try:
            MODELS[experiment.model].preset(experiment.preset)
        except InputError as error:
            document.add(("experiments", number, "preset"), str(error))
    document.raise_problems()
    told = set()
    for profile in suite.profiles:
        for cell in suite.cells(profile):
            try:
                cell.settings()
            except InputError as error:
                number = numbers[cell.experiment]
                if (number, str(error)) not in told:
                    told.add((number, str(error)))
                    place = _guilty(document, ("experiments", number), profile, str(error))
                    document.add(place, f"{cell.name} with profile {profile}: {error}")


def _check_options(document: Document, suite: Suite) -> None:
    """Try the settings of the taken options together, and of every other one by itself, on each design's models."""
    places = {
        name: ("assumptions", number, "choices", name, "options")
        for number, assumption in enumerate(suite.assumptions)
        for name in assumption.choices
    }
    for design in suite.multiverse.designs if suite.multiverse else {}:
        readings = Readings(suite, design, next(iter(suite.profiles)))
        for universe in readings.universes():
            choice, _, option = universe.name.partition("=")
            place = (*places[choice], option) if option else ("multiverse", "designs", design)
            for cell in readings.cells(universe):
                try:
                    cell.settings()
                except InputError as error:
                    if place not in document.noted:
                        document.add(place, f"{cell.model}: {error}", at_key=True)
            if universe.kind == "default":
                document.raise_problems()


def _guilty(document: Document, place: Place, profile: str, message: str) -> Place:
    """The most special place whose key the message names; else the experiment."""
    words = message.replace("'", " ").replace(":", " ").replace(".", " ").split()
    sections: list[Place] = [
        (*place, "grid"),
        (*place, "perturbation"),
        (*place, "svm"),
        (*place, "parameters"),
        (*place, "data"),
        ("profiles", profile, "parameters"),
        ("profiles", profile, "data"),
        ("defaults", "parameters"),
    ]
    for section in sections:
        for known in document.key_marks:
            if known[:-1] == section and known[-1] in words:
                return known
    return place
