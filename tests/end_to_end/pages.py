"""The tables and examples of the pages in docs/, for the tests that work them out again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.kit.running import REPOSITORY


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text()


def table_under(text: str, name: str) -> str:
    """The table that follows a page's comment `<!-- name -->`."""
    found = re.search(rf"<!-- {re.escape(name)} -->\n\n((?:\|.*\n)+)", text)
    assert found, f"no table {name}"
    return found[1]


def examples_under(text: str, title: str, language: str) -> list[str]:
    """The code of a language under a title of any level."""
    section = re.split(rf"^#+ {re.escape(title)}\n", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def example_after(text: str, name: str) -> str:
    """The code that follows a page's comment `<!-- name -->`."""
    found = re.search(rf"<!-- {re.escape(name)} -->\n\n```\w+\n(.*?)```", text, re.DOTALL)
    assert found, f"no example {name}"
    return found[1]


def as_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a table of a page; null is a dash."""
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    cells = [["–" if cell is None else _cell(cell) for cell in row] for row in rows]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"


def _cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
