"""The page ``docs/cli.md``, made from the code: every command, option, default, exit code, variable and setting."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

import click

from thetarbm_cli.cli import COMMANDS, COMPLETION_VARIABLE, root
from thetarbm_cli.parameters import Parameter, declared, parameters_of
from thetarbm_cli.registry import MODELS
from thetarbm_cli.specs import MEASURE_NAMES, SVM, MeasureSettings, Perturbation, TrainData

DEFAULT = re.compile(r"\s*\[default: ([^\]]+)\]")

OPENING = """\
# Command line

Made from the code by `make docs`. `thetarbm COMMAND --help` says the same.

```
thetarbm [GLOBAL OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]
```

Results go to stdout, everything else to stderr. With `--json` a command prints exactly one JSON object, of the form
`schema/COMMAND.schema.json` ([folder](schema)). An error is one sentence that begins with `error:`.

Below, a default is in brackets after its option; an option with … may be given several times.
"""

VARIABLES = f"""\
An option wins over its variable. Further variables:

- `NO_COLOR`: if not empty, nothing is coloured, not even on a terminal.
- `THETARBM_FASHION_DIR`: folder of [Fashion-MNIST](beyond.md#rotated-fashion-mnist)'s four files.

To complete commands, runs and cells with Tab, put the line of your shell into its startup file:

```sh
eval "$({COMPLETION_VARIABLE}=bash_source thetarbm)"       # ~/.bashrc, bash 4.4 or newer
eval "$({COMPLETION_VARIABLE}=zsh_source thetarbm)"        # ~/.zshrc, after compinit
{COMPLETION_VARIABLE}=fish_source thetarbm | source        # ~/.config/fish/config.fish
```
"""

SETTINGS = """\
What `--set KEY=VALUE` and `set` of a suite may say. A value is JSON where it can be, a plain word else; `null`
is none. The first value in brackets is the default, with its reason in [reproduction.md](reproduction.md). A setting
of one model replaces the one of that name above it.
"""

GLOBAL = ("option", "variable", "default", "what it does")
# An option that this many commands have is described once.
SHARED = 2


def reference() -> str:
    """The page on the command line."""
    context = click.Context(root, info_name="thetarbm", auto_envvar_prefix="THETARBM")
    listed = ", ".join(f"[`{name}`](#thetarbm-{name})" for name in COMMANDS)
    parts = [OPENING, "## Global options\n", _globals(context), VARIABLES]
    parts += ["## Exit codes\n", _codes(), "## Commands\n", _filled(f"{listed}.")]
    commands = {name: command for name in COMMANDS if (command := root.get_command(context, name))}
    lines = {name: _lines(command, context) for name, command in commands.items()}
    users: dict[str, list[str]] = {}
    for name, own in lines.items():
        for line in own.values():
            users.setdefault(line, []).append(name)
    shared = {line: names for line, names in users.items() if len(names) >= SHARED}
    parts += ["## Options of several commands\n", _list(_shared_lines(shared))]
    for name, command in commands.items():
        parts.append(_command(name, command, lines[name], set(shared)))
    return "\n".join(f"{part.rstrip()}\n" for part in [*parts, "## Settings\n", SETTINGS, _settings()])


def _shared_lines(shared: dict[str, list[str]]) -> list[str]:
    """The options of several commands; of two that have one name, each says whose it is."""
    names = Counter(_written(line) for line in shared)
    whose = {line: f" Of {', '.join(users)}." if names[_written(line)] > 1 else "" for line, users in shared.items()}
    return [line + whose[line] for line in sorted(shared)]


def _written(line: str) -> str:
    """The name of an option, from its line."""
    return line.split()[0].strip("`")


def _command(name: str, command: click.Command, lines: dict[str, str], shared: set[str]) -> str:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    parts = [f"## thetarbm {name}\n"]
    if arguments:
        parts.append(f"`{' '.join(['thetarbm', name, '[OPTIONS]', *map(_metavar, arguments)])}`\n")
    parts.append(_prose(command))
    # An option that is a setting of models, as --sparsity, is described with the settings.
    set_by_name = [names for names in lines if "`--set`" in lines and names.strip("`-") in _setting_names()]
    if own := [line for names, line in lines.items() if line not in shared and names not in set_by_name]:
        parts.append(_list(own))
    also = [names for names, line in lines.items() if line in shared]
    settings = [f"and the [settings](#settings) {', '.join(set_by_name)}"] if set_by_name else []
    if also:
        parts.append(_filled(f"Also {', '.join([*also, *settings])}.") + "\n")
    return "\n".join(parts)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(_filled(f"- {line}", indent="  ") for line in lines) + "\n"


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _metavar(argument: click.Argument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _prose(command: click.Command) -> str:
    """The command's help; paragraphs that click keeps as they are become code."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if lines[0] == "\b":
            parts.append("\n".join(["```sh" if lines[1].startswith("thetarbm") else "```", *lines[1:], "```"]))
        else:
            parts.append(_filled(" ".join(lines)))
    return "\n\n".join(parts) + "\n"


def _lines(command: click.Command, context: click.Context) -> dict[str, str]:
    """A line for each option, by its names: how it is written, its default, what it does."""
    lines = {}
    for option in command.params:
        if isinstance(option, click.Option):
            default = "required" if option.required else _default(option, context)
            words = [_spelling(option), *(["…"] if option.multiple else []), *([f"({default})"] if default else [])]
            names = ", ".join(f"`{word}`" for word in option.opts)
            lines[names] = f"{' '.join(words)}: {DEFAULT.sub('', option.help or '')}"
    return lines


def _globals(context: click.Context) -> str:
    """The options of the program itself, with their variables."""
    lines = [f"| {' | '.join(GLOBAL)} |", f"|{' --- |' * len(GLOBAL)}"]
    for option in root.params:
        if isinstance(option, click.Option):
            variable = f"`{context.auto_envvar_prefix}_{(option.name or '').upper()}`" if option.expose_value else ""
            text = DEFAULT.sub("", option.help or "")
            words = [_spelling(option), variable, _default(option, context), text]
            lines.append(f"| {' | '.join(word.replace('|', chr(92) + '|') for word in words)} |")
    return "\n".join(lines) + "\n"


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
    """The default as code, or in the words of the help; empty if there is none."""
    value = option.get_default(context, call=False)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return f"`{value}`"
    named = DEFAULT.search(option.help or "")
    return named[1] if named else ""


def _codes() -> str:
    """Exit codes as the help of the program tells them."""
    _, _, listed = (root.epilog or "").partition(":")
    codes = [word.strip().partition(" ") for word in listed.strip().rstrip(".").split(",")]
    return "\n".join(["| code | meaning |", "| --- | --- |", *(f"| {code} | {text} |" for code, _, text in codes)])


def _setting_names() -> set[str]:
    return {name for model in MODELS.own for name in declared(model)}


def _settings() -> str:
    """A line for each setting of the models, by whose it is, then those of the run."""
    owners: dict[str, dict[Parameter, list[str]]] = {}
    for model in MODELS.own:
        for name, parameter in declared(model).items():
            owners.setdefault(name, {}).setdefault(parameter, []).append(model)
    groups: dict[tuple[str, ...], list[Parameter]] = {}
    for versions in owners.values():
        every = tuple(model for model in MODELS.own if any(model in models for models in versions.values()))
        usual = max(versions, key=lambda parameter: len(versions[parameter]))
        for parameter, models in versions.items():
            groups.setdefault(every if parameter == usual else tuple(models), []).append(parameter)
    parts = []
    for models, parameters in sorted(groups.items(), key=lambda group: -len(group[0])):
        lines = []
        for parameter in sorted(parameters, key=lambda parameter: parameter.name):
            values = _values(f"`{_word(parameter.default)}`", parameter.choices, parameter.range)
            lines.append(f"`{parameter.name}` ({values}): {parameter.about}")
        parts += [f"Of {', '.join(models)}:\n", _list(lines)]
    oriented = ", ".join(model for model in MODELS.own if parameters_of(model).uses_orientations)
    trained = {f"data.{name}": field for name, field in TrainData.model_fields.items()}
    perturbation = {f"perturbation.{name}": field for name, field in Perturbation.model_fields.items()}
    measured = {
        name: SVM.model_fields[path.removeprefix("svm.")]
        if path.startswith("svm.")
        else MeasureSettings.model_fields[path]
        for path, name in MEASURE_NAMES.items()
    }
    for title, fields in (
        ("every training", trained),
        (f"{oriented}, for Table 3", perturbation),
        ("a measurement, as `evaluate` and suites take them", measured),
    ):
        lines = []
        for name, field in fields.items():
            default = "required" if field.is_required() else f"`{_word(field.default)}`"
            words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            lines.append(f"`{name}` ({_values(default, words)}): {field.description or ''}")
        parts += [f"Of {title}:\n", _list(lines)]
    return "\n".join(parts)


def _values(default: str, choices: Sequence[str], interval: str = "") -> str:
    """The default, then what else there is."""
    others = [f"`{word}`" for word in choices if f"`{word}`" != default]
    return ", ".join([default, *others]) + (f"; {interval}" if interval else "")


def _word(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"
