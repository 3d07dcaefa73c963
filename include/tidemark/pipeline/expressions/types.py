"""Types within an expression: what Spark's analyzer refuses, found without Spark.

Types are compared by kind (number, text, time …), and only where the kind is known: nothing
is refused for a type that cannot be told here. Spark converts text to numbers and booleans
by itself (and fails on a row whose text is none); the rules of ours beyond Spark's are that
arithmetic takes no text, no aggregate of numbers takes text or times, none of booleans takes text,
that a literal text which is compared with a number, a time or a boolean must be one, and that no
other text is compared with these: the row whose text is none would fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date

from sqlglot import exp

Node = exp.Expr
NUMBER, TEXT, BOOLEAN, TIME, BINARY = "number", "text", "boolean", "time", "binary"
ARRAY, STRUCT, MAP, INTERVAL = "array", "struct", "map", "interval"
_NESTED = (ARRAY, STRUCT, MAP)

_KINDS: dict[exp.DType, str] = {
    **dict.fromkeys(exp.DataType.NUMERIC_TYPES, NUMBER),
    **dict.fromkeys(exp.DataType.TEXT_TYPES, TEXT),
    **dict.fromkeys(exp.DataType.TEMPORAL_TYPES, TIME),
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.BINARY: BINARY,
    exp.DType.VARBINARY: BINARY,
    exp.DType.ARRAY: ARRAY,
    exp.DType.LIST: ARRAY,
    exp.DType.STRUCT: STRUCT,
    exp.DType.MAP: MAP,
}

_NUMERIC_AGGREGATES = (
    *(exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance),
    *(exp.VariancePop, exp.Median, exp.Skewness, exp.Kurtosis),
)
_BOOLEAN_AGGREGATES = (exp.CountIf, exp.LogicalAnd, exp.LogicalOr)
_TEXT_FUNCTIONS = (
    *(exp.Like, exp.ILike, exp.RegexpLike, exp.Upper, exp.Lower, exp.Length, exp.Substring),
    *(exp.Trim, exp.Split, exp.RegexpExtract, exp.Contains, exp.StartsWith, exp.EndsWith),
)
_TIME_FUNCTIONS = (exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute, exp.TimestampTrunc)
_NUMERIC_FUNCTIONS = (exp.Neg, exp.Abs, exp.Round, exp.Ceil, exp.Floor, exp.Sqrt)
_ARITHMETIC = (exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
)
_NOT_NUMBERS = (BOOLEAN, TIME, BINARY, *_NESTED)

# What a node's own operand must be: the wanted kind in words, and the kinds that it cannot be.
_OPERANDS: tuple[tuple[tuple[type[Node], ...], str, tuple[str, ...]], ...] = (
    (_NUMERIC_AGGREGATES, "a number", (TEXT, *_NOT_NUMBERS)),
    (_BOOLEAN_AGGREGATES, "a boolean", (TEXT, NUMBER, TIME, BINARY, *_NESTED)),
    ((exp.Not,), "a boolean", (NUMBER, TIME, BINARY, *_NESTED)),
    ((exp.Min, exp.Max), "a type that has an order", (MAP,)),
    (_TEXT_FUNCTIONS, "text", _NESTED),
    (_TIME_FUNCTIONS, "a date or a timestamp", (NUMBER, BOOLEAN, BINARY, *_NESTED)),
    (_NUMERIC_FUNCTIONS, "a number", (TEXT, *_NOT_NUMBERS)),
)
_BY_NAME = {
    **dict.fromkeys(("try_sum", "try_avg"), _OPERANDS[0]),
    **dict.fromkeys(("every", "some"), _OPERANDS[1]),
}
_SIMPLE = (NUMBER, BOOLEAN, TIME)
_NO_CASTS = {(one, other) for one in (*_NESTED, BINARY) for other in _SIMPLE}
_NO_CASTS |= {(TIME, BOOLEAN), (BOOLEAN, TIME)}
_NUMBER_TEXT = re.compile(r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?\s*$")
_SPECIAL_NUMBERS = frozenset({"nan", "inf", "infinity"})
_TIME_TEXT = re.compile(r"^\s*([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?\s*$")
_BOOLEAN_TEXT = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})


def kind_of(node: Node | None) -> str | None:
    """The kind of a node's type; None where it is not known."""
    if node is None:
        return None
    node = _inner(node)
    if isinstance(node, exp.Interval):
        return INTERVAL
    if isinstance(node, exp.Sub) and _is_difference(node):
        # A time less the difference of two is a time again.
        right = _inner(node.expression)
        return TIME if isinstance(right, exp.Sub) and _is_difference(right) else INTERVAL
    return _annotated(node)


def _inner(node: Node) -> Node:
    while isinstance(node, exp.Paren | exp.TsOrDsToDate):
        node = node.this
    return node


def _annotated(node: Node) -> str | None:
    return _KINDS.get(node.type.this) if isinstance(node.type, exp.DataType) else None


def _is_difference(node: exp.Sub) -> bool:
    """Of two times, one of which may be text; sqlglot takes it for a time."""
    kinds = {_annotated(_inner(node.this)), _annotated(_inner(node.expression))}
    return TIME in kinds and kinds <= {TIME, TEXT}


def type_faults(root: Node) -> Iterator[tuple[Node, str]]:
    """Each node that Spark would refuse for its types, with the reason."""
    for node in root.walk():
        if isinstance(node, exp.Anonymous):
            wanted = _BY_NAME.get(str(node.this).lower())
            if wanted and node.expressions:
                yield from _operand(node.expressions[0], node, wanted[1], wanted[2])
        for classes, wanted_words, refused in _OPERANDS:
            if isinstance(node, classes):
                yield from _operand(_without_distinct(node.this), node, wanted_words, refused)
        yield from _by_shape(node)


def _by_shape(node: Node) -> Iterator[tuple[Node, str]]:
    if isinstance(node, exp.And | exp.Or):
        for side in (node.this, node.expression):
            yield from _operand(side, node, "a boolean", (NUMBER, TIME, BINARY, *_NESTED))
    elif isinstance(node, _ARITHMETIC):
        for side in (node.this, node.expression):
            yield from _operand(side, node, "a number", (TEXT, *_NOT_NUMBERS))
    elif isinstance(node, exp.Add | exp.Sub):
        yield from _sum(node)
    elif isinstance(node, _COMPARISONS):
        yield from _compared(node, node.this, node.expression)
    elif isinstance(node, exp.In):
        for item in node.expressions:
            yield from _compared(node, node.this, item)
    elif isinstance(node, exp.Between):
        for bound in (node.args["low"], node.args["high"]):
            yield from _compared(node, node.this, bound)
    elif isinstance(node, exp.If | exp.Where):
        yield from _condition(node)
    elif isinstance(node, exp.Bracket) and kind_of(node.this) not in (*_NESTED, None):
        yield node, f"takes an element of {_type_words(node.this)}, which has none"
    elif isinstance(node, exp.Nullif):
        yield from _compared(node, node.this, node.expression)
    elif isinstance(node, exp.Cast) and (kind_of(node.this), kind_of(node)) in _NO_CASTS:
        yield node, f"cannot cast {_type_words(node.this)} to {node.to.sql('spark').lower()}"
    yield from _branches(node)


def _branches(node: Node) -> Iterator[tuple[Node, str]]:
    """CASE, IF and coalesce give one type, so what they choose from must go together."""
    if isinstance(node, exp.Case):
        chosen = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
    elif isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
        chosen = [node.args["true"], node.args.get("false")]
    elif isinstance(node, exp.Coalesce):
        chosen = [node.this, *node.expressions]
    else:
        return
    known = [branch for branch in chosen if kind_of(branch)]
    for other in known[1:]:
        if not _go_together(kind_of(known[0]), kind_of(other)):
            yield other, f"chooses between {_type_words(known[0])} and {_type_words(other)}"
            return


def _go_together(one: str | None, other: str | None) -> bool:
    """Does Spark find a common type? Text goes with all but arrays, structs and maps."""
    return one == other or (TEXT in (one, other) and not {one, other} & set(_NESTED))


def _operand(
    operand: Node | None, node: Node, wanted: str, refused: tuple[str, ...]
) -> Iterator[tuple[Node, str]]:
    kind = kind_of(operand)
    if operand is not None and kind in refused:
        yield operand, f"{_name(node)} needs {wanted}, and has {_type_words(operand)}"


def _condition(node: exp.If | exp.Where) -> Iterator[tuple[Node, str]]:
    """CASE x WHEN y compares; every other WHEN, IF and WHERE needs a boolean."""
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case) and node.parent.this:
        yield from _compared(node, node.parent.this, node.this)
    elif kind_of(node.this) not in (BOOLEAN, None):
        yield node.this, f"a condition needs a boolean, and has {_type_words(node.this)}"


def _sum(node: exp.Add | exp.Sub) -> Iterator[tuple[Node, str]]:
    sides = (node.this, node.expression)
    for side in sides:
        yield from _operand(side, node, "a number", (BOOLEAN, BINARY, *_NESTED))
        # An interval can be added to the text of a time, and that be subtracted from a time.
        kinds = {kind_of(one) for one in sides}
        if NUMBER in kinds or kinds == {TEXT}:
            yield from _operand(side, node, "a number", (TEXT,))
    for side, other in (sides, sides[::-1]):
        is_timestamp = isinstance(side, exp.Column) and _is_timestamp(side)
        if is_timestamp and kind_of(other) == NUMBER:
            yield node, "adds a number to a timestamp; add an interval, as in `interval 5 minutes`"
        if kind_of(side) == INTERVAL and kind_of(other) == NUMBER:
            yield node, "adds an interval to a number"


def _is_timestamp(node: Node) -> bool:
    """Is it a timestamp? `is_type` parses the types that it is asked for each time."""
    return isinstance(node.type, exp.DataType) and node.type.this in (
        exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPTZ,
    )


def _compared(node: Node, left: Node, right: Node) -> Iterator[tuple[Node, str]]:
    kinds = kind_of(left), kind_of(right)
    if None in kinds:
        return
    if kinds == (MAP, MAP):
        yield node, "compares maps, which Spark cannot"
    elif not _go_together(*kinds):
        yield node, f"compares {_type_words(left)} with {_type_words(right)}"
    for text, other in ((left, right), (right, left)):
        # None that is written out, or made of such.
        is_text = _annotated(text.unnest()) == TEXT and text.find(exp.Column) is not None
        if is_text and kind_of(other) in _SIMPLE:
            said = f"compares {_type_words(text)} with {_type_words(other)}"
            yield node, f"{said}; cast one of them, as in `{_cast(text, other)}`"
    for literal, kind in ((left, kinds[1]), (right, kinds[0])):
        if isinstance(literal, exp.Literal) and literal.is_string:
            yield from _text_compared(literal, str(kind))


def _cast(text: Node, other: Node) -> str:
    """The text as what it is compared with; null where it is none."""
    kind = other.type.sql("spark").lower() if isinstance(other.type, exp.DataType) else "double"
    return f"try_cast({_inner(text).sql('spark')} as {kind})"


def _text_compared(literal: exp.Literal, kind: str) -> Iterator[tuple[Node, str]]:
    text = str(literal.this).strip().lower()
    number = _NUMBER_TEXT.match(text) or text.lstrip("+-") in _SPECIAL_NUMBERS
    if kind == NUMBER and not number:
        yield literal, f"compares a number with the text '{literal.this}', which is none"
    elif kind == TIME and not _tells_a_day(text.upper()):
        yield literal, f"compares a time with the text '{literal.this}', which tells no day"
    elif kind == BOOLEAN and text not in _BOOLEAN_TEXT:
        yield literal, f"compares a boolean with the text '{literal.this}', which is none"


def _tells_a_day(text: str) -> bool:
    found = _TIME_TEXT.match(text)
    if found is None:
        return False
    year, month, day = (int(part or 1) for part in found.groups())
    # Spark has years that Python has not; days come again after 400.
    with suppress(ValueError):
        return bool(date(2000 + year % 400, month, day))
    return False


def _without_distinct(node: Node | None) -> Node | None:
    if isinstance(node, exp.Distinct):
        return node.expressions[0] if node.expressions else None
    return node


def _name(node: Node) -> str:
    names: dict[type[Node], str]
    names = {exp.Neg: "`-`", exp.Mul: "`*`", exp.Div: "`/`", exp.Mod: "`%`", exp.IntDiv: "`div`"}
    names |= {exp.Add: "`+`", exp.Sub: "`-`", exp.CountIf: "count_if", exp.TimestampTrunc: "trunc"}
    names |= {exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or"}
    if found := names.get(type(node)):
        return found
    name = str(node.this) if isinstance(node, exp.Anonymous) else str(node.key)
    return name.lower()


def _type_words(node: Node) -> str:
    """`text` or `a timestamp`: the type as Spark names it, for columns with their name."""
    kind = kind_of(node)
    words = {NUMBER: "a number", TEXT: "text", BOOLEAN: "a boolean", TIME: "a date or timestamp"}
    words |= {
        INTERVAL: "an interval",
        BINARY: "binary",
        ARRAY: "an array",
        STRUCT: "a struct",
        MAP: "a map",
    }
    said = words[kind] if kind else "unknown"
    return f"{said} (`{node.name}`)" if isinstance(node, exp.Column) else said
