"""The command line: global options, and the commands by name, each imported only when it is called."""

from __future__ import annotations

import importlib
import io
import logging
import os
import re
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from thetarbm_cli import __version__, followup
from thetarbm_cli.commands.common import Session, UserPath
from thetarbm_cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, ThetaRBMError, did_you_mean
from thetarbm_cli.ui import say

logger = logging.getLogger("thetarbm")

# Set by the script of a shell that asks what may follow, or wants the script itself.
COMPLETION_VARIABLE = "_THETARBM_COMPLETE"

# Commands: the module of thetarbm_cli.commands that has each, and the first line of its help.
COMMANDS = {
    "demo": ("suite", "Show the paper's comparison at a quick size, beside the full-size results."),
    "prepare-data": ("system", "Prepare a data set, or your own images."),
    "train": ("runs", "Train one model; a finished run is found again, a cut-off one resumed."),
    "evaluate": ("runs", "Measure runs: RBF-SVM test error and γ-score."),
    "features": ("runs", "Write the features of a run to a file."),
    "perturb": ("runs", "Make Table 3: test error under perturbed orientations."),
    "run": ("suite", "Make the runs of the suite that are missing."),
    "status": ("suite", "Say what of the suite is done, and why the rest is not."),
    "tables": ("tables", "Print the paper's tables and the verdicts, from the records."),
    "multiverse": ("multiverse", "Judge the claims over all plausible readings of the paper."),
    "report": ("report", "Write one HTML page with everything, for a browser."),
    "list": ("records", "List all runs: the settings that set each apart, and its numbers."),
    "show": ("records", "Show one run: settings, numbers, history, files; or where several differ."),
    "figures": ("figures", "Draw figures of what was measured and learned."),
    "pack": ("records", "Put the records of many runs into one file."),
    "clean": ("records", "Remove stale runs, or the weights."),
    "verify": ("system", "Check the paper's lemma and theorem numerically."),
    "info": ("system", "Show versions, backend, threads, folders and what is prepared."),
}


class CommandError(Exception):
    """What went wrong in a command, as one sentence with its exit code."""

    def __init__(self, error: Exception) -> None:
        super().__init__(_sentence(error))
        self.exit_code = error.exit_code if isinstance(error, ThetaRBMError) else EXIT_FAILED


class CommandGroup(click.Group):
    """A group whose commands are imported when they are called, so that ``--help`` needs only click."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; whatever goes wrong in it becomes a sentence, after a traceback with --debug."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            # Click's own ways to end. A reader that went away (`| head`) ends the program without a word.
            raise
        except Exception as error:
            if ctx.params["debug"]:
                traceback.print_exc()
            raise CommandError(error) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move global options before the command, --json behind it, and parse.

        The value of an option is the next word, or stands after ``=``.
        """
        options = {name: each for each in self.params if isinstance(each, click.Option) for name in each.opts}
        before, after, words = [], [], list(args)
        while words:
            word = words.pop(0)
            if word == "--":
                after += [word, *words]
                break
            name, equals, _ = word.partition("=")
            if name not in options or name == "--version":
                after.append(word)
                continue
            before.append(word)
            if not options[name].is_flag and not equals:
                if not words and not ctx.resilient_parsing:
                    raise click.BadOptionUsage(name, f"Option {name!r} requires an argument.", ctx)
                before += words[:1]
                del words[:1]
        if after[:1] == ["--json"]:
            after[:2] = reversed(after[:2])
        return super().parse_args(ctx, before + after)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; ``help`` is its --help, and of an unknown one, say what is meant."""
        if args == ["help"]:
            click.echo(ctx.get_help())
            ctx.exit()
        args = [args[1], "--help"] if args[0] == "help" else args
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            hint = did_you_mean(name, COMMANDS, "")
            ctx.fail(f"No such command {name!r}{f'; {hint}' if hint else ''}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names in the order a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and find it there."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"thetarbm_cli.commands.{COMMANDS[cmd_name][0]}")
        found = (each for each in vars(module).values() if isinstance(each, click.Command) and each.name == cmd_name)
        return next(found)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete commands from the table above, and options."""
        commands = [
            CompletionItem(name, help=about) for name, (_, about) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table above, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.command(
    cls=CommandGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "THETARBM",
        "show_default": True,
    },
    epilog="Exit codes: 0 done, 1 something failed, 2 wrong usage or input, 3 runs are missing, 130 interrupted.",
)
@click.option("--data-dir", type=UserPath(file_okay=False), help="Folder of prepared data [default: user cache].")
@click.option("--results", type=UserPath(file_okay=False), help="Folder of runs and tables [default: ./results].")
@click.option(
    "--backend",
    type=click.Choice(["auto", "numpy", "cupy"]),
    default="auto",
    help="Array library; auto takes CuPy only if a GPU answers.",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, help="BLAS threads.")
@click.option("--quiet", is_flag=True, help="Print results and errors only.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.version_option(__version__, prog_name="thetarbm", allow_from_autoenv=False)
@click.pass_context
def root(
    ctx: click.Context,
    data_dir: Path | None,
    results: Path | None,
    backend: str,
    threads: int,
    quiet: bool,
    debug: bool,
) -> None:
    """Reproduce the Theta-RBM paper: rotation-invariant features on mnist-rot.

    Global options may stand anywhere, and have variables: --data-dir is THETARBM_DATA_DIR, and so on.
    """
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    ctx.obj = Session.open(data_dir, results, backend, threads, quiet)
    ctx.with_resource(followup.repeating(followup.CallOptions(_given_words(ctx))))


def _given_words(ctx: click.Context) -> tuple[str, ...]:
    """Repeat the global options that decide what a command does, as given on the line or by variables."""
    given = [
        (parameter.opts[0], str(ctx.params[parameter.name]))
        for parameter in ctx.command.params
        if parameter.name in ("data_dir", "results", "backend", "threads")
        and ctx.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
    ]
    return tuple(word for option in given for word in option)


class _StderrHandler(logging.Handler):
    """Messages, of which warnings say so, go to the stderr of the moment, so that stdout carries results only."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        say(f"warning: {message}" if record.levelno >= logging.WARNING else message)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code; without arguments, show the help."""
    logger.handlers[:] = [_StderrHandler()]
    logger.propagate = False
    # Where the locale has no γ, a question mark is better than no output.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # A cluster ends a job with SIGTERM: treat it as Ctrl-C, so that nothing is left half written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if COMPLETION_VARIABLE in os.environ:
        from thetarbm_cli.commands.completion import register_shells

        register_shells()
    sys.exit(_invoke((sys.argv[1:] if arguments is None else arguments) or ["--help"]))


def _invoke(arguments: list[str]) -> int:
    """Call the root command and turn whatever happens into an exit code."""
    try:
        result: Any = root.main(
            args=arguments, prog_name="thetarbm", complete_var=COMPLETION_VARIABLE, standalone_mode=False
        )
    except CommandError as error:
        say(f"error: {error}")
        return error.exit_code
    except click.ClickException as error:
        say(f"error: {_usage(error)}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted; the same command goes on from here")
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else 0


def _usage(error: click.ClickException) -> str:
    """Put click's message, which may have several lines, on one, and say where the help is."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    problem = " ".join(error.format_message().split()).removesuffix(".")
    if isinstance(error, click.NoSuchOption) and not error.possibilities:
        names = [name for each in root.params for name in each.opts]
        hint = did_you_mean(error.option_name, names, "")
        problem += f"; {hint}" if hint else ""
    # A choice: click lists all there are, in quotes.
    elif isinstance(error, click.BadParameter) and (chosen := re.search("'([^']*)' is not one of (.+)", problem)):
        hint = did_you_mean(chosen[1], re.findall("'([^']+)'", chosen[2]), "")
        problem += f"; {hint}" if hint else ""
    return f"{problem} (see {context.command_path if context else 'thetarbm'} --help)"


def _sentence(error: Exception) -> str:
    """Say it in one sentence: our own errors as they are, the system's, and any other as a bug."""
    if isinstance(error, ThetaRBMError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{str(error) or 'out of memory'}; a smaller --profile or fewer --hidden units need less"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unexpected {what}; run again with --debug for the traceback"
