"""Compute windows again from bronze: what late rows, seals, backfills and audits all use.

The aggregate is the stream's own plan over a batch read of bronze at one version. Only the dates
and the stretches of event time are read that the wanted windows cover, so that the cost follows
the windows and not the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.operators.windows.assignments import dates_of
from tidemark.operators.windows.in_duckdb import window_starts
from tidemark.pipeline.model import Pipeline, Table
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.run.aggregate import aggregate, with_event_time

# More stretches than this are joined across their smallest gaps: a filter of a thousand
# conditions costs more than the rows that it spares.
_MOST_STRETCHES = 50


@dataclass(frozen=True)
class Stretch:
    """Event times with start <= event time < end, in UTC."""

    start: datetime
    end: datetime


def recompute_windows(
    spark: SparkSession,
    bronze: DataFrame,
    pipeline: Pipeline,
    table: Table,
    windows: pa.Table,
) -> DataFrame:
    """The values of the given windows (`window_start` and keys), as `aggregate` has them.

    A window without any row in bronze is not in the result. Null keys are keys.
    """
    starts, length = window_starts(windows), table.window.length
    dates = dates_of(starts, length)
    on_dates = F.col("_event_date").isin(sorted(dates))
    rows = _rows_within(bronze, pipeline, stretches_of(starts, length), on_dates)
    wanted = F.broadcast(spark.createDataFrame(windows).alias("wanted"))
    computed = aggregate(rows, table).alias("computed")
    same = [
        F.col(f"computed.`{name}`").eqNullSafe(F.col(f"wanted.`{name}`"))
        for name in ("window_start", *table.group_by)
    ]
    return computed.join(wanted, same, "left_semi")


def recompute_range(
    bronze: DataFrame, pipeline: Pipeline, table: Table, first_end: datetime, last_end: datetime
) -> DataFrame:
    """The values of all windows with first_end <= window end <= last_end."""
    stretch = Stretch(first_end - table.window.length, last_end)
    on_dates = F.col("_event_date").between(stretch.start.date(), stretch.end.date())
    rows = _rows_within(bronze, pipeline, [stretch], on_dates)
    computed = aggregate(rows, table)
    return computed.where(F.col("window_end").between(F.lit(first_end), F.lit(last_end)))


def bronze_at(spark: SparkSession, place: TablePlace, version: int) -> DataFrame:
    """Bronze as it was at a version, whoever appends meanwhile."""
    return spark.read.format("delta").option("versionAsOf", version).load(spark_uri(place.uri))


def _rows_within(
    bronze: DataFrame, pipeline: Pipeline, stretches: Sequence[Stretch], on_dates: Column
) -> DataFrame:
    """Bronze's rows in these stretches, with `_event_time`; other dates are not opened."""
    within: Column = F.lit(False)
    for stretch in stretches:
        time = F.col("_event_time")
        within = within | ((time >= F.lit(stretch.start)) & (time < F.lit(stretch.end)))
    rows = with_event_time(bronze, pipeline)
    return rows.where(on_dates).where(within)


def stretches_of(starts: Iterable[datetime], length: timedelta) -> list[Stretch]:
    """The event times that windows with these starts cover: few stretches, in order."""
    ordered = sorted(set(starts))
    gaps = [
        (after - before - length, place)
        for place, (before, after) in enumerate(pairwise(ordered), start=1)
        if after - before > length
    ]
    cuts = sorted(place for _, place in nlargest(_MOST_STRETCHES - 1, gaps))
    groups = [ordered[first:last] for first, last in pairwise([0, *cuts, len(ordered)])]
    return [Stretch(group[0], group[-1] + length) for group in groups if group]
