"""The columns of bronze, rejects, changes and gold, as Spark types with their comments."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T

from tidemark.pipeline.model import Pipeline
from tidemark.sources.source import OriginColumn, ordering
from tidemark.storage.delta.history import FAILURE

Origin = Sequence[OriginColumn]

_OF_BATCH = [
    T.StructField("_batch", T.LongType(), True, {"comment": "The ingest batch that read it"}),
    T.StructField("_batch_time", T.TimestampType(), True, {"comment": "That batch's time, UTC"}),
]

_ID = "Tells the record's place in the source: the same each time that it is read"
_FAILURE = "Why a measure cannot be computed; the window is not in gold then"
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
    fields = [_commented(judged[name], comments.get(name)) for name in names]
    extra = _commented(judged["_extra"], "Fields that are no column, as JSON")
    date = _commented(judged["_event_date"], "Date of the event time, UTC; the partition")
    return T.StructType([*fields, extra, *origin_schema(origin), *_OF_BATCH, date])


def rejects_schema(origin: Origin) -> T.StructType:
    """One row for each line, or whole part of the source, that was not accepted."""
    return T.StructType(
        [
            T.StructField("reason", T.StringType(), True, {"comment": "Why it was rejected"}),
            T.StructField("detail", T.StringType(), True, {"comment": "What exactly was found"}),
            T.StructField("raw", T.StringType(), True, {"comment": "The line; null: a file"}),
            T.StructField(
                "raw_bytes",
                T.BinaryType(),
                True,
                {"comment": "The line's bytes, where they are not valid UTF-8"},
            ),
            T.StructField("event_time", T.TimestampType(), True, {"comment": "Where readable"}),
            T.StructField(
                "repeats",
                repeats_type(origin),
                True,
                {"comment": "Of a duplicate: the accepted row (in bronze) that it repeats"},
            ),
            *origin_schema(origin),
            *_OF_BATCH,
            T.StructField("id", T.StringType(), True, {"comment": _ID}),
        ]
    )


def changes_schema(aggregated: T.StructType) -> T.StructType:
    """A window's value each time that it changed, with what caused the change."""
    return T.StructType(
        [
            *[_commented(field, None) for field in aggregated.fields],
            T.StructField("cause", T.StringType(), True, {"comment": _CAUSES}),
            T.StructField("generation", T.LongType(), True),
            T.StructField("run", T.StringType(), True),
            T.StructField("batch", T.LongType(), True),
            T.StructField(FAILURE, T.StringType(), True, {"comment": _FAILURE}),
        ]
    )


def gold_schema(aggregated: T.StructType, descriptions: dict[str, str]) -> T.StructType:
    """The current value of each window."""
    return T.StructType(
        [
            *[_commented(field, descriptions.get(field.name)) for field in aggregated.fields],
            T.StructField(
                "status",
                T.StringType(),
                True,
                {"comment": "provisional (open), final (closed), corrected (changed after that)"},
            ),
            T.StructField(
                "revision", T.LongType(), True, {"comment": "Changes after the window closed"}
            ),
            T.StructField("updated_by", T.StringType(), True, {"comment": "The run"}),
            T.StructField(
                "window_date",
                T.DateType(),
                True,
                {"comment": "Date of window_start, UTC; the partition"},
            ),
        ]
    )


def _commented(field: T.StructField, comment: str | None) -> T.StructField:
    metadata = {"comment": comment} if comment else {}
    return T.StructField(field.name, field.dataType, True, metadata)
