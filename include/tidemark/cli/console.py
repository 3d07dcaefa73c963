"""How reports are printed: wide enough, in plain tables, or as JSON."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from rich.box import SIMPLE
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from tidemark.printed import shown, unguarded


class _TextConsole(Console):
    """Styles what it prints, each string of which it shows as text."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(shown(text), **options)


def report_console(width_of_a_file: int = 140) -> Console:
    """A console that is wide enough, also into a file or a pipe."""
    options: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console = _TextConsole(file=unguarded(sys.stdout), **options)
    # A file or pipe has no width; a table that is cut would lose names and numbers.
    width = console.width if console.is_terminal else width_of_a_file
    return _TextConsole(file=unguarded(sys.stdout), width=width, **options)


def report_table(*columns: str, overflow: OverflowMethod = "ellipsis") -> Table:
    """An empty table; a column that is named `>NAME` is NAME, ranged right. Without any columns it
    has no header."""
    table = Table(box=SIMPLE, show_edge=False, show_header=bool(columns))
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, overflow=overflow)
    return table


def print_documents(documents: list[dict[str, object]]) -> None:
    """A list, also of one, so that a reader needs no second case. Times are ISO 8601."""
    print(json.dumps(documents, indent=2, ensure_ascii=False, default=datetime.isoformat))
