"""Derived columns, row by row: a row on which an expression fails is told, and ends nothing.

`derived` is a pure function of the rows, so a batch that runs again tells the same rows. What the
engine says of a failure is asked for few of them: the engine tells it for one row at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import takewhile
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.pipeline.expressions.sql import columns_read
from tidemark.pipeline.model import Source
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.engine.quiet import quiet
from tidemark.streaming.engine.tried import tried_in

EXPRESSION = "expression"
FAILED = "_failed"
DETAIL = "_detail"

_FAILURE = "struct<column:string,values:string,kind:bigint>"
_TRIED = "_tried"
_SHOWN, _SHOWN_SQL, _SHOWN_MESSAGE = 120, 240, 600
# The most failures of a derived column that the engine is asked for: some 20 ms each.
_ASKED = 8


def derived(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with each derived column, and `_failed`: which of them failed; null: none did.

    `rows` have the source's columns, whose own values do not fail. On a row that failed every
    derived column is null, and `_failed` holds the `column` that failed first, the `values` of the
    columns that it reads, as text, and their `kind`: rows of one kind fail alike.

    An `Error` of the JVM is no failure of a row: a stack or a heap that was too small ends the job.
    """
    own = [_column(name) for name in rows.columns]
    if not source.derive:
        return rows.select(*own, F.lit(None).cast(_FAILURE).alias(FAILED))
    tried = tried_in(rows.sparkSession)
    failed = F.col(FAILED)
    rows = rows.withColumn(FAILED, F.lit(None).cast("string"))
    for name, sql in source.derive.items():
        rows = rows.withColumn(_TRIED, tried(F.expr(sql), failed.isNull()))
        first = F.when(F.col(_TRIED).isNull(), F.coalesce(failed, F.lit(name)))
        rows = rows.withColumns({name: F.col(_TRIED)["value"], FAILED: first}).drop(_TRIED)
    values = [F.when(failed.isNull(), _column(name)).alias(name) for name in source.derive]
    return rows.select(*own, *values, _failure(rows.schema, source).alias(FAILED))


def failure_details(failed: DataFrame, source: Source) -> DataFrame:
    """Rows of `derived` that failed, with what a reject says of each in `_detail`.

    The same for the same rows, whatever their order and partitions. Of each derived column the
    engine is asked what it says of a few failures, chosen by the values that the column reads; all
    rows with these values are told so, the others without the engine's words. This reads the rows
    once, and what comes back reads them again: an expression that fails is dear, so keep them.
    """
    column, messages = F.col(f"{FAILED}.column"), _messages(failed, source)
    what = {
        name: F.lit(f"{name}: {_cut(sql, _SHOWN_SQL)} failed")
        for name, sql in source.derive.items()
    }
    said = {kind: F.lit(f": {text}") for kind, text in messages.items()}
    texts = [
        _chosen(column, what),
        _chosen(F.col(f"{FAILED}.kind"), said),
        F.concat(F.lit(" ("), F.col(f"{FAILED}.values"), F.lit(")")),
    ]
    return failed.withColumn(DETAIL, F.concat(*[F.coalesce(text, F.lit("")) for text in texts]))


def _chosen(value: Column, texts: Mapping[Any, Column]) -> Column:
    """The one that belongs to a column's value; null where none does."""
    nothing = F.when(F.lit(False), F.lit(None))
    return reduce(lambda chain, key: chain.when(value == key, texts[key]), texts, nothing)


def _failure(schema: T.StructType, source: Source) -> Column:
    """What `_failed` holds, of the name of the column that failed first."""
    types = {field.name: field.dataType for field in schema}
    known = [*source.columns, *source.derive]
    read = {
        name: columns_read(sql, known[: known.index(name)]) for name, sql in source.derive.items()
    }
    failures = {
        name: _failure_of(name, {column: types[column] for column in columns})
        for name, columns in read.items()
    }
    return _chosen(F.col(FAILED), failures)


def _failure_of(name: str, read: Mapping[str, T.DataType]) -> Column:
    texts = {column: _as_text(column, kind) for column, kind in read.items()}
    values = [
        F.concat(F.lit(f"{column} = "), _shown(text, read[column]))
        for column, text in texts.items()
    ]
    # A hash passes over nulls: of (1, null) and (null, 1) it would be the same.
    whole = [part for text in texts.values() for part in (text.isNull(), text)]
    shown = F.concat_ws(", ", *values) if values else F.lit(None).cast("string")
    kind = F.xxhash64(F.lit(name), *whole)
    return F.struct(F.lit(name).alias("column"), shown.alias("values"), kind.alias("kind"))


def _as_text(name: str, kind: T.DataType) -> Column:
    """The whole value as text that is valid UTF-8; null for null."""
    if isinstance(kind, T.BinaryType):
        return F.hex(_column(name))
    return F.make_valid_utf8(_column(name).cast("string"))


def _shown(text: Column, kind: T.DataType) -> Column:
    short = F.substring(text, 1, _SHOWN)
    quoted = F.concat(F.lit("'"), short, F.lit("'")) if isinstance(kind, T.StringType) else short
    return F.coalesce(quoted, F.lit("null"))


def _messages(failed: DataFrame, source: Source) -> dict[int, str]:
    """What the engine says, by kind, of the failures that it is asked for."""
    kind = F.col(f"{FAILED}.kind")
    row = F.struct(*[_column(name) for name in source.columns])
    share = F.pmod(kind, F.lit(_ASKED))
    grouped = failed.groupBy(F.col(f"{FAILED}.column").alias("_column"), share)
    chosen = grouped.agg(F.min(kind).alias("_kind"), F.min_by(row, kind).alias("_row"))
    asked = chosen.select("_column", "_kind", "_row.*")
    of_source = T.StructType(list(asked.schema)[2:])
    samples = asked.toArrow()
    rows = samples.drop_columns(["_column", "_kind"])
    messages = {}
    for at, sample in enumerate(samples.select(["_column", "_kind"]).to_pylist()):
        # A few rows of Arrow are evaluated by the planner: no task fails, none is logged.
        alone = frame_of(failed.sparkSession, rows.slice(at, 1), of_source)
        if said := _said_of(alone, source, sample["_column"]):
            messages[sample["_kind"]] = said
    return messages


def _said_of(row: DataFrame, source: Source, name: str) -> str | None:
    """What the engine says when it derives a column of one row; None where it does not fail."""
    for column in (*takewhile(lambda column: column != name, source.derive), name):
        row = row.withColumn(column, F.expr(source.derive[column]))
    try:
        with quiet():
            row.select(_column(name)).collect()
    except PySparkException as error:
        return _cut(error.getMessage() or str(error), _SHOWN_MESSAGE)
    except Py4JJavaError as error:
        return _cut(str(error.java_exception), _SHOWN_MESSAGE)
    return None


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} …"


def _column(name: str) -> Column:
    return F.col(f"`{name}`")
