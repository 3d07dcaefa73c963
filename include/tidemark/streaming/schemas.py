"""The columns of bronze, rejects, changes and gold, as Spark types with their comments."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.pipeline.model import Pipeline
from tidemark.sources.source import OriginColumn, ordering
from tidemark.storage.delta.history import FAILURE

Origin = Sequence[OriginColumn]


def _field(name: str, kind: T.DataType, comment: str | None = None) -> T.StructField:
    return T.StructField(name, kind, True, {"comment": comment} if comment else {})


_OF_BATCH = [
    _field("_batch", T.LongType(), "The ingest batch that read it"),
    _field("_batch_time", T.TimestampType(), "That batch's time, UTC"),
]
_ID = "Tells the record's place in the source: the same each time that it is read"
_REPEATS = "Of a duplicate: the accepted row (in bronze) that it repeats"
_FAILURE = "Why a measure cannot be computed; the window is not in gold then"
_STATUS = "provisional (open), final (closed), corrected (changed after that)"
_CAUSES = "What changed the window: stream, late, seal, backfill, migration or failed"


def origin_schema(origin: Origin) -> T.StructType:
    """The columns that say where in the source a row comes from."""
    fields = [
        {
            "name": one.name,
            "type": one.type,
            "nullable": True,
            "metadata": {"comment": one.comment},
        }
        for one in origin
    ]
    return T.StructType.fromJson({"fields": fields})


def source_schema(pipeline: Pipeline, origin: Origin) -> T.StructType:
    """A row as its line tells it: declared columns, `_extra`, `_event_date`, where it comes from,
    and the line."""
    declared = [
        T.StructField(name, T.DataType.fromDDL(column.type))
        for name, column in pipeline.source.columns.items()
    ]
    further = [T.StructField("_extra", T.StringType()), T.StructField("_event_date", T.DateType())]
    line = T.StructField("_value", T.StringType())
    return T.StructType([*declared, *further, *origin_schema(origin), *_OF_BATCH, line])


def origin_parts(origin: Origin) -> dict[str, str]:
    """What the origin's columns are called within a struct, and the columns."""
    return {one.name.removeprefix("_"): one.name for one in origin}


def repeats_type(origin: Origin) -> T.StructType:
    """The accepted row that a duplicate repeats: where it comes from, and its event time."""
    origin = ordering(origin)
    names = zip(origin_parts(origin), origin_schema(origin), strict=True)
    parts = [T.StructField(name, field.dataType) for name, field in names]
    return T.StructType([*parts, T.StructField("event_time", T.TimestampType())])


def bronze_schema(pipeline: Pipeline, judged: T.StructType, origin: Origin) -> T.StructType:
    """Declared and derived columns, what no column took, and the row's origin."""
    names = [*pipeline.source.columns, *pipeline.source.derive]
    comments = {name: column.description for name, column in pipeline.source.columns.items()} | {
        name: f"Derived: {sql}" for name, sql in pipeline.source.derive.items()
    }
    fields = [_field(name, judged[name].dataType, comments.get(name)) for name in names]
    extra = _field("_extra", judged["_extra"].dataType, "Fields that are no column, as JSON")
    day = judged["_event_date"].dataType
    date = _field("_event_date", day, "Date of the event time, UTC; the partition")
    return T.StructType([*fields, extra, *origin_schema(origin), *_OF_BATCH, date])


def rejects_schema(origin: Origin) -> T.StructType:
    """One row for each line, or whole part of the source, that was not accepted."""
    return T.StructType(
        [
            _field("reason", T.StringType(), "Why it was rejected"),
            _field("detail", T.StringType(), "What exactly was found"),
            _field("raw", T.StringType(), "The line; null: a file"),
            _field("raw_bytes", T.BinaryType(), "The line's bytes, where they are not valid UTF-8"),
            _field("event_time", T.TimestampType(), "Where readable"),
            _field("repeats", repeats_type(origin), _REPEATS),
            *origin_schema(origin),
            *_OF_BATCH,
            _field("id", T.StringType(), _ID),
        ]
    )


def changes_schema(aggregated: T.StructType) -> T.StructType:
    """A window's value each time that it changed, with what caused the change."""
    return T.StructType(
        [
            *[_field(one.name, one.dataType) for one in aggregated.fields],
            _field("cause", T.StringType(), _CAUSES),
            _field("generation", T.LongType()),
            _field("run", T.StringType()),
            _field("batch", T.LongType()),
            _field(FAILURE, T.StringType(), _FAILURE),
        ]
    )


def gold_schema(aggregated: T.StructType, descriptions: dict[str, str]) -> T.StructType:
    """The current value of each window."""
    return T.StructType(
        [
            *[
                _field(one.name, one.dataType, descriptions.get(one.name))
                for one in aggregated.fields
            ],
            _field("status", T.StringType(), _STATUS),
            _field("revision", T.LongType(), "Changes after the window closed"),
            _field("updated_by", T.StringType(), "The run"),
            _field("window_date", T.DateType(), "Date of window_start, UTC; the partition"),
        ]
    )


def of_other_types(has: T.StructType, wanted: T.StructType) -> dict[str, Column]:
    """The columns that are wanted in another type than rows have them in, cast to it."""
    kinds = {field.name: field.dataType for field in wanted}
    return {
        field.name: F.col(f"`{field.name}`").cast(kinds[field.name])
        for field in has
        if field.name in kinds and kinds[field.name].simpleString() != field.dataType.simpleString()
    }
