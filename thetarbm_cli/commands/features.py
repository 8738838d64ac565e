"""``thetarbm features``: a run's features, for use elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.session import Session, pass_session


@click.command("features")
@click.argument("run", shell_complete=complete_runs)
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="FILE.npz to write.")
@click.option(
    "--images",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="FILE.npz with `images` (N, h, w) [default: the run's own data].",
)
@pass_session
def command(session: Session, run: str, out: Path, images: Path | None) -> None:
    """Write the features of a run to FILE.npz.

    The file has `features` (N, H), `labels` and `split` (0 train, 1 valid, 2 test) where they are known.
    """
    from thetarbm_cli.experiments.runs.features import write_features

    place = session.workplace()
    count, units = write_features(place, place.store.find(run), out, images)
    click.echo(f"{out}: {count} images × {units} features")
