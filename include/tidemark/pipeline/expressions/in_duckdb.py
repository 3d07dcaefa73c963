"""Spark SQL in DuckDB's words, so that a check of few rows needs no Spark.

Only what means the same in both is taken. sqlglot writes more than that without a word: Spark's
`dayofweek` begins at 1 and DuckDB's at 0, `unix_timestamp` of a timestamp becomes a call that
DuckDB refuses, and regular expressions are Java's in one and RE2's in the other.
"""

from __future__ import annotations

from sqlglot import ErrorLevel, exp, parse_one

from tidemark.pipeline.expressions.names import DIALECT, with_escaped_quotes

_VALUES = (exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren)
_LOGIC = (exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Coalesce, exp.Nullif)
_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Between, exp.In, exp.Is, exp.Like, exp.Greatest, exp.Least),
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Abs)
_TEXT = (exp.Lower, exp.Upper, exp.Length, exp.StartsWith, exp.EndsWith, exp.Contains)
_TIME = (exp.Interval, exp.Var, exp.Cast, exp.DataType, exp.Hour, exp.Minute)
_SAME = (*_VALUES, *_LOGIC, *_COMPARISONS, *_ARITHMETIC, *_TEXT, *_TIME)
_ALLOWED = (
    "allowed are comparisons, between, in, like, is null, and, or, not, arithmetic, case, if, "
    "coalesce, nullif, greatest, least, abs, lower, upper, length, startswith, endswith, contains, "
    "cast, hour, minute, and literals of dates, times and intervals"
)


def condition_in_duckdb(text: str) -> str:
    """A condition of a pipeline file, which was checked when that was loaded."""
    return in_duckdb(parse_one(with_escaped_quotes(text), dialect=DIALECT))


def in_duckdb(expression: exp.Expr) -> str:
    """An expression in DuckDB's SQL, for a connection in UTC.

    ValueError names the part that DuckDB would not understand, or in another way.
    """
    for node in expression.walk():
        if not isinstance(node, _SAME) or _has_escape(node):
            text = node.sql("spark")
            raise ValueError(f"`{text}` cannot be translated to DuckDB; {_ALLOWED}")
    # Quoted, because DuckDB reserves other words than Spark.
    return expression.transform(_ansi).sql(
        "duckdb", unsupported_level=ErrorLevel.RAISE, identify=True
    )


def _ansi(node: exp.Expr) -> exp.Expr:
    """A cast that fails is an error, as in Spark's ANSI mode; sqlglot takes it for `try_cast`."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(this=node.this, to=node.args["to"])
    return node


def _has_escape(node: exp.Expr) -> bool:
    """Spark's patterns escape with a backslash, DuckDB's with nothing."""
    return isinstance(node, exp.Like) and any(
        "\\" in part.name for part in node.find_all(exp.Literal)
    )
