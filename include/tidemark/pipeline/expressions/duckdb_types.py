"""Types of Spark as a translation knows them, from sqlglot's and from their DDL."""

from __future__ import annotations

from sqlglot import exp

from tidemark.pipeline.expressions.duckdb_values import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    NESTED,
    NUMBER,
    TEXT,
    TIMES,
    TIMESTAMP,
    UNKNOWN,
    Kind,
)
from tidemark.pipeline.expressions.names import KnownName, Scope, known_name

_KINDS: dict[exp.DType, Kind] = {
    exp.DType.TINYINT: Kind("tinyint"),
    exp.DType.SMALLINT: Kind("smallint"),
    exp.DType.INT: Kind("int"),
    exp.DType.BIGINT: Kind("bigint"),
    exp.DType.FLOAT: Kind("float"),
    exp.DType.DOUBLE: Kind("double"),
    exp.DType.BOOLEAN: BOOLEAN,
    **dict.fromkeys(exp.DataType.TEXT_TYPES, TEXT),
    exp.DType.BINARY: BINARY,
    exp.DType.DATE: DATE,
    **dict.fromkeys((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ), TIMESTAMP),
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    **dict.fromkeys((exp.DType.ARRAY, exp.DType.LIST, exp.DType.STRUCT, exp.DType.MAP), NESTED),
}


def kind_of_type(kind: exp.DataType | None) -> Kind:
    """A type as sqlglot has it; unknown where that is none of these."""
    if kind is None:
        return UNKNOWN
    if kind.this == exp.DType.DECIMAL:
        digits = [int(part.name) for part in kind.expressions] or [10, 0]
        return Kind("decimal", digits[0], digits[1] if len(digits) > 1 else 0)
    return _KINDS.get(kind.this, UNKNOWN)


def kind_of_name(known: KnownName) -> Kind:
    """Of a column as it is declared; of a derived one no more than sqlglot can tell."""
    return _roughly(known.type) if known.derived else kind_of_type(known.type)


def _roughly(kind: exp.DataType | None) -> Kind:
    """Which number or time Spark makes of an expression, sqlglot does not know for sure."""
    found = kind_of_type(kind)
    if found.is_number:
        return NUMBER
    return UNKNOWN if found.name in TIMES else found


def kind_of_measure(root: exp.Expr, scope: Scope) -> Kind:
    """Of an aggregate over columns as Spark types it; of others no more than sqlglot can tell."""
    while isinstance(root, exp.Paren | exp.Filter):
        root = root.this
    if isinstance(root, exp.Count | exp.CountIf | exp.ApproxDistinct):
        return BIGINT
    column = root.this if isinstance(root.this, exp.Column) and not root.this.table else None
    known = known_name(column.name, scope) if column is not None else None
    of = kind_of_name(known) if known else UNKNOWN
    if known and isinstance(root, exp.Min | exp.Max):
        return of
    if of.is_decimal and isinstance(root, exp.Sum):
        return Kind("decimal", min(of.precision + 10, 38), of.scale)
    if (of.is_whole or of.is_floating) and isinstance(root, exp.Sum | exp.Avg):
        return BIGINT if of.is_whole and isinstance(root, exp.Sum) else DOUBLE
    return _roughly(root.type if isinstance(root.type, exp.DataType) else None)
