"""Spark SQL in DuckDB's words, so that a check of few rows needs no Spark.

Only what means the same in both is taken, and that follows from types as much as from words: a
cast of 1.5 to an integer is 1 in Spark and 2 in DuckDB, a double is written `1.0E10` in one and
`10000000000.0` in the other, text is compared with a number as a number in one and as text in the
other. So every part is translated with its type. Where a type is not known yet (a measure's, before
Spark has planned it) the part is taken, and judged again with the columns of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from sqlglot import ErrorLevel, exp, parse_one

from tidemark.pipeline.expressions import duckdb_casts, duckdb_numbers, duckdb_text, duckdb_times
from tidemark.pipeline.expressions.duckdb_values import (
    BINARY,
    BOOLEAN,
    NESTED,
    NULL,
    TEXT,
    TIMES,
    UNKNOWN,
    Kind,
    Untranslated,
    Value,
)
from tidemark.pipeline.expressions.names import DIALECT, with_escaped_quotes
from tidemark.pipeline.names import folded, same_column

_ALLOWED = (
    "allowed are comparisons, between, in, like, is null, and, or, not, arithmetic, case, if, "
    "coalesce, nullif, greatest, least, abs, lower, upper, length, startswith, endswith, contains, "
    "cast, hour, minute, and literals of dates, times and intervals"
)
_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
)
# A table's columns, by folded name.
Columns = Mapping[str, tuple[str, Kind]]


def condition_in_duckdb(text: str, columns: Columns) -> str:
    """A condition of a pipeline file, for a connection in UTC. ValueError as of `in_duckdb`."""
    return in_duckdb(parse_one(with_escaped_quotes(text), dialect=DIALECT), columns)


def columns_of(kinds: Mapping[str, Kind]) -> Columns:
    """The columns of a table, by their names and types."""
    return {folded(name): (name, kind) for name, kind in kinds.items()}


def in_duckdb(expression: exp.Expr, columns: Columns) -> str:
    """An expression over these columns in DuckDB's SQL.

    ValueError names the part that DuckDB would not understand, or in another way.
    """
    try:
        translated = _Translation(columns).value(expression)
        if translated.kind not in (BOOLEAN, NULL, UNKNOWN):
            raise ValueError("is no condition: it should be true for a good row")
        # Quoted, because DuckDB reserves other words than Spark.
        return translated.sql.sql("duckdb", unsupported_level=ErrorLevel.RAISE, identify=True)
    except RecursionError:
        raise ValueError("has too many parts within each other to be translated") from None


class _Translation:
    """Of one expression, over columns whose types are known or not."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def value(self, node: exp.Expr) -> Value:
        """A node with the nodes below it. ValueError where DuckDB has no word for it."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise ValueError(f"`{_written(node)}` cannot be translated to DuckDB; {_ALLOWED}")
        try:
            return rule(self, node)
        except Untranslated as reason:
            raise ValueError(
                f"`{_written(node)}` cannot be translated to DuckDB: {reason}"
            ) from None

    def values(self, *nodes: exp.Expr | None) -> list[Value]:
        return [self.value(node) for node in nodes if node is not None]

    def condition(self, node: exp.Expr) -> exp.Expr:
        found = self.value(node)
        if found.kind not in (BOOLEAN, NULL, UNKNOWN):
            _refuse(f"{found.kind} is no condition")
        return found.sql

    def alike(self, *nodes: exp.Expr | None) -> tuple[list[exp.Expr], Kind]:
        """Values that both engines compare as one type, and that type."""
        found = self.values(*nodes)
        return _alike(found)


def _alike(values: list[Value]) -> tuple[list[exp.Expr], Kind]:
    kinds = {value.kind.name for value in values} - {NULL.name, UNKNOWN.name}
    if not kinds:
        return [value.sql for value in values], UNKNOWN
    if all(value.kind.is_number for value in values if value.kind.name in kinds):
        return duckdb_numbers.alike(values)
    if kinds & set(TIMES):
        return duckdb_times.alike(values)
    if len(kinds) > 1:
        one, other, *_ = sorted(kinds)
        _refuse(f"{one} and {other} are compared in another way; cast one of them")
    (name,) = kinds
    if name == NESTED.name:
        _refuse("arrays, maps and structs are compared in another way")
    return [value.sql for value in values], Kind(name)


def _refuse(reason: str) -> NoReturn:
    raise Untranslated(reason)


def _written(node: exp.Expr) -> str:
    return node.sql("spark")


def _column(to: _Translation, node: exp.Expr) -> Value:
    parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    found = to.columns.get(folded(parts[0])) if parts else None
    if found is None or not same_column(parts[0], found[0]):
        _refuse("it is no column of the table")
    name, kind = found
    if len(parts) > 1:
        _refuse("it is a part of a column")
    column = exp.column(exp.to_identifier(name, quoted=True))
    return Value(duckdb_numbers.as_double(column) if kind.name == "float" else column, kind)


def _boolean(to: _Translation, node: exp.Expr) -> Value:
    return Value(node.copy(), BOOLEAN)


def _null(to: _Translation, node: exp.Expr) -> Value:
    return Value(node.copy(), NULL)


def _paren(to: _Translation, node: exp.Expr) -> Value:
    inner = to.value(node.this)
    return Value(exp.Paren(this=inner.sql), inner.kind, inner.literal)


def _logic(to: _Translation, node: exp.Expr) -> Value:
    # A chain is as deep as it is long.
    kind, chain = type(node), []
    while type(node) is kind:
        chain.append(node.args["expression"])
        node = node.this
    sql = to.condition(node)
    for side in reversed(chain):
        sql = kind(this=sql, expression=to.condition(side))
    return Value(sql, BOOLEAN)


def _not(to: _Translation, node: exp.Expr) -> Value:
    return Value(exp.Not(this=to.condition(node.this)), BOOLEAN)


def _compared(to: _Translation, node: exp.Expr) -> Value:
    (left, right), _ = to.alike(node.this, node.expression)
    return Value(type(node)(this=left, expression=right), BOOLEAN)


def _between(to: _Translation, node: exp.Expr) -> Value:
    if node.args.get("symmetric"):
        _refuse("Spark has no symmetric between")
    (one, low, high), _ = to.alike(node.this, node.args["low"], node.args["high"])
    return Value(exp.Between(this=one, low=low, high=high), BOOLEAN)


def _in(to: _Translation, node: exp.Expr) -> Value:
    if not node.expressions:
        _refuse("it needs a list of values")
    (one, *listed), _ = to.alike(node.this, *node.expressions)
    return Value(exp.In(this=one, expressions=listed), BOOLEAN)


def _is(to: _Translation, node: exp.Expr) -> Value:
    asked = to.value(node.this)
    if isinstance(node.expression, exp.Boolean):
        return Value(exp.Is(this=to.condition(node.this), expression=node.expression), BOOLEAN)
    if not isinstance(node.expression, exp.Null):
        _refuse("only null, true and false can follow `is`")
    return Value(exp.Is(this=asked.sql, expression=exp.Null()), BOOLEAN)


def _case(to: _Translation, node: exp.Expr) -> Value:
    asked, branches = node.this, node.args["ifs"]
    if asked is None:
        conditions = [to.condition(branch.this) for branch in branches]
    else:
        (one, *others), _ = to.alike(asked, *(branch.this for branch in branches))
        conditions = [exp.EQ(this=one.copy(), expression=other) for other in others]
    default = node.args.get("default")
    chosen, kind = to.alike(*(branch.args["true"] for branch in branches), default)
    last = chosen.pop() if default is not None else None
    ifs = [exp.If(this=asked, true=true) for asked, true in zip(conditions, chosen, strict=True)]
    return Value(exp.Case(ifs=ifs, default=last), kind)


def _if(to: _Translation, node: exp.Expr) -> Value:
    condition = to.condition(node.this)
    chosen, kind = to.alike(node.args["true"], node.args.get("false"))
    default = chosen[1] if len(chosen) > 1 else None
    return Value(exp.Case(ifs=[exp.If(this=condition, true=chosen[0])], default=default), kind)


def _one_of(to: _Translation, node: exp.Expr) -> Value:
    (first, *others), kind = to.alike(node.this, *node.expressions)
    # Spark's pass over nulls, and so do DuckDB's.
    passes = {} if isinstance(node, exp.Coalesce) else {"ignore_nulls": True}
    return Value(type(node)(this=first, expressions=others, **passes), kind)


def _nullif(to: _Translation, node: exp.Expr) -> Value:
    kind = to.value(node.this).kind
    (one, other), _ = to.alike(node.this, node.expression)
    return Value(exp.Nullif(this=one, expression=other), kind)


def _arithmetic(to: _Translation, node: exp.Expr) -> Value:
    left, right = to.values(node.this, node.expression)
    if duckdb_times.is_of_time(left, right):
        return duckdb_times.arithmetic(node, left, right)
    return duckdb_numbers.arithmetic(node, left, right)


def _of_number(to: _Translation, node: exp.Expr) -> Value:
    return duckdb_numbers.of_one(node, to.value(node.this))


def _literal(to: _Translation, node: exp.Expr) -> Value:
    if node.is_string:
        return Value(node.copy(), TEXT, literal=str(node.this))
    return duckdb_numbers.literal(str(node.this))


def _cast(to: _Translation, node: exp.Expr) -> Value:
    if not isinstance(node, exp.Cast):
        raise TypeError(node)
    return duckdb_casts.cast(node, to.value(node.this))


def _interval(to: _Translation, node: exp.Expr) -> Value:
    return duckdb_times.interval(node)


def _part_of_time(to: _Translation, node: exp.Expr) -> Value:
    return duckdb_times.part(node, to.value(node.this))


def _of_text(to: _Translation, node: exp.Expr) -> Value:
    found = to.values(node.this, node.args.get("expression"))
    if {value.kind for value in found} <= {BINARY} and isinstance(node, exp.Length):
        return duckdb_text.bytes_of(found[0])
    return duckdb_text.of_text(node, found)


_Rule = Callable[[_Translation, exp.Expr], Value]
_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    **dict.fromkeys((exp.And, exp.Or), _logic),
    exp.Not: _not,
    **dict.fromkeys(_COMPARISONS, _compared),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), _one_of),
    exp.Nullif: _nullif,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _arithmetic),
    **dict.fromkeys((exp.Neg, exp.Abs), _of_number),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    exp.Interval: _interval,
    **dict.fromkeys((exp.Hour, exp.Minute), _part_of_time),
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Length, exp.Like), _of_text),
    **dict.fromkeys((exp.StartsWith, exp.EndsWith, exp.Contains), _of_text),
}
