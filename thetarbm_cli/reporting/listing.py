"""Records as lines of a list: what a run is and what was measured, by name; all runs, or where some differ.

Neither pandas nor a model is imported, so that a list of many records is there at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.experiments.runs.record import Measured, RunRecord
from thetarbm_cli.outcomes import DEFAULT, MEASURES, NOT_ALIGNED, column_name
from thetarbm_cli.outputs import Compare, ListedRun

MAIN = ("test_error_percent", "gamma_train", "gamma_test")
# What a list is sorted by most, and short forms of it.
SHORT = {"error": "test_error_percent", "gamma": "gamma_test"}
SORTED_BY = ("run", "model", "seed", "sparsity", *SHORT, *MAIN)


def settings_of(record: RunRecord) -> dict[str, Any]:
    """Give all that a run is by name: model and seed, complete settings as ``--set`` names them, images, origin."""
    settings, train, test, git = record.settings, record.data.train, record.data.test, record.environment.git
    return {
        "run": record.run,
        "state": record.state,
        "algorithm": record.algorithm,
        "model": settings.model,
        "seed": record.seed,
        **record.parameters,
        **settings.by_name(),
        "dataset": test.dataset,
        "source": test.source,
        "sha256": test.sha256,
        "train_dataset": train.dataset,
        "train_sha256": train.sha256,
        "cells": tuple(record.cells),
        "backend": record.backend,
        "revision": git.revision if git else None,
        "dirty": git.dirty if git else None,
        "version": record.environment.model_dump().get("version"),
    }


def numbers_of(record: RunRecord) -> Iterator[Measured]:
    """Give all numbers of a record: measures, the last epoch, time and memory."""
    if record.metrics is not None:
        yield from record.metrics.numbers()
    for measure in ("reconstruction_error", "mean_activation"):
        if record.history:
            yield Measured(measure, DEFAULT, record.history[-1][measure])
    if "train_seconds" in record.timings:
        yield Measured("train_seconds", DEFAULT, record.timings["train_seconds"])
    if record.training_products is not None:
        yield Measured("train_gigaflops", DEFAULT, 2e-9 * record.training_products)
    yield Measured("peak_memory_megabytes", DEFAULT, record.peak_memory_megabytes)


def columns_of(record: RunRecord) -> dict[str, float]:
    """Give the numbers of a record by the names that JSON outputs have; γ for another Δ with its degrees."""
    return {
        column_name(each.measure, each.variant)
        + (f"_{each.offset:g}" if each.measure == "gamma_offset_train" else ""): each.value
        for each in numbers_of(record)
    }


def list_runs(records: Iterable[RunRecord], where: Sequence[str] = (), sort: str = "run") -> list[ListedRun]:
    """List the runs that are as `where` says, in the order of a setting or number; ``-`` before it turns it round.

    Parameters
    ----------
    where : words ``key=value``, of which all must hold
    """
    lines = [(record, {**settings_of(record), **columns_of(record)}) for record in records]
    names = {name for _, known in lines for name in known}
    # Names that an empty folder knows, too.
    names |= {"run", "model", "seed", "state", "dataset", "source", "sparsity", *MEASURES}
    for word in where:
        key, equals, text = word.partition("=")
        if not key or not equals:
            raise InputError(f"--where takes key=value, not {word!r}")
        _check_name(key, names, "--where")
        lines = [line for line in lines if _is(line[1].get(key), text)]
    key = SHORT.get(sort.removeprefix("-"), sort.removeprefix("-"))
    _check_name(key, names, "--sort", SORTED_BY)
    known = [line for line in lines if line[1].get(key) is not None]
    known.sort(key=lambda line: (line[1]["model"], line[0].seed, line[0].run))
    known.sort(key=lambda line: _sortable(line[1][key]), reverse=sort.startswith("-"))
    return [_listed(*line) for line in [*known, *(line for line in lines if line[1].get(key) is None)]]


def _check_name(name: str, names: set[str], option: str, main: Sequence[str] = ()) -> None:
    if name not in names:
        # The main names first: one of them that is near is meant.
        hint = did_you_mean(name, main, "") or did_you_mean(name, sorted(names), "list --csv shows what they have")
        most = f" (the main ones are {', '.join(main)})" if main else ""
        raise InputError(f"{option}: no record has a setting or number {name!r}{most}; {hint}")


def _is(value: Any, text: str) -> bool:
    """Whether a value is the one that is written: JSON where it can be, a plain word else; of cells, one of them."""
    if isinstance(value, (list, tuple)):
        return text in value or text in [cell.rpartition("@")[0] for cell in value]
    try:
        wanted = None if text.lower() == "none" else json.loads(text)
    except ValueError:
        wanted = text
    return str(value) == text or (value == wanted and isinstance(value, bool) == isinstance(wanted, bool))


def _sortable(value: Any) -> tuple[bool, Any]:
    """Numbers come before words."""
    is_number = isinstance(value, (int, float))
    return not is_number, value if is_number else str(value)


def _listed(record: RunRecord, known: dict[str, Any]) -> ListedRun:
    names = [column_name(name, variant) for variant in (DEFAULT, NOT_ALIGNED) for name in MAIN]
    return ListedRun(
        run=record.run,
        model=record.settings.model,
        seed=record.seed,
        state=record.state,
        differs={**record.settings.differing_parameters, **record.settings.by_name(exclude_defaults=True)},
        dataset=record.data.test.dataset,
        source=record.data.test.source,
        **dict.fromkeys(MAIN),
        cells=record.cells,
    ).model_copy(update={name: known[name] for name in names if name in known})


def compare_runs(records: Sequence[RunRecord]) -> Compare:
    """Find the settings and numbers in which runs differ."""
    ignored = ("run", "cells", "revision", "dirty")
    settings = [{name: each for name, each in settings_of(record).items() if name not in ignored} for record in records]
    return Compare(
        runs=[record.run for record in records],
        settings=_differing(settings),
        measures=_differing([columns_of(record) for record in records]),
    )


def _differing(values: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Values by name, one of each, where they are not all the same."""
    names = dict.fromkeys(name for each in values for name in each)
    found = {name: [each.get(name) for each in values] for name in names}
    return {name: each for name, each in found.items() if any(value != each[0] for value in each)}
