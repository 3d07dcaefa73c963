"""Spark SQL in DuckDB's words, so that a check of few rows, and what counts for a table, need no
Spark.

Only what means the same in both is taken, and that follows from types as much as from words: text
is compared with a number as a number in Spark and as text in DuckDB, a sum of two small numbers has
another type, a decimal divided by one another number of digits. So every part is translated with
its type. What the engines have different answers for (casts, rounding, letters in another case,
parts of a time) is left out: a measure has it, or a derived column. Where a type is not known yet
(a measure's, before Spark has planned it) the part is taken, and judged again with the columns of
the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import ErrorLevel, exp, parse_one

from tidemark.pipeline.expressions.arithmetic import (
    OF_ONE_TYPE,
    arithmetic,
    as_double,
    interval,
    number_of,
    numbers_alike,
    of_one,
    text_as,
    times_alike,
)
from tidemark.pipeline.expressions.kinds import (
    BINARY,
    BOOLEAN,
    INT,
    NESTED,
    NULL,
    TEXT,
    TIMES,
    UNKNOWN,
    Kind,
    Untranslated,
    Value,
    call,
    cast,
    kind_of_type,
)
from tidemark.pipeline.expressions.names import DIALECT, with_escaped_quotes
from tidemark.pipeline.names import folded, same_column

_ALLOWED = (
    "allowed are comparisons, between, in, like, is null, and, or, not, arithmetic, case, if, "
    "coalesce, nullif, greatest, least, abs, length, startswith, endswith, contains, and literals "
    "of numbers, text, dates, times and intervals; have a measure or a derived column that "
    "computes the rest, and name that"
)
_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
)
# A table's columns, by folded name; one of kind NULL is not there, and null in each row.
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
        read = _READ | {"negate"} if isinstance(node, exp.Like) else _READ
        if rule is None or not read.issuperset(name for name, part in node.args.items() if part):
            raise ValueError(f"`{node.sql(DIALECT)}` cannot be translated to DuckDB; {_ALLOWED}")
        try:
            return rule(self, node)
        except Untranslated as reason:
            raise ValueError(
                f"`{node.sql(DIALECT)}` cannot be translated to DuckDB: {reason}"
            ) from None

    def values(self, *nodes: exp.Expr | None) -> list[Value]:
        return [self.value(node) for node in nodes if node is not None]

    def condition(self, node: exp.Expr) -> exp.Expr:
        found = self.value(node)
        if found.kind not in (BOOLEAN, NULL, UNKNOWN):
            raise Untranslated(f"{found.kind} is no condition")
        return found.sql

    def alike(self, *nodes: exp.Expr | None) -> tuple[list[exp.Expr], Kind]:
        """Values that both engines compare as one type, and that type."""
        values = self.values(*nodes)
        kinds = {value.kind.name for value in values} - {NULL.name, UNKNOWN.name}
        if not kinds:
            return [value.sql for value in values], UNKNOWN
        if all(value.kind.is_number for value in values if value.kind.name in kinds):
            return numbers_alike(values)
        if kinds & set(TIMES):
            return times_alike(values)
        if len(kinds) > 1:
            one, other, *_ = sorted(kinds)
            raise Untranslated(f"{one} and {other} are compared in another way; {OF_ONE_TYPE}")
        (name,) = kinds
        if name == NESTED.name:
            raise Untranslated("arrays, maps and structs are compared in another way")
        return [value.sql for value in values], Kind(name)


def _column(to: _Translation, node: exp.Expr) -> Value:
    parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    # A lookup's column is known by both its names; no other name has a dot.
    whole = ".".join(parts)
    found = to.columns.get(folded(whole))
    if found is None or not same_column(whole, found[0]):
        known = len(parts) > 1 and folded(parts[0]) in to.columns
        raise Untranslated("it is a part of a column" if known else "it is no column of the table")
    name, kind = found
    if kind == NULL:
        return Value(exp.Null(), NULL)
    column = exp.column(exp.to_identifier(name, quoted=True))
    return Value(as_double(column) if kind.name == "float" else column, kind)


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


def _compared(to: _Translation, node: exp.Expr) -> Value:
    (left, right), _ = to.alike(node.this, node.expression)
    return Value(type(node)(this=left, expression=right), BOOLEAN)


def _between(to: _Translation, node: exp.Expr) -> Value:
    if node.args.get("symmetric"):
        raise Untranslated("Spark has no symmetric between")
    (one, low, high), _ = to.alike(node.this, node.args["low"], node.args["high"])
    return Value(exp.Between(this=one, low=low, high=high), BOOLEAN)


def _in(to: _Translation, node: exp.Expr) -> Value:
    if not node.expressions:
        raise Untranslated("it needs a list of values")
    (one, *listed), _ = to.alike(node.this, *node.expressions)
    return Value(exp.In(this=one, expressions=listed), BOOLEAN)


def _is(to: _Translation, node: exp.Expr) -> Value:
    asked = to.value(node.this)
    if isinstance(node.expression, exp.Boolean):
        return Value(exp.Is(this=to.condition(node.this), expression=node.expression), BOOLEAN)
    if not isinstance(node.expression, exp.Null):
        raise Untranslated("only null, true and false can follow `is`")
    return Value(exp.Is(this=asked.sql, expression=exp.Null()), BOOLEAN)


def _case(to: _Translation, node: exp.Expr) -> Value:
    asked, branches = None, node.args["ifs"]
    if node.this is None:
        whens = [to.condition(branch.this) for branch in branches]
    else:
        (asked, *whens), _ = to.alike(node.this, *(branch.this for branch in branches))
    default = node.args.get("default")
    chosen, kind = to.alike(*(branch.args["true"] for branch in branches), default)
    last = chosen.pop() if default is not None else None
    ifs = [exp.If(this=when, true=true) for when, true in zip(whens, chosen, strict=True)]
    return Value(exp.Case(this=asked, ifs=ifs, default=last), kind)


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
    # Compared as one type; what is given is the first value in its own.
    first = to.value(node.this)
    (one, other), _ = to.alike(node.this, node.expression)
    equal = exp.EQ(this=exp.Paren(this=one), expression=exp.Paren(this=other))
    chosen = exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=first.sql)
    return Value(chosen, first.kind)


def _arithmetic(to: _Translation, node: exp.Expr) -> Value:
    return arithmetic(node, *to.values(node.this, node.expression))


def _literal(to: _Translation, node: exp.Expr) -> Value:
    if node.is_string:
        return Value(node.copy(), TEXT, literal=str(node.this))
    return number_of(str(node.this))


def _typed_literal(to: _Translation, node: exp.Expr) -> Value:
    """`date '…'` and `timestamp '…'`, which sqlglot reads as casts of text that is written out."""
    kind = kind_of_type(node.args["to"])
    if kind.name not in TIMES or not node.this.is_string or node.args.get("safe"):
        raise Untranslated(
            "a cast comes to something else for some values; have a measure or a derived column "
            "that casts"
        )
    return text_as(kind, str(node.this.this))


def _length(to: _Translation, node: exp.Expr) -> Value:
    found = to.value(node.this)
    if found.kind == BINARY:
        return Value(cast(call("octet_length", found.sql), "int"), INT)
    return Value(cast(call("length", _text(found)), "int"), INT)


def _of_text(to: _Translation, node: exp.Expr) -> Value:
    text, other = to.values(node.this, node.expression)
    one, two = _text(text), _text(other)
    if not isinstance(node, exp.Like):
        return Value(call(_OF_TEXT[type(node)], one, two), BOOLEAN)
    # Spark's patterns escape with a backslash, DuckDB's with nothing.
    if other.literal is None and other.kind != NULL:
        raise Untranslated("a pattern has to be written out")
    if "\\" in (other.literal or ""):
        raise Untranslated("a pattern with a backslash is read in another way")
    like = exp.Like(this=one, expression=two)
    return Value(exp.Not(this=like) if node.args.get("negate") else like, BOOLEAN)


def _text(value: Value) -> exp.Expr:
    if value.kind not in (TEXT, NULL, UNKNOWN):
        raise Untranslated(f"it needs text, and has {value.kind}")
    # DuckDB has such functions of lists too.
    return cast(value.sql, "varchar") if value.kind == NULL else value.sql


_OF_TEXT: dict[type[exp.Expr], str] = {
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
}
# What the rules read of a node: another part would be lost without a word.
_READ = {
    *("this", "table", "expression", "expressions", "low", "high", "symmetric", "ifs", "default"),
    *("true", "false", "to", "unit", "is_string", "ignore_nulls", "safe", "typed"),
}
_Rule = Callable[[_Translation, exp.Expr], Value]
_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda to, node: Value(node.copy(), BOOLEAN),
    exp.Null: lambda to, node: Value(node.copy(), NULL),
    exp.Paren: _paren,
    **dict.fromkeys((exp.And, exp.Or), _logic),
    exp.Not: lambda to, node: Value(exp.Not(this=to.condition(node.this)), BOOLEAN),
    **dict.fromkeys(_COMPARISONS, _compared),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), _one_of),
    exp.Nullif: _nullif,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _arithmetic),
    **dict.fromkeys((exp.Neg, exp.Abs), lambda to, node: of_one(node, to.value(node.this))),
    **dict.fromkeys((exp.Cast, exp.TryCast), _typed_literal),
    exp.Interval: lambda to, node: interval(node),
    exp.Length: _length,
    **dict.fromkeys((exp.Like, *_OF_TEXT), _of_text),
}
