"""The part of a batch that only Spark can tell: derived columns, rules, rows that repeat others.

Rows that their lines let pass come in as a DataFrame, with their lines; those that an expression
fails on, that a rule rejects, that make event time jump, or that repeat an accepted row, are
rejected here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial, reduce
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import StackExhausted
from tidemark.pipeline.expressions.sql import columns_read
from tidemark.pipeline.model import RowRule, Source, Unique
from tidemark.pipeline.reasons import JUMP
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.source import Reading
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import remove_files
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.derive import COUNTED, FAILED, derived, failure_details, ruled
from tidemark.streaming.exhausted import exhausted, found_exhausting, is_exhausted
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.batch_rows import (
    accepted_rows,
    collected_rows,
    rejected_rows,
    rule_counts,
)
from tidemark.streaming.ingest.duplicates import (
    POSITION,
    accepted_rows_of,
    contested_ids,
    find_duplicates,
    horizon_micros,
    reject_duplicates,
    with_position,
    without_duplicates,
)
from tidemark.streaming.ingest.judged_lines import FewLines
from tidemark.streaming.ingest.task_files import TaskFiles
from tidemark.streaming.operators.stretches import few_ranges
from tidemark.streaming.run.append import FEW_ROWS, WrittenRows, write_rows
from tidemark.streaming.schemas import source_schema

# Up to this many rows are written as one file for each date.
_ONE_FILE_ROWS = 200_000
# Up to this many rows are sent to every task, instead of the batch being sorted to meet them.
_BROADCAST_ROWS = 200_000
# Rejected lines up to this size together pass through the driver.
_FEW_BYTES = 32_000_000


@dataclass(frozen=True)
class FurtherRows:
    """Accepted rows in bronze's columns; rejected ones in those of rejects, without the lines that
    were rejected before; accepted ones by the rules that count them, where they are not committed
    yet. Rows after `jump_after_us` are a jump. Call `release` in the end."""

    accepted: pa.Table | WrittenRows | None
    accepted_number: int
    rejected: pa.Table | DataFrame
    by_reason: Counter[str]
    counted: Counter[str]
    jump_after_us: int | None
    release: Callable[[], None]


def judge_further(
    spark: SparkSession,
    batch: Batch,
    reading: Reading,
    lines: FewLines | TaskFiles,
    repeated: bool,
) -> FurtherRows:
    """Derive, ask the rules, and reject rows that fail on it, by a rule, or repeat others.

    `repeated`: bronze has the accepted rows; then they are counted and not written.
    """
    kept: list[DataFrame] = []

    def release() -> None:
        for rows in kept:
            rows.unpersist()
        if isinstance(lines, TaskFiles):
            _remove_lines(batch, lines)

    try:
        rows = _rows(spark, batch, lines)
        judged, jump = judged_rows(spark, batch, rows, reading, repeated, kept)
        if isinstance(lines, FewLines):
            accepted, rejected, counted = collected_rows(judged, batch)
            reasons = Counter(str(reason) for reason in rejected["reason"].to_pylist())
            number = accepted.num_rows
            return FurtherRows(accepted, number, rejected, reasons, counted, jump, release)
        found = _of_many(batch, judged, lines, repeated, kept, release)
        return replace(found, jump_after_us=jump)
    except BaseException as error:
        # Before the lines are gone that it is looked for in.
        exhausted = _exhausted(_rows(spark, batch, lines), batch) if is_exhausted(error) else None
        release()
        if exhausted:
            raise exhausted from error
        raise


def judged_rows(
    spark: SparkSession,
    batch: Batch,
    rows: DataFrame,
    reading: Reading,
    repeated: bool,
    kept: list[DataFrame],
) -> tuple[DataFrame, int | None]:
    """Rows of `source_schema`, and what else they have, with all that is derived and the verdicts
    on them: `_reason`, `_detail` (null: accepted), `_repeats`; and after which event time a row is
    a jump. What is persisted for them is added to `kept`."""
    unique, source = batch.source.unique, batch.source
    rows = derived(with_position(rows) if unique else rows, source)
    rows = ruled(rows, source).persist()
    kept.append(rows)
    judged = _with_failures(rows, batch)
    # Once bronze has the batch, its rows and those before tell another jump, or none.
    jump = batch.jump_after_us if repeated else jump_after_us(judged, source, batch.bronze)
    judged = reject_jumps(judged, source, jump)
    if unique is None:
        return without_duplicates(judged, batch.order), jump
    return _without_repeats(spark, batch, judged, reading, unique, repeated), jump


def _exhausted(rows: DataFrame, batch: Batch) -> StackExhausted:
    """With the derived column or rule that took the stack, and the row."""
    source = batch.source
    sqls = {f"derive.{name}": sql for name, sql in source.derive.items()}
    asked = {
        f"derive.{name}": partial(_asked_for, source=source, name=name) for name in source.derive
    }
    for rule in source.rules:
        sqls[f"rules.{rule.name}"] = rule.condition
        asked[f"rules.{rule.name}"] = partial(_asked_by, source=source, rule=rule)
    read = {
        name: columns_read(sql, source.columns) or tuple(source.columns)
        for name, sql in sqls.items()
    }
    found = found_exhausting(rows, asked, [one.name for one in batch.origin], read)
    where = f" It was source.{found}." if found else ""
    return exhausted(f"The rows of batch {batch.number} were not judged.{where} None is written.")


def _asked_for(rows: DataFrame, source: Source, name: str) -> DataFrame:
    """A derived column alone, with those before it."""
    names = list(source.derive)
    until = {one: source.derive[one] for one in names[: names.index(name) + 1]}
    found = derived(rows, source.model_copy(update={"derive": until}))
    return found.agg(F.max(F.col(f"`{name}`").cast("string")))


def _asked_by(rows: DataFrame, source: Source, rule: RowRule) -> DataFrame:
    """A rule alone."""
    found = ruled(derived(rows, source), source.model_copy(update={"rules": (rule,)}))
    return found.agg(F.max(F.col(f"{FAILED}.reason")), F.max(F.size(F.col(COUNTED))))


def _rows(spark: SparkSession, batch: Batch, lines: FewLines | TaskFiles) -> DataFrame:
    schema = source_schema(batch.pipeline, batch.origin)
    if isinstance(lines, FewLines):
        return frame_of(spark, lines.accepted, schema)
    if not lines.accepted:
        return spark.createDataFrame([], schema)
    files = [spark_uri(_uri(batch, file.path)) for file in lines.accepted]
    return spark.read.schema(schema).parquet(*files)


def _remove_lines(batch: Batch, lines: TaskFiles) -> None:
    """What tasks wrote for Spark to go on with; left behind by a kill, VACUUM removes it."""
    remove_files([_uri(batch, file.path) for file in lines.accepted], batch.bronze.options)


def _uri(batch: Batch, path: str) -> str:
    return f"{batch.bronze.uri}/{path}"


def _with_failures(rows: DataFrame, batch: Batch) -> DataFrame:
    """Rows with `_reason` and `_detail`: those that failed are rejected."""
    none = F.lit(None).cast("string")
    good = rows.where(F.col(FAILED).isNull()).drop(FAILED)
    good = good.withColumns({"_reason": none, "_detail": none})
    failed = rows.where(F.col(FAILED).isNotNull())
    if not (batch.source.derive or batch.source.rules) or failed.isEmpty():
        return good
    details = failure_details(failed, batch.source)
    return good.unionByName(details.withColumn("_reason", F.col(f"{FAILED}.reason")).drop(FAILED))


def _of_many(
    batch: Batch,
    judged: DataFrame,
    lines: TaskFiles,
    repeated: bool,
    kept: list[DataFrame],
    release: Callable[[], None],
) -> FurtherRows:
    """Accepted rows are written by Spark's tasks; of the others there are few, as a rule."""
    candidates = sum(file.rows for file in lines.accepted)
    rows = accepted_rows(judged, batch)
    counted = Counter[str]()
    if repeated:
        accepted, number = None, rows.count()
    else:
        if any(rule.count for rule in batch.source.rules):
            counted = rule_counts(judged)
        rows = rows.coalesce(1) if candidates <= _ONE_FILE_ROWS else rows
        accepted = write_rows(rows, batch.bronze, batch.number)
        number = accepted.number
    rejected = rejected_rows(judged, batch)
    if number == candidates:
        empty = rejected.limit(0).toArrow()
        return FurtherRows(accepted, number, empty, Counter(), counted, None, release)
    rejected = rejected.persist()
    kept.append(rejected)
    sizes = rejected.groupBy("reason").agg(F.count("*"), F.sum(F.octet_length("raw"))).collect()
    reasons = Counter({reason: rows for reason, rows, _ in sizes})
    is_few = sum(reasons.values()) <= FEW_ROWS
    is_few = is_few and sum(size or 0 for *_, size in sizes) <= _FEW_BYTES
    found = rejected.toArrow() if is_few else rejected.coalesce(1)
    return FurtherRows(accepted, number, found, reasons, counted, None, release)


def _without_repeats(
    spark: SparkSession,
    batch: Batch,
    judged: DataFrame,
    reading: Reading,
    unique: Unique,
    repeated: bool,
) -> DataFrame:
    """The rows with duplicates rejected."""
    times = _times(judged, batch)
    duplicates = (
        _duplicates(spark, batch, judged, reading, times, unique, repeated) if times else None
    )
    if duplicates is None:
        return without_duplicates(judged, batch.order)
    return reject_duplicates(judged, _small(duplicates, duplicates.count()), unique, batch.order)


def _times(judged: DataFrame, batch: Batch) -> list[tuple[int, int]]:
    """The first and last event time of each date's accepted rows, in microseconds."""
    time = F.unix_micros(F.col(f"`{batch.source.event_time.column}`"))
    dates = judged.where(F.col("_reason").isNull()).groupBy("_event_date")
    found = dates.agg(F.min(time).alias("first"), F.max(time).alias("last"))
    return [(row["first"], row["last"]) for row in found.collect()]


def _duplicates(
    spark: SparkSession,
    batch: Batch,
    judged: DataFrame,
    reading: Reading,
    times: Sequence[tuple[int, int]],
    unique: Unique,
    repeated: bool,
) -> DataFrame | None:
    """The batch's duplicates; None where no id is contested."""
    source, origin = batch.source, batch.order
    dates = dates_within(times, horizon_micros(unique))
    bronze = spark.read.format("delta").load(spark_uri(batch.bronze.uri))
    # What was lost of a topic or table before may be named as what the batch reads of another.
    not_read = [one.part for one in reading.verdicts if one.part not in batch.never_read]
    is_not_read = batch.streamed.is_from(not_read) if not_read else F.lit(False)
    before = accepted_before(bronze, batch.number, is_not_read, dates)
    if repeated:
        # Of a compacted topic a row can be gone that was there when bronze took it.
        own = bronze.where((F.col("_batch") == batch.number) & ~is_not_read)
        read = judged.select(*[one.name for one in origin]).distinct()
        gone = own.join(read, read.columns, "left_anti")
        before = before.unionByName(gone)
    accepted = accepted_rows_of(before, source, unique, origin)
    ids = contested_ids(judged, accepted, source, unique, origin)
    # Cut off from bronze: an append to a table makes Spark compute what is persisted and was
    # read from that table again, and the copies are never released.
    ids = ids.localCheckpoint()
    number = ids.count()
    if not number:
        return None
    return find_duplicates(judged, _small(ids, number), source, unique, origin).localCheckpoint()


def _small(rows: DataFrame, number: int) -> DataFrame:
    return F.broadcast(rows) if number <= _BROADCAST_ROWS else rows


# So many rows are taken wherever they lie.
CONFIRMED_BY = 3


def jump_after_us(judged: DataFrame, source: Source, bronze: TablePlace) -> int | None:
    """After which event time, in microseconds since 1970, the batch's rows are a jump
    (`event_time.max_jump`); None: none is. `judged` are its rows with `_reason`, `bronze` has none
    of them yet.

    Of the rows that are newer than all that was accepted before, the newest one or two are a jump
    where they lie more than `max_jump` after the next one: three rows confirm each other, and where
    all of them lie far ahead, as after a quiet night, all are accepted. Rows that repeat each other
    (`unique`) are one, where the newest of them lies. So the rule follows from the batch and from
    bronze before it, and a batch that is judged again by the same bronze comes to the same.
    """
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
        # `find_duplicates` collects more of an id that comes twice: its whole rows.
        times = F.sort_array(F.collect_list(time), asc=False).alias("times")
        rows = newer.groupBy(one, apart).agg(times)
        rows = rows.select(F.explode(_not_repeating(source.unique)).alias("time"))
    newest = [row["time"] for row in rows.orderBy(F.desc("time")).limit(CONFIRMED_BY).collect()]
    gap_us = most // timedelta(microseconds=1)
    # The lowest jump takes all that lies after it along.
    jumps = [before for after, before in pairwise(newest) if after - before > gap_us]
    return min(jumps, default=None)


def _not_repeating(unique: Unique) -> Column:
    """Of an id's `times`, newest first, those that repeat none that was taken before; no more than
    decide, if all the newest rows are this id's."""

    def take(taken: Column, one: Column) -> Column:
        last = F.try_element_at(taken, F.lit(-1))
        repeats = F.coalesce(last - one <= horizon_micros(unique), F.lit(False))
        enough = F.size(taken) >= CONFIRMED_BY
        return F.when(repeats | enough, taken).otherwise(F.concat(taken, F.array(one)))

    return F.aggregate("times", F.array().cast("array<bigint>"), take)


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


_DAY = timedelta(days=1) // timedelta(microseconds=1)
_FIRST_DAY = date(1970, 1, 1).toordinal()


def accepted_before(
    bronze: DataFrame, batch: int, not_read: Column, dates: Sequence[tuple[date, date]]
) -> DataFrame:
    """Bronze's rows of other batches on these dates, and those of the batch that are `not_read`:
    an earlier try of the batch took them, and their part of the source is not read now.

    Bronze is partitioned by event date, and only the dates are read that lie within the horizon of
    the batch's own dates, so that the cost follows the horizon and not the history.
    """
    return bronze.where(_on(dates)).where((F.col("_batch") != batch) | not_read)


def dates_within(times: Iterable[tuple[int, int]], horizon_micros: int) -> list[tuple[date, date]]:
    """The dates, as ranges in order, within the horizon of some of these event times.

    `times` are the first and the last event time of each of the batch's dates, in microseconds
    since 1970. What lies between two dates that are far apart is in no range.
    """
    days = (
        ((first - horizon_micros) // _DAY, (last + horizon_micros) // _DAY + 1)
        for first, last in times
    )
    return [(_date(first), _date(end - 1)) for first, end in few_ranges(days)]


def _date(day: int) -> date:
    """A day since 1970; where the calendar ends, its end."""
    return date.fromordinal(min(max(day + _FIRST_DAY, 1), date.max.toordinal()))


def _on(dates: Sequence[tuple[date, date]]) -> Column:
    day = F.col("_event_date")
    ranges = [day.between(F.lit(first), F.lit(last)) for first, last in dates]
    return reduce(lambda left, right: left | right, ranges, F.lit(False))
