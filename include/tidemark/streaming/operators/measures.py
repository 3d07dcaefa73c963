"""Measures whose failure is a verdict on their row, and no end of the query.

A measure is evaluated when its aggregates are complete, so the engine's state is the same with and
without this, and a checkpoint that either has left goes on with the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, LongType, StructType

from tidemark.pipeline.expressions.aggregates import canonical_values
from tidemark.pipeline.expressions.exact_sums import exact_sums
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.beyond_calendar import BEYOND, beyond_calendar
from tidemark.streaming.engine.tried import tried_in

_SHOWN = 240


def measured(
    grouped: GroupedData, measures: Mapping[str, str], rows: DataFrame, exact: bool
) -> DataFrame:
    """Each group of these rows with its measures, `rows`, and FAILURE.

    Sums of longs are exact where that is asked and the rows are no stream: its state has longs.

    A measure that cannot be evaluated (a division of one sum by another that is zero, say), or has
    a day or time outside the years 1 to 9999, is null then, and FAILURE names all of these with
    their SQL. What fails on an input row, or in an aggregate that overflows while it is put
    together, fails the query.
    """
    tried = tried_in(rows.sparkSession)
    # The state has the aggregates in the order in which they stand here: `rows` is the last.
    added = {name: _added(sql, rows, exact) for name, sql in measures.items()}
    columns = [tried(F.expr(sql), None).alias(name) for name, sql in added.items()]
    found = grouped.agg(*columns, F.count(F.lit(1)).alias("rows"))
    values = {name: F.col(f"`{name}`")["value"] for name in measures}
    kinds = found.select(*[value.alias(name) for name, value in values.items()]).schema
    beyond = {name: beyond_calendar(value, kinds[name].dataType) for name, value in values.items()}
    said = {name: f"{name}: {sql[:_SHOWN]} failed" for name, sql in measures.items()}
    failures = [
        F.when(F.col(f"`{name}`").isNull(), F.lit(text)).when(
            beyond[name], F.lit(f"{text}: {BEYOND}")
        )
        for name, text in said.items()
    ]
    values = {name: F.when(~beyond[name], value) for name, value in values.items()}
    failure = (
        F.nullif(F.concat_ws("; ", *failures), F.lit(""))
        if failures
        else F.lit(None).cast("string")
    )
    return found.withColumns({**values, FAILURE: failure})


def _added(sql: str, rows: DataFrame, exact: bool) -> str:
    def type_of(value: str) -> DataType:
        return rows.select(F.expr(value)).schema[0].dataType

    sql = canonical_values(sql, lambda value: canonical(value, type_of(value)))
    if rows.isStreaming or not exact:
        return sql
    return exact_sums(sql, lambda summed: isinstance(type_of(summed), LongType))


def canonical(value: str, kind: DataType, depth: int = 0) -> str:
    """A value of this type with one zero and one NaN: of those that are equal to Spark, whose
    sign and bits differ, the order of rows would decide which comes out."""
    if isinstance(kind, DoubleType | FloatType):
        name = kind.typeName()
        return f"nanvl(({value}) + {name}(0), {name}('NaN'))"
    part = f"_{depth}"
    if isinstance(kind, ArrayType):
        element = canonical(part, kind.elementType, depth + 1)
        return value if element == part else f"transform({value}, {part} -> {element})"
    if isinstance(kind, StructType):
        was = [f"{part}.{_quoted(field.name)}" for field in kind]
        found = [
            canonical(sql, field.dataType, depth + 1)
            for sql, field in zip(was, kind.fields, strict=True)
        ]
        if found == was:
            return value
        struct = ", ".join(
            f"{_text(name)}, {sql}" for name, sql in zip(kind.names, found, strict=True)
        )
        # Of an array of one, so that the value is written, and evaluated, once.
        struct = f"if({part} is null, null, named_struct({struct}))"
        return f"transform(array({value}), {part} -> {struct})[0]"
    return value


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
