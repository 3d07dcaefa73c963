"""The rows of a table's inputs as its operator takes them: their event time is `_event_time`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tidemark.operators.looked_up_rows import NOTHING, Found
from tidemark.operators.lookups import FROM, TO, LookedUp, names_taken
from tidemark.operators.operator import Operator
from tidemark.operators.other_inputs import ReadAt, other_pipeline, other_places
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.runs.clocks import Clock
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse
from tidemark.streaming.arrow_rows import frame_beside_plan

# Rows by the names of the inputs, as an operator has them (`Operator.inputs`).
Inputs = Mapping[str, DataFrame]

# Does a row count for the table?
_COUNTS = "_counts"
# The Delta source's default is 1,000 files.
_NO_LIMIT = 2**31 - 1


def with_event_time(bronze: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Bronze with its event time as `_event_time`, whatever the pipeline calls it."""
    return bronze.withColumn("_event_time", F.col(f"`{pipeline.source.event_time.column}`"))


def counting(rows: DataFrame, where: str | None) -> DataFrame:
    """Of bronze's rows, in a batch, those that count for a table (`Table.where`).

    As a number of bits, for which no file is passed over: statistics do not tell of NaN, which is
    more than any number, so that a row that has it was lost with its file.
    """
    return rows if where is None else rows.where(F.bit_count(F.expr(where)) == 1)


def not_counting(rows: DataFrame, where: str) -> DataFrame:
    """The other ones."""
    return rows.where(F.coalesce(F.bit_count(F.expr(where)), F.lit(0)) == 0)


def counted_rows(
    bronze: DataFrame, operator: Operator, planned: bool = False, looked_up: Found = NOTHING
) -> DataFrame:
    """Of bronze's rows, in a batch, those that count for a table, each with what its lookups know
    of it: a struct of each lookup, null where it has none, and the keys that are its columns.

    `planned`: of lookups the columns alone are wanted, as there is no copy yet. `looked_up`:
    what of large lookups those rows find that somebody will ask for.
    """
    rows = bronze.drop(*names_taken(operator.lookups))
    for name, one in operator.lookups.items():
        spark = bronze.sparkSession
        copied = _columns_of(bronze, one) if planned else _copied(spark, one, looked_up.get(name))
        same = [
            F.col(f"_bronze.`{ours}`") == F.col(f"_lookup.{one.key_column(place)}")
            for place, ours in enumerate(one.lookup.on)
        ]
        if one.lookup.as_of:
            time, until = F.col("_bronze._event_time"), F.col(f"_lookup.{TO}")
            same += [time >= F.col(f"_lookup.{FROM}"), until.isNull() | (time < until)]
        found = F.col("_lookup._found").isNotNull()
        columns = {column: F.col(f"_lookup.`{column}`") for column in one.lookup.columns}
        known = F.when(found, F.struct(*[of.alias(column) for column, of in columns.items()]))
        joined = rows.alias("_bronze").join(
            copied.alias("_lookup"), same, "inner" if one.lookup.on_missing else "left"
        )
        keys = [columns[column].alias(key) for key, column in one.keys.items()]
        rows = joined.select("_bronze.*", known.alias(name), *keys)
    return counting(rows, operator.table.where)


def _copied(spark: SparkSession, one: LookedUp, found: pa.Table | None) -> DataFrame:
    """The copy of a lookup, which Spark sends to each task where it is small: the engine's own
    rule (`spark.sql.autoBroadcastJoinThreshold`), by the files' sizes. Or what is found of it."""
    columns = [F.col(f"`{name}`") for name in one.columns]
    if found is not None:
        rows = frame_beside_plan(spark, found)
        return F.broadcast(rows.select(*columns, F.lit(True).alias("_found")))
    copy = one.copied
    rows = table_at(spark, copy.place, copy.table.version())
    return rows.select(*columns, F.lit(True).alias("_found"))


def _columns_of(bronze: DataFrame, one: LookedUp) -> DataFrame:
    """No rows of a lookup, in its columns as the pipeline's file has them."""
    keys = [
        F.col(f"`{ours}`").alias(one.key_column(place)) for place, ours in enumerate(one.lookup.on)
    ]
    bounds = [F.lit(None).cast("timestamp").alias(name) for name in (FROM, TO)]
    values = [F.lit(None).cast(kind).alias(name) for name, kind in one.lookup.columns.items()]
    return bronze.limit(0).select(*keys, *bounds, *values, F.lit(True).alias("_found"))


def input_stream(
    spark: SparkSession,
    place: TablePlace,
    pipeline: Pipeline,
    since: datetime | None = None,
    where: str | None = None,
) -> DataFrame:
    """An input as a stream, with its watermark. All that is new is one batch: a batch of whole
    versions is what late rows are counted by, and files cut into several could come out of order.

    Without the rows of an earlier event time than `since`; files of earlier dates are not opened.
    Without those that do not count (`where`), which move the watermark all the same: what filters
    them would be pushed below it, but for `observe`, through which nothing is.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _NO_LIMIT)
    # Retention drops whole partitions, which the stream has long read.
    rows = reader.option("skipChangeCommits", "true").load(spark_uri(place.uri))
    rows = with_event_time(rows, pipeline)
    if since is not None:
        rows = rows.where(F.col("_event_date") >= F.lit(since.date()))
        rows = rows.where(F.col("_event_time") >= F.lit(since))
    delay = duration_text(pipeline.watermark.delay)
    if where is None:
        return rows.withWatermark("_event_time", delay)
    # Judged below, so that the optimizer knows of no condition that is false for each row.
    judged = rows.withColumn(_COUNTS, F.expr(where)).withWatermark("_event_time", delay)
    return judged.observe("counting", F.count(_COUNTS)).where(_COUNTS).drop(_COUNTS)


def clocked_stream(
    spark: SparkSession,
    clock: Clock,
    columns: Sequence[str],
    since: datetime | None = None,
    where: str | None = None,
) -> DataFrame:
    """One side of a join as a stream, with its watermark, which its clock rows move too, and rows
    that do not count (`where`): its event time and these columns.

    Of the three ways in which the optimizer would go wrong in silence, each is closed here:
    - what filters above would be pushed below the watermark, `is not null` of the join's keys too,
      and clock rows would not reach it: nothing is pushed through `observe`, which sees all rows;
    - a null that is written out is known to the optimizer, which then drops rows of the *other*
      side where this one's bronze has none in a batch: so a clock row's columns are read;
    - `is null` of a column that is never null is true: the clock's columns are nullable.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _NO_LIMIT)
    reader = reader.option("skipChangeCommits", "true")
    rows = reader.load(spark_uri(clock.bronze.uri))
    rows = rows.withColumn("_event_time", F.col(f"`{clock.event_time}`"))
    if since is not None:
        rows = rows.where(F.col("_event_date") >= F.lit(since.date()))
        rows = rows.where(F.col("_event_time") >= F.lit(since))
    if where is not None:
        rows, columns = rows.withColumn(_COUNTS, F.expr(where)), (*columns, _COUNTS)
    rows = rows.select("_event_time", *[F.col(f"`{name}`") for name in columns])
    nothing = [_nothing(field.dataType).alias(field.name) for field in rows.schema.fields[1:]]
    ticks = reader.load(spark_uri(clock.place.uri)).select(
        F.col("clock").alias("_event_time"), F.col("run").alias("_clock"), *nothing
    )
    both = rows.withColumn("_clock", F.lit(None).cast("string")).unionByName(ticks)
    seen = both.withWatermark("_event_time", duration_text(clock.delay)).observe(
        clock.observed, F.count("_clock").alias("clocks")
    )
    seen = seen.where(F.col("_clock").isNull()).drop("_clock")
    return seen if where is None else seen.where(_COUNTS).drop(_COUNTS)


def _nothing(kind: DataType) -> Column:
    """A clock row's null as a value of this type. Text is no cast to a type that has parts."""
    nothing = F.col("nothing")
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.from_json(nothing, kind.json())
    return nothing.cast(kind)


def event_times(inputs: Inputs) -> DataFrame:
    """The event times of all inputs' rows, in one stream without state: what moves the watermark.
    Nothing is filtered, for that could be pushed below it, and it would stand still in silence."""
    return reduce(DataFrame.union, (rows.select("_event_time") for rows in inputs.values()))


def others_at(
    spark: SparkSession, operator: Operator, warehouse: Warehouse, pipeline: Pipeline, at: ReadAt
) -> dict[str, DataFrame]:
    """The other inputs of an operator, each as it was at its version."""
    found = {}
    for name, place in other_places(operator, warehouse).items():
        version, condition = at[name]
        partner = pipeline.partner(other_pipeline(name))
        found[name] = input_at(spark, place, partner, version).where(condition)
    return found


def input_at(spark: SparkSession, place: TablePlace, pipeline: Pipeline, version: int) -> DataFrame:
    """An input as it was at a version, whoever appends meanwhile."""
    return with_event_time(table_at(spark, place, version), pipeline)


def table_at(spark: SparkSession, place: TablePlace, version: int) -> DataFrame:
    """A table's rows as they were at a version."""
    reader = spark.read.format("delta").option("versionAsOf", version)
    return reader.load(spark_uri(place.uri))
