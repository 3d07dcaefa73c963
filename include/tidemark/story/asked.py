"""Which row of gold is meant: by a time in its window, and by its keys.

A time that is a window's start means that window, any other one the window that it lies in. Keys
come as text or as values; those that lack are asked for by the rows that gold has.
"""

from __future__ import annotations

import json
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
from tidemark.operators.operator import Operator
from tidemark.operators.row_range import RowRange
from tidemark.operators.sessions.sessions import Gapped
from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.model import CalendarTable
from tidemark.pipeline.problems import nearest
from tidemark.recompute.differences import plain
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

NULL = ":null"
MOST_CHOICES = 10
_TICK = timedelta(microseconds=1)


class NoRowNamed(ValueError):
    """What was asked with is no time of a window or no key of the table; the message says why."""


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
        return _key_of(self.row.to_pylist()[0])

    def found_in(
        self, rows: Any, names: Mapping[str, str], condition: str, most: int | None
    ) -> list[dict[str, Any]]:
        """What a table or a relation has of it; `names` are what that calls its identity. None for
        `most`: all."""
        started = f"window_start = {literal(self.start)}"
        return rows_like(self.row, names, rows, f"{started} AND {condition}", "k.*", most)


def rows_like(
    row: pa.Table, names: Mapping[str, str], rows: Any, condition: str, what: str, most: int | None
) -> list[dict[str, Any]]:
    """Of a table of Delta, or a relation, the first rows that fulfil a condition and are as `row`
    in what they call its columns, None: all of them; null is a value as any other."""
    with duckdb_in_utc() as connection:
        if isinstance(rows, DeltaTable):
            # delta-rs does not compare a literal of a time with its own, but text.
            rows = dataset_of(rows, condition.replace("TIMESTAMPTZ ", ""))
        connection.register("known", rows)
        connection.register("given", row)
        alike = (f'k."{own}" IS NOT DISTINCT FROM g."{name}"' for name, own in names.items())
        found: list[dict[str, Any]] = (
            connection.sql(
                f"SELECT {what} FROM (FROM known WHERE {condition}) k SEMI JOIN given g "
                f"ON {' AND '.join(['true', *alike])} "
                f"ORDER BY ALL LIMIT {'NULL' if most is None else most}"
            )
            .to_arrow_table()
            .to_pylist()
        )
    return found


def literal(instant: datetime) -> str:
    """A time, as DuckDB takes it."""
    return f"TIMESTAMPTZ '{instant.isoformat()}'"


def key_of(texts: Sequence[str]) -> dict[str, str | None]:
    """Keys as the command takes them: `COL=VALUE`, and `COL:null` for null. `COL=` is the empty
    text. NoRowNamed where one is neither, or a column comes twice."""
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            if not text.endswith(NULL):
                raise NoRowNamed(f"{text!r} is no key: write COL=VALUE, or COL{NULL} for null")
            name = text.removesuffix(NULL)
        if name in found:
            raise NoRowNamed(f"the key {name} is given twice")
        found[name] = value if equals else None
    return found


def row_options(start: datetime, key: Mapping[str, Any]) -> str:
    """What the command is asked for a row."""
    told = (f"{name}{NULL}" if value is None else f"{name}={_text(plain(value))}"
            for name, value in key.items())  # fmt: skip
    return " ".join([f"--window {plain(start)}", *(f"--key {shlex.quote(one)}" for one in told)])


def _text(value: Any) -> str:
    is_nested = isinstance(value, Mapping | list)
    return json.dumps(value, ensure_ascii=False) if is_nested else str(value)


def row_asked(
    operator: Operator,
    gold: DeltaTable,
    changes: Sequence[tuple[DeltaTable, Mapping[str, str]]],
    window: datetime | date | str,
    key: Mapping[str, Any],
) -> Asked:
    """The row that is meant: one that starts then, which only a former generation may know, before
    one that gold or its own history has then. `changes`: the histories, the newest first, and what
    each calls the columns of a row's identity. NoRowNamed for a time or a key that is none;
    RowUnclear where several rows may be meant, or none is known where a window has no bounds of its
    own."""
    schema = schema_of(gold)
    # Before anything is read: what reading raises is no fault of what was asked.
    try:
        given = _typed(operator, schema, key)
        instant = _instant(operator, window)
        meant = None if isinstance(operator, Gapped) else _window(operator, instant)
    except (ValueError, OverflowError) as error:
        raise NoRowNamed(str(error)) from error
    lacking = [name for name in operator.identity[1:] if name not in given]
    end: datetime | None = None
    if meant is None:
        at = literal(instant)
        sought = [f"window_start = {at}", f"window_start <= {at} AND window_end >= {at}"]
    else:
        end = meant.last_end
        if not lacking:
            return Asked(_row(schema, {"window_start": meant.first_start, **given}), end)
        sought = [f"window_start = {literal(meant.first_start)}"]
    # DuckDB knows no table without a column.
    like = _row(schema, given) if given else pa.table({"_": [None]})
    tables = [(gold, {name: name for name in operator.identity}), *changes]
    known: list[dict[str, Any]] = []
    for one, (table, names) in (
        *((sought[0], one) for one in tables),
        *((one, table) for one in sought[1:] for table in tables[:2]),
    ):
        what = ", ".join(f'k."{own}" AS "{name}"' for name, own in names.items())
        of_key = {name: names[name] for name in given}
        known = rows_like(like, of_key, table, one, f"DISTINCT {what}", MOST_CHOICES + 1)
        if known:
            break
    if len(known) != 1:
        raise _unclear(known, lacking, instant)
    return Asked(_row(schema, {name: known[0][name] for name in operator.identity}), end)


def _row(schema: pa.Schema, values: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: pa.array([of], schema.field(name).type) for name, of in values.items()})


def _instant(operator: Operator, window: datetime | date | str) -> datetime:
    """A date alone is one of the table's zone, where it has one."""
    if isinstance(operator.table, CalendarTable):
        with suppress(ValueError):
            zone = ZoneInfo(operator.table.window.zone)
            return datetime.combine(date.fromisoformat(str(window)), time(), zone).astimezone(UTC)
    return utc_instant(str(window))


def _window(operator: Operator, instant: datetime) -> RowRange:
    """The one that starts then, or else the only one that holds the time. Of a slide longer than
    the length, a time may be in no window."""
    windows = list(_windows_at(operator, instant))
    if not windows:
        raise ValueError(f"{instant.isoformat()} is in no window of the table")
    if windows[-1].first_start != instant and len(windows) > 1:
        raise _refused(
            f"{len(windows)} windows hold that time, so give the start of one:",
            [f"--window {plain(one.first_start)}" for one in windows],
        )
    return windows[-1]


def _windows_at(operator: Operator, instant: datetime) -> Iterator[RowRange]:
    first = operator.first_start_touching(instant)
    while (later := operator.starting_in(first, instant + _TICK)) is not None:
        first = later.first_start + _TICK
        one = operator.starting_in(later.first_start, first)
        assert one is not None
        if one.last_end > instant:
            yield one


def _typed(operator: Operator, schema: pa.Schema, key: Mapping[str, Any]) -> dict[str, Any]:
    known = operator.identity[1:]
    for name in key:
        if name not in known:
            near = nearest(name, known)
            hint = f" Did you mean `{near}`?" if near else ""
            raise ValueError(
                f"`{name}` is no key of the table.{hint} Its keys: {', '.join(known) or 'none'}"
            )
    return {name: None if value is None else _value(name, value, schema.field(name).type)
            for name, value in key.items()}  # fmt: skip


def _value(name: str, value: Any, kind: pa.DataType) -> Any:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    try:
        if is_text or not isinstance(value, str):
            fault = f"{value!r} is no value of the key {name}, which is {kind}"
            return pa.scalar(value, kind).as_py()
        if pa.types.is_nested(kind):
            fault = f"{value!r:.200} is no {kind} in JSON, as the key {name} is"
            # Numbers as text: a float of Python's would round decimals.
            found = json.loads(value, parse_float=str, parse_int=str, parse_constant=str)
            return _part(name, found, kind)
        fault = f"{value!r} is no {kind}, as the key {name} is"
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return bytes.fromhex(value)
        if not pa.types.is_timestamp(kind):
            return pa.scalar(value).cast(kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError(fault) from None
    return utc_instant(value)


def _part(name: str, found: Any, kind: pa.DataType) -> Any:
    """What JSON says of a list, a struct or what is in one."""
    if found is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(found, dict) or found.keys() - {field.name for field in kind}:
            raise ValueError("other fields")
        return {field.name: _part(name, found.get(field.name), field.type) for field in kind}
    if isinstance(kind, pa.ListType | pa.LargeListType):
        if not isinstance(found, list):
            raise ValueError("no list")
        return [_part(name, one, kind.value_type) for one in found]
    return _value(name, found, kind)


def _unclear(
    known: Sequence[Mapping[str, Any]], lacking: Sequence[str], at: datetime
) -> RowUnclear:
    if not known:
        return RowUnclear(
            f"Neither gold nor its history has a row with these keys at {plain(at)}. Is it of "
            "another time or key? `tidemark.read` shows what gold has.",
            (),
        )
    what = f"Which row is meant? Give {', '.join(lacking)} too" if lacking else "Several rows fit"
    return _refused(
        f"{what}. Gold has:", [row_options(row["window_start"], _key_of(row)) for row in known]
    )


def _refused(why: str, choices: Sequence[str]) -> RowUnclear:
    shown = tuple(choices[:MOST_CHOICES])
    more = [f"… and more than these {MOST_CHOICES}"] if len(choices) > MOST_CHOICES else []
    return RowUnclear("\n  ".join([why, *shown, *more]), shown)


def _key_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "window_start"}
