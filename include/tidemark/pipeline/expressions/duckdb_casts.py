"""Casts that come to the same in DuckDB and in Spark, in Spark's ANSI mode."""

from __future__ import annotations

from sqlglot import exp

from tidemark.pipeline.expressions.duckdb_numbers import to_double
from tidemark.pipeline.expressions.duckdb_times import text_as
from tidemark.pipeline.expressions.duckdb_types import kind_of_type
from tidemark.pipeline.expressions.duckdb_values import (
    BOOLEAN,
    DATE,
    DOUBLE,
    NULL,
    NUMBER,
    TEXT,
    TIMES,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Untranslated,
    Value,
    call,
)

_FRACTIONS = "its digits are written or rounded in another way"


def cast(node: exp.Cast, value: Value) -> Value:
    """A cast, or `try_cast`, with the same outcome for each value; one that fails is an error."""
    to = kind_of_type(node.to)
    if to in (UNKNOWN, Kind("float")):
        raise Untranslated(f"a cast to {node.to.sql('spark').lower()} comes to something else")
    known = value.kind not in (UNKNOWN, NUMBER)
    found = _cast(value, to) if known else value.sql
    target = _named(to)
    if node.args.get("safe"):
        return Value(exp.TryCast(this=found, to=target, safe=True), to)
    return Value(exp.Cast(this=found, to=target), to, literal=value.literal if to == TEXT else None)


def _named(kind: Kind) -> exp.DataType:
    names = {TEXT: "varchar", TIMESTAMP: "timestamptz"}
    name = f"decimal({kind.precision},{kind.scale})" if kind.is_decimal else kind.name
    return exp.DataType.build(names.get(kind, name), dialect="duckdb")


def _cast(value: Value, to: Kind) -> exp.Expr:
    """What is left to be cast by DuckDB."""
    kind = value.kind
    if kind in (to, NULL):
        return value.sql
    if value.literal is not None:
        return _of_literal(value.literal, to)
    if kind == TEXT:
        raise Untranslated("text is read in another way; cast it in `derive` or in the measure")
    if to == TEXT:
        return _as_text(value)
    if kind.is_number and (to.is_whole or to.is_decimal):
        return _to_exact(value, to)
    if kind.is_number and to == DOUBLE:
        return to_double(value)
    if (kind.is_whole and to == BOOLEAN) or (kind == BOOLEAN and to.is_whole):
        return value.sql
    if kind.name in TIMES and to.name in TIMES:
        return value.sql
    raise Untranslated(f"{kind} becomes {to} in another way")


def _of_literal(text: str, to: Kind) -> exp.Expr:
    if to in (DATE, TIMESTAMP):
        return text_as(to, text).sql
    if to.is_decimal and text.replace(".", "", 1).isdecimal() and text.isascii():
        return exp.Literal.string(text)
    raise Untranslated("text is read in another way; write the value itself")


def _as_text(value: Value) -> exp.Expr:
    if value.kind == TIMESTAMP:
        # Spark's text of an instant has no zone.
        return call("timezone", exp.Literal.string("UTC"), value.sql)
    if value.kind.is_whole or value.kind.is_decimal or value.kind in (BOOLEAN, DATE):
        return value.sql
    raise Untranslated(_FRACTIONS if value.kind.is_floating else f"{value.kind} has another text")


def _to_exact(value: Value, to: Kind) -> exp.Expr:
    if to.is_whole:
        # Spark cuts, DuckDB rounds.
        return value.sql if value.kind.is_whole else call("trunc", value.sql)
    if value.kind.is_floating:
        raise Untranslated(_FRACTIONS)
    return value.sql
