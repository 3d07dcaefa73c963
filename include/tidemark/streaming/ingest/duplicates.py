"""Reject rows that repeat an accepted row: same id, event times at most `within` apart.

Three pure steps, each over fewer rows than the one before, so that a batch without duplicates
pays for the first alone:
1. `contested_ids`: the ids that stand twice in the batch, or in it and near it in bronze;
2. `find_duplicates`: of the rows with these ids, those that repeat an accepted one;
3. `reject_duplicates`: the judged rows with that verdict.

The rows of an id are decided one after the other, by event time, then by where they come from (the
columns of the source's origin, in their order), then by the line's text; each is compared with
accepted rows only: those accepted before this batch, whether they lie earlier or later, and those
of the batch that were decided already. So no two accepted rows of an id are within the horizon, and
a batch that is judged again, with part of what it accepted given as accepted before, comes to the
same verdicts on the rest.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Source, Unique
from tidemark.pipeline.reasons import DUPLICATE
from tidemark.streaming.schemas import Origin, origin_parts, origin_schema, repeats_type

# A number for each judged row: lines that are equal in all else are told apart by it.
POSITION = "_position"

_SHOWN = 120
# Ten thousand years, the whole calendar; more might not fit a long.
_LONGEST = timedelta(days=3_660_000)


def horizon_micros(unique: Unique) -> int:
    """How far apart, in microseconds, two event times may lie to repeat each other."""
    return min(unique.within, _LONGEST) // timedelta(microseconds=1)


def with_position(lines: DataFrame) -> DataFrame:
    """Number the lines; judge them and persist the result before it is used more than once."""
    return lines.withColumn(POSITION, F.monotonically_increasing_id())


def accepted_rows_of(
    rows: DataFrame, source: Source, unique: Unique, origin: Origin, *further: str
) -> DataFrame:
    """Accepted rows as the other functions take them: `id`, `time` (microseconds), `origin`.

    A null id repeats nothing. `further` columns stay.
    """
    time = F.unix_micros(F.col(f"`{source.event_time.column}`"))
    parts = [F.col(column).alias(name) for name, column in origin_parts(origin).items()]
    chosen = rows.select(
        F.col(f"`{unique.by}`").alias("id"),
        time.alias("time"),
        F.struct(*parts).alias("origin"),
        *further,
    )
    return chosen.where("id IS NOT NULL")


def contested_ids(
    judged: DataFrame, accepted_before: DataFrame, source: Source, unique: Unique, origin: Origin
) -> DataFrame:
    """The ids of which some row may be a duplicate: `id`, `before`.

    `before` is an array of the accepted rows (time, origin) that lie within the horizon of some
    row of the batch, or of the time between two of its rows; empty where there is none.
    """
    within = horizon_micros(unique)
    rows = _candidates(judged, source, unique, origin).groupBy("id")
    ids = rows.agg(F.count("*").alias("n"), F.min("time").alias("low"), F.max("time").alias("high"))
    near = F.col("time").between(F.col("low") - within, F.col("high") + within)
    before = accepted_before.join(ids, "id").where(near).select("id", "time", "origin")
    # A null time stands for the batch's own rows; collect_list passes over it.
    twice = ids.where("n > 1").select("id", F.lit(None).alias("time"), F.lit(None).alias("origin"))
    row = F.when(F.col("time").isNotNull(), F.struct("time", "origin"))
    return before.unionByName(twice).groupBy("id").agg(F.collect_list(row).alias("before"))


def find_duplicates(
    judged: DataFrame, contested: DataFrame, source: Source, unique: Unique, origin: Origin
) -> DataFrame:
    """The rows that repeat an accepted one: `_position` and `_repeats`.

    `_repeats` (`repeats_type`) is the accepted row that is nearest in event time; of two equally
    near the earlier, then the one whose origin comes first.
    """
    row, kind = F.struct("time", "origin", "_value", POSITION), _decided_type(origin)
    candidates = _candidates(judged, source, unique, origin).join(contested, "id")
    # Every row of an id has the same `before`.
    rows = candidates.groupBy("id").agg(
        F.sort_array(F.collect_list(row)).alias("rows"), F.first("before").alias("before")
    )
    before = F.transform("before", lambda r: _decided(r, F.lit(None), kind))
    rows = rows.withColumn("before", before)
    accepted = rows.select("rows", F.concat("before", _kept(unique, kind)).alias("accepted"))
    verdicts = accepted.select(F.inline(F.transform("rows", lambda r: _verdict(r, unique))))
    repeats = F.struct(
        *[F.col(f"nearest.origin.{name}").alias(name) for name in origin_parts(origin)],
        F.timestamp_micros("nearest.time").alias("event_time"),
    )
    itself = F.col("nearest.position").eqNullSafe(F.col(POSITION))
    return verdicts.where(~itself).select(POSITION, repeats.alias("_repeats"))


def reject_duplicates(
    judged: DataFrame, duplicates: DataFrame, unique: Unique, origin: Origin
) -> DataFrame:
    """The judged rows, where duplicates have a reason, a detail and `_repeats` (else null)."""
    is_duplicate = F.col("_repeats").isNotNull()
    detail = F.when(is_duplicate, _detail(judged, unique, origin)).otherwise(F.col("_detail"))
    reason = F.when(is_duplicate, F.lit(DUPLICATE)).otherwise(F.col("_reason"))
    joined = judged.join(duplicates, POSITION, "left")
    return joined.withColumns({"_reason": reason, "_detail": detail})


def without_duplicates(judged: DataFrame, origin: Origin) -> DataFrame:
    """The judged rows, none of which repeats another."""
    return judged.withColumn("_repeats", F.lit(None).cast(repeats_type(origin)))


def _candidates(judged: DataFrame, source: Source, unique: Unique, origin: Origin) -> DataFrame:
    rows = judged.where("_reason IS NULL")
    return accepted_rows_of(rows, source, unique, origin, "_value", POSITION)


def _kept(unique: Unique, kind: str) -> Column:
    """The rows of the batch that are accepted, one after the other in the order of `rows`."""
    free = F.filter("rows", lambda r: ~F.exists("before", lambda b: _near(r, b, unique)))

    def decide(kept: Column, row: Column) -> Column:
        # In order of time the last row that was kept is the nearest.
        last = F.try_element_at(kept, F.lit(-1))
        repeats = F.coalesce(_near(row, last, unique), F.lit(False))
        decided = _decided(row, row[POSITION], kind)
        return F.when(repeats, kept).otherwise(F.concat(kept, F.array(decided)))

    return F.aggregate(free, F.array().cast(f"array<{kind}>"), decide)


def _verdict(row: Column, unique: Unique) -> Column:
    """The row's position, and of the accepted rows the nearest: itself, where it is accepted."""
    near = F.filter("accepted", lambda other: _near(row, other, unique))
    ranked = F.transform(
        near,
        lambda r: F.struct(F.abs(r.time - row.time).alias("far"), r.time, r.origin, r.position),
    )
    return F.struct(row[POSITION].alias(POSITION), F.array_min(ranked).alias("nearest"))


def _near(one: Column, other: Column, unique: Unique) -> Column:
    return F.abs(one.time - other.time) <= horizon_micros(unique)


def _decided(row: Column, position: Column, kind: str) -> Column:
    return F.struct(
        row.time.alias("time"), row.origin.alias("origin"), position.alias("position")
    ).cast(kind)


def _decided_type(origin: Origin) -> str:
    types = zip(origin_parts(origin), origin_schema(origin), strict=True)
    parts = ",".join(f"{name}:{field.dataType.simpleString()}" for name, field in types)
    return f"struct<time:bigint,origin:struct<{parts}>,position:bigint>"


def _detail(judged: DataFrame, unique: Unique, origin: Origin) -> Column:
    # No batch in it: the same batch repeated must say the same.
    value = F.col(f"`{unique.by}`")
    # Bytes need not be text, and no reader could show such a detail.
    is_binary = isinstance(judged.select(value).schema[0].dataType, T.BinaryType)
    text = F.hex(value) if is_binary else value.cast("string")
    found = F.substring(text, 1, _SHOWN)
    time = F.translate(F.col("_repeats.event_time").cast("string"), " ", "T")
    return F.concat(
        F.lit(f"{unique.by} "),
        found,
        F.lit(" repeats the row of "),
        _origin_text(origin),
        F.lit(" at "),
        time,
        F.lit(f"Z, within {duration_text(unique.within)}"),
    )


def _origin_text(origin: Origin) -> Column:
    """One column speaks for itself; of several each has its name."""
    parts = {name: F.col(f"_repeats.{name}").cast("string") for name in origin_parts(origin)}
    if len(parts) == 1:
        return next(iter(parts.values()))
    named = [F.concat(F.lit(f"{name} "), value) for name, value in parts.items()]
    return F.concat_ws(", ", *named)
