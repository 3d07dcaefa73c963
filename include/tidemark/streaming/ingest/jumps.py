"""Reject rows that would make event time jump (`event_time.max_jump`), unless others confirm it.

Of a batch's rows that are newer than all that was accepted before it, the newest one or two are
rejected where they lie more than `max_jump` after the next one: three rows confirm each other, and
where all of them lie far ahead, as after a quiet night, all are accepted. Rows that repeat each
other (`unique`) are one. So the rule follows from the batch and from bronze before it, and a batch
that is judged again by the same bronze comes to the same.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.pipeline.model import Source
from tidemark.pipeline.reasons import JUMP
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.ingest.duplicates import POSITION

# So many rows are taken wherever they lie.
CONFIRMED_BY = 3


def jump_after_us(judged: DataFrame, source: Source, bronze: TablePlace) -> int | None:
    """After which event time, in microseconds since 1970, the batch's rows are a jump; None: none
    is. `judged` are its rows with `_reason`, `bronze` has none of them yet."""
    most = source.event_time.max_jump
    if most is None:
        return None
    time = F.unix_micros(F.col(f"`{source.event_time.column}`"))
    newest_before = newest_event_us(bronze.existing(), source.event_time.column)
    newer = judged.where(F.col("_reason").isNull())
    newer = newer if newest_before is None else newer.where(time > newest_before)
    rows = newer.select(time.alias("time"))
    if source.unique:
        one = F.col(f"`{source.unique.by}`")
        # A null id repeats nothing.
        apart = F.when(one.isNull(), F.col(POSITION))
        rows = newer.groupBy(one, apart).agg(F.max(time).alias("time")).select("time")
    newest = [row["time"] for row in rows.orderBy(F.desc("time")).limit(CONFIRMED_BY).collect()]
    gap_us = most // timedelta(microseconds=1)
    # The lowest jump takes all that lies after it along.
    jumps = [before for after, before in pairwise(newest) if after - before > gap_us]
    return min(jumps, default=None)


def reject_jumps(judged: DataFrame, source: Source, after_us: int | None) -> DataFrame:
    """The judged rows, where accepted ones after this event time have a reason and a detail."""
    if after_us is None:
        return judged
    name = source.event_time.column
    time = F.col(f"`{name}`")
    jumps = F.col("_reason").isNull() & (F.unix_micros(time) > after_us)
    detail = F.concat(
        F.lit(f"{name} is "),
        time.cast("string"),
        F.lit(", after a jump from "),
        F.timestamp_micros(F.lit(after_us)).cast("string"),
        F.lit(f" that fewer than {CONFIRMED_BY} rows of the batch confirm"),
    )
    columns = {"_reason": F.lit(JUMP), "_detail": detail}
    return judged.withColumns(
        {column: F.when(jumps, found).otherwise(F.col(column)) for column, found in columns.items()}
    )
