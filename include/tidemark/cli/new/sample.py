"""The rows of a sample: the first lines of its files, those that are one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tidemark.errors import SampleUnusable
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.files.lines import first_lines
from tidemark.sources.source import REASON

if TYPE_CHECKING:
    import pyarrow as pa

MOST_LINES = 10_000
_SHOWN = 60

Row = dict[str, Any]


@dataclass(frozen=True)
class KnownType:
    """What the source itself says of a column: its type in a pipeline's words, and whether it may
    be null. `note` tells people what of it is lost; `unusable` why it can be no column."""

    type: str
    nullable: bool = True
    note: str = ""
    unusable: str = ""


@dataclass(frozen=True)
class Sample:
    """Rows in the order in which they came, by which a pipeline is proposed.

    `looked_at` counts all that were looked at, also what is no row, and `as_lines` has all of it as
    a run of a pipeline reads it (the columns of `Slice.lines`): what becomes of it is for the judge
    to say. `row` is what people call one.

    `schema` has the types of the columns by name, where the source tells them. `beside` are columns
    that rows may have beside their own fields, with a value for each row.
    """

    rows: tuple[Row, ...]
    looked_at: int
    as_lines: Callable[[Pipeline], Sequence[pa.Table]] = field(repr=False)
    row: str = "line"
    schema: Mapping[str, KnownType] | None = None
    beside: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How many were looked at, for people."""
        first = "the first " if self.looked_at == MOST_LINES else ""
        return f"{first}{counted(self.looked_at, self.row)}"


@dataclass(frozen=True)
class SourceSample:
    """What `--from` names, with the first rows that lie there: `source` are the entries of a
    pipeline's `source` that say where rows come from; `reasons` are comments on them."""

    source: Mapping[str, Any]
    sample: Sample
    reasons: tuple[str, ...] = ()


def read_sample(places: Iterable[str], settings: Settings) -> Sample:
    """The first MOST_LINES lines of these files. SampleUnusable where hardly any is a row."""
    files = list(places)
    pieces: list[pa.Table] = []
    options, most_bytes = settings.storage_options, settings.max_line_bytes
    try:
        for place in files:
            if left := MOST_LINES - sum(map(len, pieces)):
                pieces += first_lines(place, options, left, most_bytes)
    except SampleUnusable as error:
        raise SampleUnusable(f"{error} Nothing was written.") from error
    values = [line for piece in pieces for line in piece["_value"].to_pylist()]
    lines = [line for line in values if line is not None]
    rows = rows_of(pieces)
    if 2 * len(rows) <= len([line for line in lines if line.strip()]):
        raise SampleUnusable(f"{_without_rows(files, lines, len(rows))} Nothing was written.")
    return Sample(rows, len(lines), lambda _: pieces)


def rows_of(pieces: Iterable[pa.Table]) -> tuple[Row, ...]:
    """The objects of those lines that are one, and that the source's kind does not reject."""
    read: list[Row | None] = []
    for piece in pieces:
        columns = piece.to_pydict()
        values, reasons = columns["_value"], columns.get(REASON, [None] * len(piece))
        read += [
            row_of(value)
            for value, reason in zip(values, reasons, strict=True)
            if value is not None and reason is None
        ]
    return tuple(row for row in read if row is not None)


def row_of(line: bytes) -> Row | None:
    """The line's object, None where it is none: what a proposal is made of, no verdict."""
    try:
        found = json.loads(
            line.decode(), object_pairs_hook=_without_twins, parse_constant=_no_number
        )
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def counted(number: int, what: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _without_twins(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands twice")
    return found


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _without_rows(files: list[str], lines: list[bytes], rows: int) -> str:
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        return f"{name}: no line holds anything. Take a file that has rows."
    if first.lstrip().startswith(b"["):
        return (
            f"{name} is a JSON array. A source is JSON lines, one object a line: "
            "`jq -c '.[]' FILE` makes them of an array."
        )
    if first.strip() == b"{":
        return (
            f"{name} has its objects on several lines. A source is JSON lines, one object a line: "
            "`jq -c . FILE` makes them."
        )
    other = next(line for line in lines if line.strip() and row_of(line) is None)
    shown = other[:_SHOWN].decode(errors="replace")
    if rows:
        having = f"has {len(lines):,} lines, of which {rows:,} are one JSON object; the first other"
    else:
        having = "has no line that is one JSON object; the first"
    return f"{name} {having} is `{shown}`. A source is JSON lines, one object a line."
