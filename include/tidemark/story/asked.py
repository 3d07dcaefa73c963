"""Which row of gold is meant: by a time in its window, and by its keys.

A time that is a window's start means that window, any other one the window that it lies in. Keys
come as text or as values; those that lack are asked for by the rows that gold has.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import RowUnclear
from tidemark.operators.calendars.grid import unit_at
from tidemark.operators.operator import Operator, listed
from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.model import CalendarTable, CalendarWindow, WindowTable
from tidemark.pipeline.problems import nearest
from tidemark.recompute.differences import plain
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

NULL = ":null"
MOST_CHOICES = 10
_TICK = timedelta(microseconds=1)
_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Asked:
    """The row: a table with its identity in one row, in gold's types; its end, where a time's
    window has one by itself."""

    row: pa.Table
    window_end: datetime | None

    @property
    def start(self) -> datetime:
        found: datetime = self.row.column("window_start")[0].as_py()
        return found

    @property
    def key(self) -> dict[str, Any]:
        """Its identity but for the window's start."""
        (values,) = self.row.to_pylist()
        return {name: value for name, value in values.items() if name != "window_start"}


def key_of(texts: Sequence[str]) -> dict[str, str | None]:
    """Keys as the command takes them: `COL=VALUE`, and `COL:null` for null. `COL=` is the empty
    text. ValueError where one is neither, or a column comes twice."""
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            if not text.endswith(NULL):
                raise ValueError(f"{text!r} is no key: write COL=VALUE, or COL{NULL} for null")
            name = text.removesuffix(NULL)
        if name in found:
            raise ValueError(f"the key {name} is given twice")
        found[name] = value if equals else None
    return found


def key_text(key: Mapping[str, Any]) -> str:
    """Keys as the command's options."""
    told = (f"{name}{NULL}" if value is None else f"{name}={plain(value)}"
            for name, value in key.items())  # fmt: skip
    return " ".join(f"--key {_quoted(one)}" for one in told)


def row_asked(
    operator: Operator,
    gold: DeltaTable,
    changes: DeltaTable | None,
    window: datetime | date | str,
    key: Mapping[str, Any],
) -> Asked:
    """The row that is meant. ValueError for a time or a key that is none; RowUnclear where several
    rows may be meant, or none is known where a window has no bounds of its own."""
    given = _typed(operator, schema_of(gold), key)
    instant, starts = _starts(operator, window)
    lacking = [name for name in operator.identity[1:] if name not in given]
    if starts is not None:
        if len(starts) > 1:
            raise _several_windows(starts)
        if not lacking:
            return _asked(operator, schema_of(gold), starts[0], given)
        sought = [f"window_start = {_literal(starts[0])}"]
    else:
        at = _literal(instant)
        sought = [f"window_start = {at}", f"window_start <= {at} AND window_end >= {at}"]
    tables = [table for table in (gold, changes) if table is not None]
    known = next(
        (found for one in sought for table in tables
         if (found := _known(operator, table, one, given))), []
    )  # fmt: skip
    if len(known) != 1:
        raise _unclear(known, lacking, instant)
    (row,) = known
    return _asked(operator, schema_of(gold), row.pop("window_start"), row)


def _starts(
    operator: Operator, window: datetime | date | str
) -> tuple[datetime, list[datetime] | None]:
    """The time, and the starts of the windows that may be meant; None where rows tell them."""
    table = operator.table
    if isinstance(table, CalendarTable):
        instant = _local(table.window, window)
        return instant, [unit_at(table.window, instant).start]
    instant = utc_instant(str(window))
    if not isinstance(table, WindowTable):
        return instant, None
    found = operator.starting_in(instant - table.window.length + _TICK, instant + _TICK)
    # Of a slide longer than the length, a time may be in no window.
    starts = []
    if found is not None:
        steps = (found.last_start - found.first_start) // table.window.slide
        starts = [found.first_start + table.window.slide * n for n in range(steps + 1)]
    if not starts:
        raise ValueError(f"{instant.isoformat()} is in no window of the table")
    return instant, [instant] if instant in starts else starts


def _local(window: CalendarWindow, asked: datetime | date | str) -> datetime:
    """A date alone is one of the table's zone."""
    with suppress(ValueError):
        day = date.fromisoformat(str(asked))
        return datetime.combine(day, time(), ZoneInfo(window.zone)).astimezone(UTC)
    return utc_instant(str(asked))


def _typed(operator: Operator, schema: pa.Schema, key: Mapping[str, Any]) -> dict[str, Any]:
    known = operator.identity[1:]
    found = {}
    for name, value in key.items():
        if name not in known:
            near = nearest(name, known)
            hint = f" Did you mean `{near}`?" if near else ""
            raise ValueError(
                f"`{name}` is no key of the table.{hint} Its keys: {', '.join(known) or 'none'}"
            )
        found[name] = None if value is None else _value(name, value, schema.field(name).type)
    return found


def _value(name: str, value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, str) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        fault, given = f"{value!r} is no value of the key {name}, which is {kind}", value
    else:
        fault, given = f"{value!r} is no {kind}, as the key {name} is", _parsed(value, kind)
    try:
        return pa.scalar(given, kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise ValueError(fault) from None


def _parsed(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind):
        return utc_instant(text)
    try:
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return bytes.fromhex(text)
        return pa.array([text]).cast(kind)[0].as_py()
    except (pa.ArrowException, ValueError):
        # Not of the type: who makes a value of it says so.
        return text


def _asked(operator: Operator, schema: pa.Schema, start: datetime, key: Mapping[str, Any]) -> Asked:
    row = {"window_start": start, **key}
    fields = [schema.field(name) for name in operator.identity]
    columns = [pa.array([row[field.name]], field.type) for field in fields]
    table, end = operator.table, None
    if isinstance(table, CalendarTable):
        end = unit_at(table.window, start).end
    elif isinstance(table, WindowTable):
        end = start + table.window.length
    return Asked(pa.table(columns, names=list(operator.identity)), end)


def _known(
    operator: Operator, table: DeltaTable, sought: str, given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows of gold, or of its history: their identities, a few."""
    fields = [schema_of(table).field(name) for name in given]
    columns = [pa.array([given[field.name]], field.type) for field in fields]
    with duckdb_in_utc() as connection:
        # delta-rs does not compare a literal of a time with its own, but text.
        connection.register("known", dataset_of(table, sought.replace("TIMESTAMPTZ ", "")))
        same = ["true"]
        if given:
            connection.register("given", pa.table(columns, names=list(given)))
            same = [f'k."{name}" IS NOT DISTINCT FROM g."{name}"' for name in given]
        names, beside = listed(operator.identity, "k"), ", given g" if given else ""
        found = connection.sql(
            f"""
            SELECT DISTINCT {names} FROM (FROM known WHERE {sought}) k {beside}
            WHERE {" AND ".join(same)} ORDER BY {names} LIMIT {MOST_CHOICES + 1}
            """
        ).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _literal(instant: datetime) -> str:
    return f"TIMESTAMPTZ '{instant.isoformat()}'"


def _several_windows(starts: Sequence[datetime]) -> RowUnclear:
    choices = tuple(f"--window {_text(start)}" for start in starts)
    return RowUnclear(
        f"{len(starts)} windows hold that time, so give the start of one:\n" + _lines(choices),
        choices,
    )


def _unclear(
    known: Sequence[Mapping[str, Any]], lacking: Sequence[str], at: datetime
) -> RowUnclear:
    if not known:
        return RowUnclear(
            f"Neither gold nor its history has a row with these keys at {_text(at)}. Is it of "
            "another time or key? `tidemark.read` shows what gold has.",
            (),
        )
    choices = tuple(_choices(known))
    more = f"\n  … and more than these {MOST_CHOICES}" if len(known) > MOST_CHOICES else ""
    what = f"Which row is meant? Give {', '.join(lacking)} too" if lacking else "Several rows fit"
    return RowUnclear(f"{what}. Gold has:\n{_lines(choices)}{more}", choices)


def _choices(known: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in known[:MOST_CHOICES]:
        key = {name: value for name, value in row.items() if name != "window_start"}
        yield f"--window {_text(row['window_start'])} {key_text(key)}".rstrip()


def _lines(choices: Sequence[str]) -> str:
    return "\n".join(f"  {one}" for one in choices)


def _text(instant: datetime) -> str:
    return str(plain(instant))


def _quoted(text: str) -> str:
    """The text as a word of a shell."""
    return shlex.quote(text)
