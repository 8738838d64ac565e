"""``thetarbm prepare-data``: make or find prepared data, and show what it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.options import UserPath, images_option, json_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.registry import DATASETS, source_names
from thetarbm_cli.ui import print_fields, print_text

if TYPE_CHECKING:
    from thetarbm_cli.data.prepared import Prepared, PreparedData

# Data sets that are made from what is in the package.
SHIPPED = [entry.name for entry in DATASETS if entry.shipped]
# More classes than these are summed up in a line of their own.
MOST_CLASSES_SHOWN = 12


@click.command()
@click.option(
    "--dataset",
    type=click.Choice([*DATASETS.names, "all"]),
    help=f"What to prepare; all is {' and '.join(SHIPPED)} [default: mnist-rot].",
)
@images_option
@click.option(
    "--archive",
    type=UserPath(),
    help="Local copy of the official archive, mnist_rotation_new.zip or a folder with its two files; "
    "for fashion-rot, the folder of Fashion-MNIST's four files.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help="Seed of choice and angles.",
)
@click.option("--force", is_flag=True, help="Make the data again even if it is there.")
@json_option
@pass_session
def command(
    session: Session,
    dataset: str | None,
    source: str,
    archive: Path | None,
    seed: int,
    force: bool,
) -> None:
    """Prepare a data set, or your own images.

    The data is made once and found again; a damaged file is made again. A preview picture is put next to it.
    """
    from thetarbm_cli.data.prepare import prepare
    from thetarbm_cli.data.prepared import PreparedSets
    from thetarbm_cli.errors import InputError

    if dataset is not None and source not in source_names():
        raise InputError(f"--dataset is not for your own images: leave it out with --source {source}")
    names = SHIPPED if dataset == "all" else [dataset or "mnist-rot"]
    found = []
    for name in names:
        options: dict[str, Any] = {"source": source, "archive": archive}
        if dataset == "all" and source not in DATASETS[name].sources:
            options = {}
        with session.progress(f"preparing {name if source in source_names() else source}") as progress:
            prepared = prepare(session.data_dir, name, seed=seed, force=force, progress=progress, **options)
        found.append(_describe(session, prepared))
    if not session.print_json(PreparedSets(datasets=found) if dataset == "all" else found[0]):
        for data in found:
            print_text(f"{data.dataset} ({data.source}, seed {data.seed}){', cached' if data.cached else ''}")
            print_fields(_as_fields(data), indent=2)


def _describe(session: Session, prepared: Prepared) -> PreparedData:
    """Gather what is printed about one data set."""
    from thetarbm_cli.data.prepare import orientation_shares, recognise_archive
    from thetarbm_cli.data.prepared import PreparedData, summarise
    from thetarbm_cli.reporting.figures.images import find_or_write_preview

    with session.progress(f"orientations of {prepared.dataset}") as progress:
        shares = orientation_shares(prepared, progress)
    recognised = recognise_archive(prepared)
    archive: dict[str, Any] = {"archive": recognised} if recognised else {}
    return PreparedData(
        dataset=prepared.dataset,
        source=prepared.source,
        seed=prepared.seed,
        path=str(prepared.path),
        sha256=prepared.sha256,
        **dict(summarise(prepared)),
        orientations=shares,
        preview=str(find_or_write_preview(prepared)),
        cached=prepared.cached,
        **archive,
    )


def _as_fields(data: PreparedData) -> list[tuple[str, str]]:
    """Lay a data set out for people."""
    step = 360 / len(data.orientations)
    shares = "  ".join(f"{index * step:g}° {share:.1%}" for index, share in enumerate(data.orientations))
    return [
        *((part, f"{count:>6} images  {_classes_as_text(data.classes[part])}") for part, count in data.splits),
        *([("archive", data.archive)] if data.archive else []),
        ("pixels", f"mean {data.pixel_mean:.4f}, std {data.pixel_std:.4f}"),
        ("orientations", shares),
        ("sha256", data.sha256),
        ("file", data.path),
        ("preview", data.preview),
    ]


def _classes_as_text(classes: dict[str, int]) -> str:
    if not classes:
        return ""
    if len(classes) > MOST_CLASSES_SHOWN:
        return f"{len(classes)} classes of {min(classes.values())} to {max(classes.values())}"
    return "  ".join(f"{label}: {count}" for label, count in classes.items())
