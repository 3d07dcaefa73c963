"""Stretches of event time, by which a batch read of bronze leaves files and rows out.

Only the dates and the stretches are read that the wanted rows cover, so that the cost follows these
and not the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.operators.row_range import RowRange
from tidemark.streaming.arrow_rows import frame_of

# What `rows_lying_in` calls the bounds of the stretch that a row lies in.
_START, _END = "_stretch_start", "_stretch_end"
# More ranges than this are joined across their smallest gaps: a filter of a thousand conditions
# costs more than the rows and files that it spares.
_MOST_RANGES = 50
# What ranges are of; gaps of one kind can be compared.
BoundT = TypeVar("BoundT", datetime, int)


@dataclass(frozen=True)
class Stretch:
    """Event times with start <= event time < end, in UTC."""

    start: datetime
    end: datetime


def rows_within(
    rows: DataFrame, stretches: Sequence[Stretch], on_dates: Column | None = None
) -> DataFrame:
    """The rows in these stretches; files of other dates are not opened, those of `on_dates` where
    that knows them closer."""
    within: Column = F.lit(False)
    dates: Column = F.lit(False)
    for stretch in stretches:
        time = F.col("_event_time")
        within = within | ((time >= F.lit(stretch.start)) & (time < F.lit(stretch.end)))
        days = F.col("_event_date").between(stretch.start.date(), stretch.end.date())
        dates = dates | days
    return rows.where(dates if on_dates is None else on_dates).where(within)


def is_in_range(rows: RowRange, start: str = "window_start", end: str = "window_end") -> Column:
    """The condition that a row of the table is one of this range, by these columns."""
    first, last = F.lit(rows.first_start), F.lit(rows.last_start)
    return F.col(start).between(first, last) & (F.col(end) <= F.lit(rows.last_end))


def rows_lying_in(
    rows: DataFrame, listed: pa.Table, keys: Sequence[str], how: str = "left_semi"
) -> DataFrame:
    """The rows whose keys and event time lie in one of these (`window_start` to `window_end`, both
    included), or in none of them (`left_anti`). Null keys are keys."""
    names = [f"_stretch_key_{place}" for place in range(len(keys))]
    given = [listed.column(name) for name in ("window_start", "window_end", *keys)]
    told = pa.table(given, names=[_START, _END, *names])
    same = [
        F.col(f"`{key}`").eqNullSafe(F.col(name)) for key, name in zip(keys, names, strict=True)
    ]
    within = F.col("_event_time").between(F.col(_START), F.col(_END))
    return rows.join(F.broadcast(frame_of(rows.sparkSession, told)), [within, *same], how)


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Few stretches, in order, that cover all of these."""
    return [Stretch(*one) for one in few_ranges((one.start, one.end) for one in stretches)]


def few_ranges(ranges: Iterable[tuple[BoundT, BoundT]]) -> list[tuple[BoundT, BoundT]]:
    """Few ranges (start, end), in order, that cover all of these: those that meet are one, then
    those with the smallest gaps between them."""
    merged: list[tuple[BoundT, BoundT]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    pairs = enumerate(pairwise(merged), start=1)
    gaps = [(after[0] - before[1], place) for place, (before, after) in pairs]
    cuts: list[int] = sorted(place for _, place in nlargest(_MOST_RANGES - 1, gaps))
    groups = [merged[first:last] for first, last in pairwise([0, *cuts, len(merged)])]
    return [(group[0][0], group[-1][1]) for group in groups if group]
