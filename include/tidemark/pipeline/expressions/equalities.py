"""Conditions that say nothing but which values columns have: `a = 1 AND b IN ('x', 'y')`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

Value = str | int


def equalities_of(root: exp.Expr) -> dict[str, tuple[Value, ...]] | None:
    """The values by the names of columns, as they are written, each once; None where a condition
    says more, or names a column twice."""
    found: dict[str, tuple[Value, ...]] = {}
    for part in _parts(root):
        match part:
            case exp.EQ(this=exp.Column() as column, expression=other):
                values = [_value(other)]
            case exp.EQ(this=other, expression=exp.Column() as column):
                values = [_value(other)]
            case exp.In(this=exp.Column() as column) if part.expressions:
                values = [_value(one) for one in part.expressions]
            case _:
                return None
        told = tuple(one for one in values if one is not None)
        if len(column.parts) > 1 or column.name in found or len(told) < len(values):
            return None
        found[column.name] = tuple(dict.fromkeys(told))
    return found


def _parts(root: exp.Expr) -> Iterator[exp.Expr]:
    root = root.unnest()
    if isinstance(root, exp.And):
        yield from _parts(root.left)
        yield from _parts(root.right)
    else:
        yield root


def _value(node: exp.Expr) -> Value | None:
    """A text or a whole number; None for anything else."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.is_int:
        return -int(node.this.name)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.name
    return int(node.name) if node.is_int else None
