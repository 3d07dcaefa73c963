"""Derived columns and rules, row by row: a row on which an expression fails is told, and ends
nothing.

`derived` and `ruled` are pure functions of the rows, so a batch that runs again tells the same
rows. What the engine says of a failure is asked for few of them: the engine tells it for one row
at a time.
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
from tidemark.pipeline.model import RowRule, Source
from tidemark.pipeline.reasons import EXPRESSION
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.beyond_calendar import BEYOND, beyond_calendar
from tidemark.streaming.engine.quiet import quiet
from tidemark.streaming.engine.tried import tried_in

FAILED = "_failed"
COUNTED = "_counted"
DETAIL = "_detail"

_FAILURE = "struct<reason:string,column:string,values:string,kind:bigint>"
_TRIED = "_tried"
_SHOWN, _SHOWN_SQL, _SHOWN_MESSAGE = 120, 240, 600
# The most failures of a derived column that the engine is asked for: some 20 ms each.
_ASKED = 8


def derived(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with each derived column, and `_failed`: which of them failed; null: none did.

    `rows` have the source's columns, whose own values do not fail. On a row that failed every
    derived column is null, and `_failed` holds the `reason` of a reject, the `column` that failed
    first, the `values` of the columns that it reads, as text, and their `kind`: rows of one kind
    fail alike. A value with a day or time outside the years 1 to 9999 is a failure too.

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
        value, kind = F.col(_TRIED)["value"], rows.select(f"{_TRIED}.value").schema[0].dataType
        fails = F.col(_TRIED).isNull() | beyond_calendar(value, kind)
        first = F.when(fails, F.coalesce(failed, F.lit(name)))
        rows = rows.withColumns({name: value, FAILED: first}).drop(_TRIED)
    values = [F.when(failed.isNull(), _column(name)).alias(name) for name in source.derive]
    return rows.select(*own, *values, _failure(_types(rows), source).alias(FAILED))


def ruled(rows: DataFrame, source: Source) -> DataFrame:
    """Rows of `derived` as the source's rules judge them, of rows that did not fail until then.

    The first rule decides that rejects a row, or whose condition fails on it. Where it rejects,
    the row has failed with its name as `reason`, and null for `column` and `kind`; a condition
    fails as a derived column does, with the rule for a `column`. `_counted` are the names of the
    rules that count a row which did not fail.
    """
    if not source.rules:
        return rows.withColumn(COUNTED, F.array().cast("array<string>"))
    tried, types = tried_in(rows.sparkSession), _types(rows)
    verdicts, counted = [F.col(FAILED)], []
    conditions = {
        f"{_TRIED}_{number}": tried(F.expr(rule.condition), F.col(FAILED).isNull())
        for number, rule in enumerate(source.rules)
    }
    # One projection for all: a chain of them takes the planner time by the square of their number.
    rows = rows.withColumns(conditions)
    for name, rule in zip(conditions, source.rules, strict=True):
        read = {column: types[column] for column in columns_read(rule.condition, _names(source))}
        holds, fails = F.col(name)["value"], F.col(name).isNull()
        verdicts.append(F.when(fails, _failure_of(EXPRESSION, _column_of(rule), read)))
        if rule.reject is None:
            counted.append(F.when(holds, F.lit(rule.name)))
        else:
            verdicts.append(F.when(holds, _failure_of(rule.name, None, read)))
    names = F.array_compact(F.array(*counted)) if counted else F.array()
    judged = {FAILED: F.coalesce(*verdicts), COUNTED: names.cast("array<string>")}
    return rows.withColumns(judged).drop(*conditions)


def failure_details(failed: DataFrame, source: Source) -> DataFrame:
    """Rows that failed, with what a reject says of each in `_detail`.

    The same for the same rows, whatever their order and partitions. Of each derived column the
    engine is asked what it says of a few failures, chosen by the values that the column reads; all
    rows with these values are told so, the others without the engine's words. This reads the rows
    once, and what comes back reads them again: an expression that fails is dear, so keep them.
    """
    messages = _messages(failed, source)
    what = {
        name: F.lit(f"{name}: {_cut(sql, _SHOWN_SQL)} failed")
        for name, sql in _expressions(source).items()
    }
    holds = {rule.name: F.lit(_cut(rule.condition, _SHOWN_SQL)) for rule in source.rules}
    said = {kind: F.lit(f": {text}") for kind, text in messages.items()}
    texts = [
        _chosen(F.col(f"{FAILED}.column"), what),
        _chosen(F.col(f"{FAILED}.reason"), holds),
        _chosen(F.col(f"{FAILED}.kind"), said),
        F.concat(F.lit(" ("), F.col(f"{FAILED}.values"), F.lit(")")),
    ]
    return failed.withColumn(DETAIL, F.concat(*[F.coalesce(text, F.lit("")) for text in texts]))


def _expressions(source: Source) -> dict[str, str]:
    """What can fail on a row, in the order in which it is evaluated, by what `_failed` calls it."""
    return {**source.derive, **{_column_of(rule): rule.condition for rule in source.rules}}


def _column_of(rule: RowRule) -> str:
    """What no column can be called."""
    return f"rule {rule.name}"


def _names(source: Source) -> list[str]:
    """The columns that an expression may read; a derived one those before it."""
    return [*source.place_types, *source.columns, *source.derive]


def _types(rows: DataFrame) -> dict[str, T.DataType]:
    return {field.name: field.dataType for field in rows.schema}


def _chosen(value: Column, texts: Mapping[Any, Column]) -> Column:
    """The one that belongs to a column's value; null where none does."""
    nothing = F.when(F.lit(False), F.lit(None))
    return reduce(lambda chain, key: chain.when(value == key, texts[key]), texts, nothing)


def _failure(types: Mapping[str, T.DataType], source: Source) -> Column:
    """What `_failed` holds, of the name of the column that failed first."""
    known = _names(source)
    read = {
        name: columns_read(sql, known[: known.index(name)]) for name, sql in source.derive.items()
    }
    failures = {
        name: _failure_of(EXPRESSION, name, {column: types[column] for column in columns})
        for name, columns in read.items()
    }
    return _chosen(F.col(FAILED), failures)


def _failure_of(reason: str, column: str | None, read: Mapping[str, T.DataType]) -> Column:
    texts = {name: _as_text(name, kind) for name, kind in read.items()}
    values = [
        F.concat(F.lit(f"{name} = "), _shown(text, read[name])) for name, text in texts.items()
    ]
    # A hash passes over nulls: of (1, null) and (null, 1) it would be the same.
    whole = [part for text in texts.values() for part in (text.isNull(), text)]
    shown = F.concat_ws(", ", *values) if values else F.lit(None).cast("string")
    kind = F.lit(None).cast("bigint") if column is None else F.xxhash64(F.lit(column), *whole)
    return F.struct(
        F.lit(reason).alias("reason"),
        F.lit(column).cast("string").alias("column"),
        shown.alias("values"),
        kind.alias("kind"),
    )


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
    row = F.struct(*[_column(name) for name in (*source.place_types, *source.columns)])
    share = F.pmod(kind, F.lit(_ASKED))
    grouped = failed.where(kind.isNotNull()).groupBy(
        F.col(f"{FAILED}.column").alias("_column"), share
    )
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
    """What the engine says when it evaluates an expression on one row, or we of its value; None
    where it does not fail."""
    for column in takewhile(lambda column: column != name, source.derive):
        row = row.withColumn(column, F.expr(source.derive[column]))
    value = F.expr(_expressions(source)[name])
    try:
        with quiet():
            beyond = beyond_calendar(value, row.select(value).schema[0].dataType)
            # In Arrow, as Python has no value that is one.
            told = row.select(value.alias("value"), beyond.alias("beyond")).toArrow()
    except PySparkException as error:
        return _cut(error.getMessage() or str(error), _SHOWN_MESSAGE)
    except Py4JJavaError as error:
        return _cut(str(error.java_exception), _SHOWN_MESSAGE)
    return BEYOND if told["beyond"][0].as_py() else None


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} …"


def _column(name: str) -> Column:
    return F.col(f"`{name}`")
