"""How reports are printed: lines and tables, of which nothing is ever cut, or as JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from tidemark.printed import shown, unguarded

_GAP = "  "
_INDENT = "    "
_BETWEEN = " · "
# Sentences in a narrower column than this are harder to read than below the row.
_LEAST_OF_SENTENCES = 24
# In a file a sentence may be far longer than anybody's screen.
_LONGEST_RULE = 160
# A command between backticks is one word, so that it can be copied.
_WORD = re.compile(r"[^\s`]*`[^`]*`\S*|\S+")


class _TextConsole(Console):
    """Styles what it prints, each string of which it shows as text."""

    def render_str(self, text: str, **options: Any) -> Text:
        room = self.width if self.is_terminal else sys.maxsize
        return super().render_str("\n".join(_filled(shown(text), room)), **options)


def report_console(out: TextIO | None = None) -> Console:
    """A console, of stdout unless told, that breaks lines between words, and only in a terminal: a
    file or a pipe has whole ones."""
    return _TextConsole(
        file=unguarded(out or sys.stdout), soft_wrap=True,
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip


def progress_console() -> Console:
    """What draws progress into a terminal, on stderr."""
    return _TextConsole(file=unguarded(sys.stderr), highlight=False, markup=False)


def report_table(*columns: str) -> ReportTable:
    """An empty table, the one kind that commands print. A column that is named `>NAME` is NAME,
    ranged right; `~NAME` holds sentences."""
    return ReportTable(tuple(map(_column, columns)))


def facts_table(facts: Mapping[str, str]) -> ReportTable:
    """A table without a header: a row for each name, with what there is to say of it."""
    table = report_table("", "~")
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def _column(named: str) -> _Column:
    setting = named[:1] if named.startswith((">", "~")) else ""
    return _Column(shown(named.removeprefix(setting)).split("\n"), setting)


@dataclass
class _Column:
    """A column: its part of each line of the header, and how it is set: `>`, `~` or neither."""

    header: list[str]
    setting: str
    cells: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return " ".join(self.header)

    @property
    def width(self) -> int:
        lines = [line for cell in self.cells for line in cell.split("\n")]
        return max(map(cell_len, [*self.header, *lines]))

    @property
    def least(self) -> int:
        """The width that it needs: sentences go on in further lines, all else is on one."""
        if self.setting != "~":
            return self.width
        return min(self.width, max(*map(cell_len, self.header), _LEAST_OF_SENTENCES))

    def has_room(self, row: int, width: int) -> bool:
        """Does each word of this row's cell stand on one line?"""
        words = _WORD.findall(self.cells[row]) if self.setting == "~" else ()
        return max(map(cell_len, words), default=0) <= width

    def set(self, text: str, width: int) -> str:
        blanks = " " * (width - cell_len(text))
        return blanks + text if self.setting == ">" else text + blanks


@dataclass
class ReportTable:
    """Rows below the names of their columns; no name, time or number of them is ever broken.

    In a terminal, the columns for which it is not wide enough stand below the row's first line,
    each with its name. A file or a pipe is as wide as it has to be: a row is a line of it.
    """

    columns: tuple[_Column, ...]
    styles: list[str] = field(default_factory=list)

    def add_row(self, *cells: str, style: str | None = None) -> None:
        """Cells that are left out at the end are empty."""
        self.styles.append(style or "")
        given = [*cells, *[""] * (len(self.columns) - len(cells))]
        for column, cell in zip(self.columns, given, strict=True):
            lines = cell if column.setting == "~" else cell.replace("\n", "\\n")
            column.cells.append(shown(lines.replace("\t", "\\t")))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        room = options.max_width if console.is_terminal else sys.maxsize
        widths = _widths(self.columns, room)
        for line, style in self._lines(widths, room):
            yield Text(line.rstrip(), style, overflow="ignore")

    def _lines(self, widths: Sequence[int], room: int) -> Iterator[tuple[str, str]]:
        beside, below = self.columns[: len(widths)], self.columns[len(widths) :]
        if any(column.name for column in self.columns):
            high = max(len(column.header) for column in beside)
            headers = [[*[""] * (high - len(one.header)), *one.header] for one in beside]
            yield from ((line, "bold") for line in _side_by_side(beside, headers, widths))
            wide = sum(widths) + len(_GAP) * (len(widths) - 1)
            yield "─" * min(wide, _LONGEST_RULE), ""
        for row, style in enumerate(self.styles):
            held = [one.has_room(row, width) for one, width in zip(beside, widths, strict=True)]
            cells = [
                _filled(one.cells[row], width) if fits else [""]
                for one, width, fits in zip(beside, widths, held, strict=True)
            ]
            yield from ((line, style) for line in _side_by_side(beside, cells, widths))
            rest = [*(one for one, fits in zip(beside, held, strict=True) if not fits), *below]
            pairs = [(column.name, column.cells[row]) for column in rest if column.cells[row]]
            yield from ((_INDENT + line, style) for line in _stacked(pairs, room - len(_INDENT)))


def _widths(columns: Sequence[_Column], room: int) -> list[int]:
    """Of as many columns as there is room for, the first one in any case."""
    widths: list[int] = []
    left = room + len(_GAP)
    for column in columns:
        left -= column.least + len(_GAP)
        if left < 0 and widths:
            left += column.least + len(_GAP)
            break
        widths.append(column.least)
    for number, column in enumerate(columns[: len(widths)]):
        more = max(0, min(column.width - column.least, left))
        widths[number] += more
        left -= more
    return widths


def _side_by_side(
    columns: Sequence[_Column], cells: Sequence[Sequence[str]], widths: Sequence[int]
) -> Iterator[str]:
    for line in range(max(map(len, cells))):
        yield _GAP.join(
            column.set(own[line] if line < len(own) else "", width)
            for column, own, width in zip(columns, cells, widths, strict=True)
        )


def _stacked(pairs: Sequence[tuple[str, str]], room: int) -> Iterator[str]:
    """Names with what is told of them, as many on a line as it has room for."""
    short: list[str] = []
    for name, cell in pairs:
        label = f"{name}:" if name else ""
        pair = f"{label} {cell}".strip()
        if cell_len(pair) <= room and "\n" not in pair:
            short.append(pair)
            continue
        yield from _packed(short, _BETWEEN, room)
        # Not broken where a line of its own holds it.
        yield from [label, cell] if cell_len(cell) <= room else _filled(pair, room)
        short = []
    yield from _packed(short, _BETWEEN, room)


def _filled(text: str, room: int) -> list[str]:
    """The lines of a text, each broken between words where it is longer than there is room."""
    lines: list[str] = []
    for line in text.split("\n"):
        if cell_len(line) <= room:
            lines.append(line)
        else:
            lead = line[: len(line) - len(line.lstrip(" "))]
            parts = _packed(_WORD.findall(line), " ", room - len(lead))
            lines += [f"{lead}{part}" for part in parts]
    return lines


def _packed(pieces: Sequence[str], between: str, room: int) -> list[str]:
    """Lines with as many pieces on each as it has room for, and at least one."""
    lines: list[str] = []
    for piece in pieces:
        longer = f"{lines[-1]}{between}{piece}" if lines else piece
        if lines and cell_len(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(piece)
    return lines


def print_lines(lines: Iterable[str]) -> None:
    """Print a report that is lines alone."""
    console = report_console()
    for line in lines:
        console.print(line)


def shortened(text: str, longest: int) -> str:
    """The text, which ends in … where it was longer."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def print_documents(documents: list[dict[str, object]]) -> None:
    """A list, also of one, so that a reader needs no second case. Times are ISO 8601."""
    print(json.dumps(documents, indent=2, ensure_ascii=False, default=datetime.isoformat))
