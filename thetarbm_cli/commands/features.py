"""``thetarbm features``: a run's features, for use elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import UserPath
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.ui import print_text


@click.command("features")
@click.argument("run", shell_complete=complete_runs)
@click.option(
    "--out",
    required=True,
    type=UserPath(dir_okay=False, allow_dash=True),
    help="FILE.npz or FILE.csv to write; - is CSV on stdout.",
)
@click.option(
    "--images",
    type=UserPath(dir_okay=False, exists=True),
    help="FILE.npz with `images` (N, h, w) [default: the run's own data].",
)
@pass_session
def command(session: Session, run: str, out: Path, images: Path | None) -> None:
    """Write the features of a run to a file.

    RUN is as for evaluate. FILE.npz has `features` (N, H), and `labels` and `split` (0 train, 1 valid, 2 test) where
    they are known; FILE.csv has a line for each image, with the columns label, split, unit0, unit1, …
    """
    from thetarbm_cli.experiments.runs.loading import write_features

    context = session.run_context()
    count, units = write_features(context, context.store.find(run), out, images)
    what = f"{count} images × {units} features"
    if str(out) == "-":
        session.say(what)
    else:
        print_text(f"{out}: {what}", indent=2)
