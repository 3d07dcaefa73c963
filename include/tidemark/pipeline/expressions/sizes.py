"""How much an expression can make of one value, by the functions that are told a length.

`repeat(page, 1000000000)` would take an executor's memory for one row, and so would
`repeat(page, took)` for the one row that says a large number. So the length is a literal up to
a bound, or `least(…)` with such a literal; lengths within each other are multiplied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from sqlglot import exp

MOST_COPIES = 10_000
_WIDTH = re.compile(r"%[^A-Za-z%]*?(\d{4,})")
_LENGTHS: tuple[tuple[type[exp.Expr], str, str], ...] = (
    (exp.Repeat, "repeat", "times"),
    (exp.Space, "space", "this"),
    (exp.Pad, "lpad or rpad", "expression"),
    (exp.ArrayInsert, "array_insert", "position"),
)
# Functions that sqlglot does not know: which argument is the length.
_BY_NAME = {"array_repeat": 1, "format_number": 1}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}
_SECONDS |= {"MONTH": 28 * 86_400, "YEAR": 365 * 86_400}
_FORMATS = ("printf", "format_string")


def size_faults(root: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """Each call that could make more than `MOST_COPIES` of one value, with the reason."""
    found: dict[int, int] = {}
    # A walk meets a call before those within it.
    for node in root.walk():
        known = _length(node)
        if known is None:
            continue
        name, number = known
        if number is None:
            yield (
                node,
                f"{name} needs a literal where it is told a length, or "
                f"least(…, {MOST_COPIES}): what one row says could take all memory",
            )
            continue
        found[id(node)] = number = number * _around(node, found)
        if number > MOST_COPIES:
            yield node, f"{name} makes {number:,} of one value, at most {MOST_COPIES:,}"


def _around(node: exp.Expr, found: dict[int, int]) -> int:
    while node.parent is not None:
        node = node.parent
        if id(node) in found:
            return max(found[id(node)], 1)
    return 1


def _length(node: exp.Expr) -> tuple[str, int | None] | None:
    """The function's name and the length it is told, None where nobody can tell; no such call."""
    for kind, name, argument in _LENGTHS:
        if isinstance(node, kind):
            return name, bound_of(node.args.get(argument))
    if isinstance(node, exp.GenerateSeries):
        return "sequence", _steps(node)
    if isinstance(node, exp.Format):
        return "format_string", _widths(node.this)
    if not isinstance(node, exp.Anonymous):
        return None
    name, arguments = str(node.this).lower(), node.expressions
    if name in _FORMATS:
        return name, _widths(arguments[0] if arguments else None)
    if name in _BY_NAME:
        place = _BY_NAME[name]
        return name, bound_of(arguments[place]) if len(arguments) > place else 0
    return None


def bound_of(node: exp.Expr | None) -> int | None:
    """The length that an argument tells at most; None where nobody can tell."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if node is None:
        return 0
    if isinstance(node, exp.Neg):
        return bound_of(node.this)
    if isinstance(node, exp.Least):
        bounds = [bound_of(one) for one in (node.this, *node.expressions)]
        return min((one for one in bounds if one is not None), default=None)
    # Text, as `format_number` takes a pattern, is as long as it is written.
    return _number(node.name) if isinstance(node, exp.Literal) else None


def _number(text: str) -> int:
    try:
        return int(min(abs(float(text)), 1e18))
    except ValueError:
        return len(text)


def _steps(node: exp.GenerateSeries) -> int | None:
    """Those of whole numbers, or of times that are written out."""
    sides, step = [node.args.get(name) for name in ("start", "end")], node.args.get("step")
    first, last = (_time(side) for side in sides)
    if first is not None and last is not None:
        seconds = _seconds(step) if step is not None else _SECONDS["DAY"]
        return int(abs((last - first).total_seconds()) // seconds) + 1 if seconds else None
    numbers, each = [_whole(side) for side in sides], _whole(step) if step is not None else 1
    if None in numbers or not each:
        return None
    return abs((numbers[1] or 0) - (numbers[0] or 0)) // abs(each) + 1


def _time(node: exp.Expr | None) -> datetime | None:
    """A date or a time, as a literal or of one: `date '2026-01-01'`, `to_date('2026-01-01')`."""
    if node is None or node.find(exp.Column):
        return None
    texts = [one.name for one in node.find_all(exp.Literal) if one.is_string]
    try:
        return datetime.fromisoformat(texts[0]).replace(tzinfo=None) if len(texts) == 1 else None
    except ValueError:
        return None


def _seconds(step: exp.Expr) -> int:
    """At least so many; 0 where nobody can tell. Of `'0-1' year to month` the shortest month."""
    step = step.this if isinstance(step, exp.Neg) else step
    unit = step.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _SECONDS.get(str(unit.expression).upper(), 0)
    number = step.this.name if isinstance(step.this, exp.Literal) else ""
    return _number(number) * _SECONDS.get(str(unit).upper().removesuffix("S"), 0) if number else 0


def _whole(node: exp.Expr | None) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _whole(node.this)
        return None if inner is None else -inner
    is_number = isinstance(node, exp.Literal) and not node.is_string
    return int(node.name) if is_number and node is not None and node.name.isdecimal() else None


def _widths(node: exp.Expr | None) -> int | None:
    if not isinstance(node, exp.Literal):
        return None
    return max((_number(width) for width in _WIDTH.findall(node.name)), default=1)
