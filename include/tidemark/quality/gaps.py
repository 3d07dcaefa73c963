"""Stretches of time in which gold has no row, as it would be after the publish.

Gold alone is read: from `since` on, the starts of its windows, the keys that are asked for and what
tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa

from tidemark.operators.calendars.grid import units
from tidemark.operators.operator import same_row
from tidemark.pipeline.checks import Check, Gaps
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import epoch_us, instant_of
from tidemark.pipeline.model import CalendarTable, CalendarWindow, Window, WindowTable
from tidemark.quality.conditions import where_of
from tidemark.quality.planned_rows import PlannedRows
from tidemark.quality.verdicts import MOST_EXAMPLES, CheckVerdict, check_name, short
from tidemark.storage.arrow_kinds import kinds_of
from tidemark.storage.delta.dataset import dataset_of

# So many of a check stand in memory.
MOST_STRETCHES = 5_000_000
_MICROSECOND = timedelta(microseconds=1)
# What DuckDB says where a file of gold cannot be read: that is no word on its rows.
_UNREAD = "reading the stream registered as 'kept' failed"


def judge_gaps(rows: PlannedRows) -> Iterator[CheckVerdict]:
    """A verdict for each check of a table's gaps; `rows` are the stretches that it looked at."""
    for check in rows.table.checks:
        if isinstance(check.asked, Gaps):
            try:
                expected, missing, observed = _gaps(rows, check, check.asked)
            except duckdb.OperationalError:
                raise
            except (duckdb.Error, ValueError, ArithmeticError) as error:
                if _UNREAD in str(error):
                    raise
                expected, missing, observed = 0, None, f"nobody can tell: {error}"
            yield CheckVerdict(
                table=rows.name,
                check=check_name(check),
                severity=check.severity,
                passed=missing == 0,
                observed=observed,
                rows=expected,
                unexpected=missing,
            )


def _gaps(rows: PlannedRows, check: Check, asked: Gaps) -> tuple[int, int, str]:
    """How many closed stretches there are, how many of them have no row, and both in words."""
    keys = [f'"{name}"' for name in asked.by]
    of_keys = "".join(f"{key}, " for key in keys)
    _find_rows(rows, check, asked, of_keys)
    if isinstance(rows.table, CalendarTable):
        grid = _of_calendar(rows, rows.table.window, asked.since)
    else:
        assert isinstance(rows.table, WindowTable)
        grid = _of_fixed_length(rows, rows.table.window, asked)
    origin, every, last = grid.origin, grid.every, grid.last
    found = f"SELECT {of_keys} {grid.at} AS _at FROM of_gold"
    _check_bounded(rows.count(f"SELECT approx_count_distinct(hash({of_keys} _at)) FROM ({found})"))
    rows.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE stretches AS SELECT DISTINCT * FROM ({found})"
    )
    first = f"coalesce(min({origin}), {origin})" if asked.since else "min(_at)"
    firsts = f"SELECT {of_keys} {first} AS _first FROM stretches GROUP BY ALL"
    of_each = f"greatest(({last} - _first) // {every} + 1, 0)"
    expected = rows.count(f"SELECT coalesce(sum({of_each}), 0) FROM ({firsts})")
    _check_bounded(expected)
    each = f"SELECT {of_keys} unnest(range(_first, {last + 1}, {every})) AS _at FROM ({firsts})"
    same = " AND ".join(f"e.{one} IS NOT DISTINCT FROM s.{one}" for one in (*keys, "_at"))
    missing = f"FROM ({each}) e ANTI JOIN stretches s ON {same}"
    number = rows.count(f"SELECT count(*) {missing}")
    if not expected:
        return 0, 0, "no stretch is closed yet"
    what = f"stretches of {duration_text(asked.every)}" if asked.every else "windows"
    words = f"{expected:,} closed {what}"
    if not number:
        return expected, 0, f"none of {words} is without a row"
    texts = "".join(f", CAST({key} AS VARCHAR)" for key in keys)
    ordered = f"ORDER BY {', '.join(('_at', *keys))} LIMIT {MOST_EXAMPLES}"
    shown = rows.connection.sql(f"SELECT _at{texts} {missing} {ordered}").fetchall()
    named = ", ".join(_name(asked, grid.name(at), values) for at, *values in shown)
    more = f" and {number - len(shown):,} more" if number > len(shown) else ""
    return expected, number, f"{number:,} of {words} have no row: {named}{more}"


@dataclass(frozen=True)
class _Grid:
    """The stretches, as numbers: the first one, the step to the next, and the last one that is
    closed. `at` is DuckDB's expression of the one that a row of `of_gold` starts in, `name` tells
    one to people."""

    origin: int
    every: int
    last: int
    at: str
    name: Callable[[int], str]


def _of_fixed_length(rows: PlannedRows, window: Window, asked: Gaps) -> _Grid:
    """By the microseconds at which they start."""
    every = (asked.every or window.slide) // _MICROSECOND
    origin = epoch_us(asked.since) if asked.since else window.offset // _MICROSECOND
    # The last window of a stretch starts a slide before its end.
    closed = epoch_us(instant_of(rows.plan.close_after_ms) - window.length + window.slide)
    last = origin + (closed - origin) // every * every - every
    start = "epoch_us(window_start)"
    at = f"{start} - (({start} - {origin}) % {every} + {every}) % {every}"

    def name(number: int) -> str:
        return (instant_of(0) + number * _MICROSECOND).isoformat().replace("+00:00", "Z")

    return _Grid(origin, every, last, at, name)


def _of_calendar(rows: PlannedRows, window: CalendarWindow, since: datetime | None) -> _Grid:
    """By their places among the windows from the first one on."""
    closed = instant_of(rows.plan.close_after_ms)
    ((first,),) = rows.connection.execute("SELECT min(window_start) FROM of_gold").fetchall()
    first = since or first or closed
    known = [
        one for one in units(window, first, closed) if first <= one.start and one.end <= closed
    ]
    starts = pa.array([one.start for one in known], pa.timestamp("us", "UTC"))
    places = pa.array(range(len(known)), pa.int64())
    rows.connection.register("units", pa.table({"start": starts, "place": places}))
    at = f"coalesce((SELECT place FROM units WHERE start = window_start), {len(known)})"
    return _Grid(0, 1, len(known) - 1, at, lambda place: str(known[place].local_date))


def _find_rows(rows: PlannedRows, check: Check, asked: Gaps, of_keys: str) -> None:
    """Make the table `of_gold`: the starts of the windows that have a row, with their keys."""
    conditions = [f"({where_of(check, kinds_of(rows.schema))})"]
    after = f"SELECT {rows.columns} FROM written WHERE NOT _gone"
    dates = None
    if asked.since:
        conditions.append(f"epoch_us(window_start) >= {epoch_us(asked.since)}")
        dates = f"window_date >= DATE '{asked.since.date()}'"
    if rows.kept is not None:
        rows.connection.register("kept", dataset_of(rows.kept, dates))
        same = same_row(rows.operator, "k", "w")
        after += f" UNION ALL SELECT {rows.columns} FROM kept k ANTI JOIN written w ON {same}"
    rows.connection.execute(
        f"CREATE OR REPLACE TEMP VIEW of_gold AS SELECT {of_keys} window_start FROM ({after}) "
        f"WHERE {' AND '.join(conditions)}"
    )


def _check_bounded(number: int) -> None:
    if number > MOST_STRETCHES:
        raise ValueError(
            f"about {number:,} stretches are more than {MOST_STRETCHES:,}, which take too much "
            "memory; say a later `since`, a longer `every`, or fewer keys in `by`"
        )


def _name(asked: Gaps, start: str, values: Sequence[str | None]) -> str:
    keys = (
        f"{key} {'null' if value is None else short(value)}"
        for key, value in zip(asked.by, values, strict=True)
    )
    return " of ".join([start, *([", ".join(keys)] if values else [])])
