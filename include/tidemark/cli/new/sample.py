"""The rows of a sample: the first lines of its files, those that are one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from tidemark.errors import SampleUnusable
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.files.lines import first_lines

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
    """Rows in the order in which they came. `passed_over` counts those that are none: a run rejects
    them. `row` is what people call one, `fault` what those that are none have in common.

    `schema` has the types of the columns by name, where the source tells them. `beside` are columns
    that rows may have beside their own fields, with a value for each row.
    """

    rows: tuple[Row, ...]
    passed_over: int
    row: str = "line"
    fault: str = "Not JSON objects"
    schema: Mapping[str, KnownType] | None = None
    beside: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """How many were looked at, for people."""
        seen = len(self.rows) + self.passed_over
        first = "the first " if seen == MOST_LINES else ""
        return f"{first}{counted(seen, self.row)}"


def read_sample(places: Iterable[str], settings: Settings) -> Sample:
    """The first MOST_LINES lines of these files. SampleUnusable where no row is among them."""
    files, lines = list(places), list[bytes]()
    try:
        for place in files:
            if (left := MOST_LINES - len(lines)) == 0:
                break
            options, most_bytes = settings.storage_options, settings.max_line_bytes
            for piece in first_lines(place, options, left, most_bytes):
                lines += cast("list[bytes]", piece["_value"].to_pylist())
    except SampleUnusable as error:
        raise SampleUnusable(f"{error} Nothing was written.") from error
    parsed = [row_of(line) for line in lines]
    rows = tuple(row for row in parsed if row is not None)
    if not rows:
        raise SampleUnusable(f"{_without_rows(files, lines)} Nothing was written.")
    return Sample(rows, len(lines) - len(rows))


def row_of(line: bytes) -> Row | None:
    """The line's object; None for what the ingest rejects as malformed."""
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


def _without_rows(files: list[str], lines: list[bytes]) -> str:
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
    shown = first[:_SHOWN].decode(errors="replace")
    return (
        f"{name} has no line that is one JSON object; the first is `{shown}`. A source is JSON "
        "lines, one object a line."
    )
