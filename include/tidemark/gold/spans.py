"""Spans of time within gold's dates: what a commit reads of gold, and replaces.

A window that changes is replaced together with what gold has beside it: in a few spans, each from
one start of a window to another within a date. So of a date with many files those are left as they
are that have no row in a span.

The log tells times in milliseconds, cut off, and files are left out by it. So a span begins with a
whole millisecond, and it does not matter whether who reads the log allows for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

_TIME = pa.timestamp("us", "UTC")
_COLUMNS: dict[str, pa.DataType] = {"day": pa.date32(), "first": _TIME, "last": _TIME}
_SPANS = pa.schema(_COLUMNS)
# delta-rs reads a predicate by recursion, which some ten thousand parts of one end.
MOST_SPANS = 64


@dataclass(frozen=True)
class GoldSpan:
    """The windows of a date (of `window_start`, UTC) that start from `first` to `last`, both
    among them; without these all of the date."""

    day: date
    first: datetime | None = None
    last: datetime | None = None

    @property
    def predicate(self) -> str:
        """For delta-rs and for DuckDB."""
        day = f"window_date = DATE '{self.day}'"
        if self.first is None or self.last is None:
            return day
        first, last = (one.astimezone(UTC).isoformat() for one in (self.first, self.last))
        return f"({day} AND window_start >= '{first}' AND window_start <= '{last}')"

    @property
    def condition(self) -> Any:
        """For Arrow."""
        day, start = ds.field("window_date") == self.day, ds.field("window_start")
        if self.first is None or self.last is None:
            return day
        first, last = (pa.scalar(one, _TIME) for one in (self.first, self.last))
        return day & (start >= first) & (start <= last)


def make_spans(connection: duckdb.DuckDBPyConnection) -> tuple[GoldSpan, ...]:
    """At most so many spans that have all of the table `starts` (`window_date`, `window_start`),
    cut where the gaps are largest; of more dates than that all of each. They stand in the table
    `spans` from now on. The connection is in UTC."""
    ((days,),) = connection.execute("SELECT count(DISTINCT window_date) FROM starts").fetchall()
    if days > MOST_SPANS:
        sql = "SELECT DISTINCT window_date AS day, NULL AS first, NULL AS last FROM starts"
    else:
        sql = f"""
            WITH apart AS (
                SELECT *, epoch_us(window_start) - lag(epoch_us(window_start)) OVER (
                    PARTITION BY window_date ORDER BY window_start
                ) AS gap FROM (SELECT DISTINCT window_date, window_start FROM starts)
            ), cut AS (
                SELECT *, row_number() OVER (
                    ORDER BY gap DESC NULLS FIRST, window_start
                ) <= {MOST_SPANS} AS is_first FROM apart
            ), numbered AS (
                SELECT *, sum(is_first::BIGINT) OVER (ORDER BY window_start) AS part FROM cut
            )
            SELECT window_date AS day, date_trunc('millisecond', min(window_start)) AS first,
                max(window_start) AS last
            FROM numbered GROUP BY window_date, part
        """
    spans = connection.sql(f"SELECT * FROM ({sql}) ORDER BY ALL").to_arrow_table().cast(_SPANS)
    connection.register("spans", spans)
    return tuple(_read(spans))


def spans_written(connection: duckdb.DuckDBPyConnection) -> tuple[GoldSpan, ...]:
    """What the rows of the table `written` take of the table `spans`, which have all of them."""
    found = connection.sql(
        """
        SELECT s.day, CASE WHEN s.first IS NOT NULL
                THEN date_trunc('millisecond', min(w.window_start)) END AS first,
            CASE WHEN s.first IS NOT NULL THEN max(w.window_start) END AS last
        FROM written w JOIN spans s ON w.window_date = s.day
            AND (s.first IS NULL OR w.window_start BETWEEN s.first AND s.last)
        GROUP BY s.day, s.first ORDER BY ALL
        """
    )
    return tuple(_read(found.to_arrow_table().cast(_SPANS)))


def _read(spans: pa.Table) -> Iterator[GoldSpan]:
    return (GoldSpan(**row) for row in spans.to_pylist())


def days_of(spans: Iterable[GoldSpan]) -> tuple[date, ...]:
    return tuple(sorted({one.day for one in spans}))


def dates_predicate(dates: Sequence[date]) -> str:
    """The predicate of gold's partitions of these dates, for delta-rs and DuckDB; one at least."""
    return "window_date IN (" + ", ".join(f"DATE '{day}'" for day in dates) + ")"


def spans_predicate(spans: Sequence[GoldSpan]) -> str:
    """The predicate of these spans, one at least, for delta-rs and DuckDB."""
    if all(one.first is None for one in spans):
        return dates_predicate(days_of(spans))
    return " OR ".join(one.predicate for one in spans)


def within_spans(spans: Sequence[GoldSpan]) -> Any:
    """The condition of these spans for Arrow."""
    if all(one.first is None for one in spans):
        return ds.field("window_date").isin(list(days_of(spans)))
    return reduce(or_, (one.condition for one in spans))
