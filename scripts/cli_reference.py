"""The page ``docs/cli.md``, made from the code: every command, option, default, exit code, variable and setting."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from thetarbm_cli.cli import COMMANDS, COMPLETION_VARIABLE, root
from thetarbm_cli.experiments.runs.settings import DataSettings, Perturbation, SVMSettings
from thetarbm_cli.models import model_class
from thetarbm_cli.models.base import Parameter
from thetarbm_cli.registry import MODELS

DEFAULT = re.compile(r"\s*\[default: ([^\]]+)\]")

OPENING = f"""\
# Command line

Made from the code by `make docs`; a test checks that it is current. `thetarbm COMMAND --help` says the same.

```
thetarbm [GLOBAL OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]
```

Results are printed on stdout, everything else on stderr. Where a command has `--json`, it prints exactly one JSON
object, of the form `schema/COMMAND.schema.json` ([folder](schema)). Every error is one sentence on stderr that begins
with `error:`.

## Variables

Every global option below has a variable, over which the option wins. Further variables:

| variable | what it does |
| --- | --- |
| `NO_COLOR` | not empty: nothing is coloured, not even on a terminal |
| `TERM=dumb` | `thetarbm show` draws with ASCII alone |
| `THETARBM_FASHION_DIR` | folder of [Fashion-MNIST](beyond.md#rotated-fashion-mnist)'s four files |
| `{COMPLETION_VARIABLE}` | `bash_source`, `zsh_source` or `fish_source` prints the script that switches completion on |
"""

SETTINGS = """\
What `--set KEY=VALUE` of [`train`](#thetarbm-train) and [`perturb`](#thetarbm-perturb) may say, and `parameters` in a
suite. A value is JSON where it can be, a plain word else; `null` is none. The reasons for the defaults are in
[reproduction.md](reproduction.md). Models that find the orientation of an image, {oriented}, are called *oriented*.
"""

COLUMNS = ("option", "default", "what it does")
GLOBAL = ("option", "variable", "default", "what it does")
# An option that this many commands have is described once.
SHARED = 2


def reference() -> str:
    """The page on the command line."""
    context = click.Context(root, info_name="thetarbm", auto_envvar_prefix="THETARBM")
    listed = ", ".join(f"[`{name}`](#thetarbm-{name})" for name in COMMANDS)
    parts = [OPENING, "## Global options\n"]
    parts += [_table(GLOBAL, [*_lines(root, context, variables=True).values()])]
    parts += ["## Exit codes\n", _codes(), "## Commands\n", _filled(f"{listed}.")]
    commands = {name: command for name in COMMANDS if (command := root.get_command(context, name))}
    lines = {name: _lines(command, context) for name, command in commands.items()}
    counts = Counter(option for own in lines.values() for option in own.items())
    # By name: of two options of one name, the rarer is described with each command.
    shared = set(dict(option for option, count in reversed(counts.most_common()) if count >= SHARED).values())
    parts += ["## Options of several commands\n", _table(COLUMNS, sorted(shared))]
    for name, command in commands.items():
        parts.append(_command(name, command, lines[name], shared))
    settings = _filled(SETTINGS.format(oriented=", ".join(_oriented())))
    return "\n".join(f"{part.rstrip()}\n" for part in [*parts, "## Settings\n", settings, _settings()])


def _command(name: str, command: click.Command, lines: dict[str, str], shared: set[str]) -> str:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    parts = [f"## thetarbm {name}\n"]
    if arguments:
        usage = " ".join(["thetarbm", name, "[OPTIONS]", *(_metavar(argument) for argument in arguments)])
        parts.append(f"```\n{usage}\n```\n")
    parts.append(_prose(command))
    own = [line for line in lines.values() if line not in shared]
    if own:
        parts.append(_table(COLUMNS, own))
    if also := [names for names, line in lines.items() if line in shared]:
        parts.append(f"Also {', '.join(also)}.\n")
    return "\n".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def _metavar(argument: click.Argument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _prose(command: click.Command) -> str:
    """The command's help; paragraphs that click keeps as they are become code."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        kept = lines[0] == "\b"
        parts.append("```sh\n" + "\n".join(lines[1:]) + "\n```" if kept else _filled(" ".join(lines)))
    return "\n\n".join(parts) + "\n"


def _lines(command: click.Command, context: click.Context, *, variables: bool = False) -> dict[str, str]:
    """A line of a table for each option: how it is written, its variable, its default, what it does."""
    lines = {}
    for option in command.params:
        if isinstance(option, click.Option):
            text = option.help or ""
            named = DEFAULT.search(text)
            default = f"`{_default(option, context)}`" if _default(option, context) else named[1] if named else ""
            variable = f"`{context.auto_envvar_prefix}_{(option.name or '').upper()}`" if option.expose_value else ""
            words = [
                _spelling(option),
                *([variable] if variables else []),
                "**required**" if option.required else default,
                DEFAULT.sub("", text) + (" May be given several times." if option.multiple else ""),
            ]
            cells = " | ".join(word.replace("|", "\\|") for word in words)
            lines[", ".join(f"`{word}`" for word in option.opts)] = f"| {cells} |"
    return lines


def _table(headings: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join([f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}", *lines]) + "\n"


def _spelling(option: click.Option) -> str:
    value = ""
    if not option.is_flag and not option.count:
        value = f" {option.metavar or _kind(option.type)}"
    return ", ".join(f"`{word}{value}`" for word in option.opts)


def _kind(kind: click.ParamType) -> str:
    """A type in a word: the choices, or what kind of value."""
    if isinstance(kind, click.Choice):
        return "|".join(map(str, kind.choices))
    if isinstance(kind, click.Path):
        return "FOLDER" if not kind.file_okay else "FILE" if not kind.dir_okay else "PATH"
    return {"integer range": "INTEGER", "float range": "NUMBER", "float": "NUMBER"}.get(kind.name, kind.name.upper())


def _default(option: click.Option, context: click.Context) -> str:
    value = option.get_default(context, call=False)
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _codes() -> str:
    """Exit codes as the help of the program tells them."""
    _, _, listed = (root.epilog or "").partition(":")
    codes = [word.strip().partition(" ") for word in listed.strip().rstrip(".").split(",")]
    return "\n".join(["| code | meaning |", "| --- | --- |", *(f"| {code} | {text} |" for code, _, text in codes)])


def _settings() -> str:
    """A line for each setting of the models, then those of data and perturbation."""
    owners: dict[Parameter, list[str]] = {}
    for model in MODELS.own:
        for parameter in model_class(model).declared.values():
            if parameter.setting:
                owners.setdefault(parameter, []).append(model)
    lines = ["| key | default | values | meaning | models |", "| --- | --- | --- | --- | --- |"]
    for parameter in sorted(owners, key=lambda parameter: parameter.name):
        models = owners[parameter]
        values = ", ".join(f"`{word}`" for word in parameter.choices) or parameter.range
        named = "all" if len(models) == len(MODELS.own) else "oriented" if models == _oriented() else ", ".join(models)
        lines.append(f"| `{parameter.name}` | `{_word(parameter.default)}` | {values} | {parameter.about} | {named} |")
    for section, kind in (("data", DataSettings), ("svm", SVMSettings), ("perturbation", Perturbation)):
        for name, field in kind.model_fields.items():
            default = "**required**" if field.is_required() else f"`{_word(field.default)}`"
            models = "oriented" if section == "perturbation" else "all"
            lines.append(f"| `{section}.{name}` | {default} |  | {field.description or ''} | {models} |")
    changed = ", ".join(f"`{name}={_word(value)}`" for name, value in MODELS["tirbm"].preset("reference").items())
    return "\n".join([*lines, "", _filled(f"The preset `reference` of the TI-RBM: {changed}.")])


def _oriented() -> list[str]:
    return [model for model in MODELS.own if model_class(model).uses_orientations]


def _word(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"
