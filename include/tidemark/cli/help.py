"""How the help of commands is laid out: plain text, no sentence of it cut."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Group(TyperGroup):
    """Commands with the whole first sentence of each in their list."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for command in self.commands.values():
            command.short_help = (command.help or "").split("\n\n")[0]
        super().format_commands(ctx, formatter)
