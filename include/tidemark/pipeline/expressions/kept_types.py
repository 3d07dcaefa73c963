"""Types that an expression can have in Spark, and that no table can keep.

Bronze, `changes` and gold are read without Spark too: by delta-rs, Arrow and DuckDB, which know
neither Spark's intervals nor its variants, and a run that has to compare or repair such a value
fails long after it wrote the first. Told from the expression's shape, because sqlglot's own types
are wrong here (to it the difference of two timestamps is a timestamp). What cannot be told is
found when Spark has typed the columns, before a table is made (`streaming/planned_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sqlglot import exp

from tidemark.pipeline.column_types import same_field
from tidemark.pipeline.expressions.types import BINARY, INTERVAL, TEXT, TIME, kind_of

Node = exp.Expr
_IS_INTERVAL = (
    "is an interval, which no table can keep; write its length as a number, as in "
    "`timestampdiff(SECOND, …, …)` or `datediff(…, …)`"
)
_IS_VARIANT = "is a variant, which no table can keep; write `to_json(…)`, or cast it to a type"
_IS_NTZ = (
    "is a timestamp without a zone, which no table here can keep; write `to_timestamp(…)`, or "
    "`to_utc_timestamp(…)` where it is a time of another zone than UTC"
)
_IS_VOID = "is null in each row, so it has no type; write `cast(null as string)`, or another type"
_HOLDS_VOID = (
    "holds a part without a type, which no table can keep: what is empty or null needs a type, as "
    "in `cast(null as int)` or `cast(array() as array<int>)`"
)
_IS_COLLATED = (
    "is text with a collation, by which Spark alone compares; write `lower(…)` or leave it"
)
_IS_GEO = "is a shape on the Earth, which no table can keep; write it as binary"
# Spark 4.2 has the literals of this type, and refuses nearly all else.
_TIME_OF_DAY = "has a time without a date, a type that Spark does not support yet; write it as text"
_BYTES_AS_TEXT = (
    "takes bytes for text, and where they are not UTF-8 no table can be read any more; write "
    "`make_valid_utf8(cast(… as string))`, `hex(…)` or `base64(…)`"
)

_BY_FUNCTION = {
    **dict.fromkeys(("make_dt_interval", "make_ym_interval", "try_make_interval"), _IS_INTERVAL),
    **dict.fromkeys(("try_parse_json", "to_variant_object"), _IS_VARIANT),
    **dict.fromkeys(("to_timestamp_ntz", "make_timestamp_ntz"), _IS_NTZ),
    "try_make_timestamp_ntz": _IS_NTZ,
    **dict.fromkeys(("st_geomfromwkb", "st_geogfromwkb", "st_setsrid"), _IS_GEO),
}
_BY_CLASS: dict[type[Node], str] = {
    exp.Interval: _IS_INTERVAL,
    exp.MakeInterval: _IS_INTERVAL,
    exp.ParseJSON: _IS_VARIANT,
    exp.ConvertTimezone: _IS_NTZ,
    exp.Collate: _IS_COLLATED,
    exp.Null: _IS_VOID,
}
_BY_TYPE = {
    exp.DType.INTERVAL: _IS_INTERVAL,
    exp.DType.VARIANT: _IS_VARIANT,
    exp.DType.TIMESTAMPNTZ: _IS_NTZ,
}
_VARIANT_GET = ("variant_get", "try_variant_get")
_OF_ITS_OWN = (exp.Paren, exp.Min, exp.Max, exp.Filter, exp.Nullif)
# These make a number of null.
_OF_ITS_INTERVAL = (exp.Neg, exp.Abs, exp.Sum, exp.Avg, exp.Median)
_SUMS = (exp.Add, exp.SafeAdd, exp.Sub, exp.SafeSubtract)
_PRODUCTS = (exp.Mul, exp.Div, exp.SafeMultiply, exp.SafeDivide)
_UTF8 = ("make_valid_utf8", "validate_utf8", "try_validate_utf8", "is_valid_utf8")
_OF_TEXT = (exp.Upper, exp.Lower, exp.Trim, exp.ConcatWs, exp.Initcap)
_TOGETHER = (exp.Concat, exp.DPipe, exp.Pad)


def kept_type_faults(root: Node) -> Iterator[tuple[Node, str]]:
    """Why no table can keep what an expression gives, and parts that give what no row can hold."""
    with suppress(RecursionError):
        if reason := _unkept(root):
            yield root, reason
    for node in root.walk():
        if isinstance(node, exp.Cast) and node.to.this == exp.DType.TIME:
            yield node, _TIME_OF_DAY
        elif _takes_bytes_for_text(node):
            yield node, _BYTES_AS_TEXT


def _unkept(node: Node | None) -> str | None:
    """The reason why a value cannot be kept; None where it can, or nobody can tell."""
    if node is None:
        return None
    if reason := _BY_CLASS.get(type(node)):
        return reason
    if kind_of(node) == INTERVAL:
        return _IS_INTERVAL
    if isinstance(node, exp.Anonymous):
        return _by_name(node)
    if isinstance(node, exp.Cast):
        return _of_type(node.to)
    if isinstance(node, _OF_ITS_OWN):
        return _unkept(node.this)
    if isinstance(node, _OF_ITS_INTERVAL):
        return _if_interval(node.this)
    if isinstance(node, (*_SUMS, *_PRODUCTS)):
        return _of_arithmetic(node)
    if isinstance(node, exp.Struct):
        return _of_struct(node)
    if isinstance(node, exp.Array):
        return _of_array(node)
    if isinstance(node, exp.VarMap | exp.Map):
        sides = (node.args.get("keys"), node.args.get("values"))
        arrays = [side for side in sides if isinstance(side, exp.Array)]
        return next((reason for side in arrays if (reason := _of_array(side))), None)
    return _of_one_type(_branches(node))


def _by_name(node: exp.Anonymous) -> str | None:
    name = str(node.this).lower()
    if name in ("try_sum", "try_avg"):
        return _if_interval(node.expressions[0]) if node.expressions else None
    if name in _VARIANT_GET and len(node.expressions) < 3:
        return _IS_VARIANT
    return _BY_FUNCTION.get(name)


def _of_type(kind: exp.DataType) -> str | None:
    for part in kind.find_all(exp.DataType):
        if part.this == exp.DType.STRUCT and (
            twice := same_field([f.name for f in part.expressions])
        ):
            return _twice(twice)
        if isinstance(part.this, exp.Interval):
            return _IS_INTERVAL
        if reason := _BY_TYPE.get(part.this):
            return reason
    return None


def _if_interval(node: Node | None) -> str | None:
    return _IS_INTERVAL if _unkept(node) == _IS_INTERVAL else None


def _of_arithmetic(node: Node) -> str | None:
    left, right = node.this, node.args.get("expression")
    intervals = [_unkept(side) == _IS_INTERVAL for side in (left, right)]
    kinds = {kind_of(left), kind_of(right)}
    if isinstance(node, exp.SafeSubtract) and TIME in kinds and kinds <= {TIME, TEXT}:
        return _IS_INTERVAL
    if isinstance(node, _SUMS):
        return _IS_INTERVAL if all(intervals) else None
    return _IS_INTERVAL if any(intervals) else None


def _of_struct(node: exp.Struct) -> str | None:
    names = [_field_name(part, number) for number, part in enumerate(node.expressions, start=1)]
    if twice := same_field(names):
        return _twice(twice)
    for part in node.expressions:
        value = part.expression if isinstance(part, exp.PropertyEQ | exp.Alias) else part
        if reason := _unkept(value):
            return _within(reason)
    return None


def _field_name(part: Node, number: int) -> str:
    if isinstance(part, exp.PropertyEQ | exp.Column):
        return part.name
    return str(part.alias) or f"col{number}"


def _of_array(node: exp.Array) -> str | None:
    reason = _of_one_type(node.expressions or [exp.Null()])
    return _within(reason) if reason else None


def _within(reason: str) -> str:
    return _HOLDS_VOID if reason == _IS_VOID else reason


def _twice(names: tuple[str, str]) -> str:
    one, other = names
    return f"has a struct with two fields `{one}` and `{other}`; Spark takes them for one"


def _branches(node: Node) -> list[Node | None]:
    """What an expression chooses from; it is of one type."""
    if isinstance(node, exp.Case):
        return [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
    if isinstance(node, exp.If | exp.Nvl2):
        return [node.args.get("true"), node.args.get("false")]
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        return [node.this, *node.expressions]
    return []


def _of_one_type(values: list[Any]) -> str | None:
    """Of values that share a type: one that has it, or of which nobody can tell, gives it to those
    that are null."""
    found = [_unkept(value) for value in values if value is not None]
    typed = [reason for reason in found if reason not in (_IS_VOID, _HOLDS_VOID)]
    if typed:
        return next((reason for reason in typed if reason), None)
    return found[0] if found else None


def _takes_bytes_for_text(node: Node) -> bool:
    if isinstance(node, exp.Cast):
        to_text = node.to.this in exp.DataType.TEXT_TYPES and kind_of(node.this) == BINARY
        return to_text and not _is_made_valid(node)
    if isinstance(node, _OF_TEXT):
        parts = [node.this, *node.expressions]
        return any(kind_of(part) == BINARY for part in parts if isinstance(part, exp.Expr))
    if isinstance(node, _TOGETHER):
        parts = [node.this, node.args.get("expression"), *node.expressions]
        if isinstance(node, exp.Pad):
            parts = [node.this, node.args.get("fill_pattern")]
        kinds = {kind_of(part) for part in parts if isinstance(part, exp.Expr)}
        return BINARY in kinds and TEXT in kinds
    return False


def _is_made_valid(node: Node) -> bool:
    around = node.parent
    return isinstance(around, exp.Anonymous) and str(around.this).lower() in _UTF8
