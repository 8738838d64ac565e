"""Choices that a registry gives."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from thetarbm_cli.registry import Registry


class RegistryChoice(click.Choice):  # type: ignore[type-arg]  # Generic since click 8.4 only
    """A name from a registry; plug-ins are looked for only when a name is unknown or all are shown."""

    def __init__(self, registry: Registry[Any]) -> None:
        super().__init__(list(registry.own))
        self._registry = registry

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a name."""
        return super().convert(value, param, ctx) if value in self.choices else self._all().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, *context: Any, **named: Any) -> str | None:
        """List the names for the help; click gives a context since 8.2, by name."""
        return self._all().get_metavar(param, *context, **named)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Complete a name."""
        return self._all().shell_complete(ctx, param, incomplete)

    def _all(self) -> click.Choice[str]:
        return click.Choice(self._registry.names)
