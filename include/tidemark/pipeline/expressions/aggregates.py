"""Aggregates that keep all that they have met, and those whose result ties could decide.

Of rows that are equal by what orders or compares them any may come first, and that differs from
run to run. So each of these stands in a form whose value does not depend on it, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp, tokenize
from sqlglot.tokenizer_core import TokenType

from tidemark.pipeline.expressions.exact_sums import opens
from tidemark.pipeline.expressions.functions import BY_ORDER, FROM_BRONZE
from tidemark.pipeline.expressions.names import DIALECT, with_escaped_quotes
from tidemark.pipeline.expressions.sizes import MOST_COPIES, bound_of
from tidemark.pipeline.expressions.types import BOOLEAN, MAP, NUMBER, TEXT, TIME, kind_of

Node = exp.Expr
_COLLECTED = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_AS_READ: dict[type[Node], str] = {
    exp.ArrayAgg: "is that of rows as they are read, and differs from run to run",
    exp.ArrayUniqueAgg: "Spark leaves open",
}
_OF_BRONZE = (exp.Mode, *_COLLECTED)
_ORDERED = (exp.ArgMax, exp.ArgMin)
# Where DISTINCT changes what comes out, and that is one value; of a list its form is told.
_TAKES_DISTINCT = (exp.Count, exp.Sum, exp.Avg, exp.ArrayAgg)
_SORTED = f"`slice(sort_array({{0}}), 1, 100)` of at most {MOST_COPIES:,}"


def keeps_no_bound(root: Node) -> bool:
    """Does a measure keep all values of a window, however many there are?"""
    return root.find(exp.Distinct, *_OF_BRONZE) is not None


def form_faults(root: Node) -> Iterator[tuple[Node, str]]:
    """Each aggregate whose result could differ with the order of rows, or have no bound, with the
    way to write it."""
    if root.find(exp.Distinct, *_OF_BRONZE, *_ORDERED) and (found := _collated(root)):
        yield (
            found,
            "has a collation, by which texts are equal that are not the same: which of them comes "
            "out differs from run to run; write `lower(…)`",
        )
    for node in root.walk():
        if isinstance(node, exp.Anonymous) and _name(node) in (*FROM_BRONZE, *BY_ORDER):
            yield node, f"has {_name(node)} with a place before it; write the name alone"
        elif isinstance(node, exp.Distinct):
            yield from _distinct(node)
        elif isinstance(node, exp.Mode) and not isinstance(node.parent, exp.WithinGroup):
            yield from _mode(node)
        elif isinstance(node, _COLLECTED):
            yield from _collected(node)
        elif isinstance(node, _ORDERED):
            yield from _ordered(node)


def canonical_values(text: str, canonical: Callable[[str], str]) -> str:
    """A measure that was checked, with what `canonical` makes of each value that is collected or
    chosen by an order, as it is written."""
    tokens = tokenize(with_escaped_quotes(text), read=DIALECT)
    # From the last one: what stands before it keeps its place.
    for at in reversed(range(len(tokens))):
        if tokens[at].text.lower() not in (*FROM_BRONZE, *BY_ORDER) or not opens(tokens, at + 1):
            continue
        first = at + 2 + (tokens[at + 2].token_type in (TokenType.DISTINCT, TokenType.ALL))
        after, depth = first, 0
        while depth or tokens[after].token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            depth += tokens[after].token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
            depth -= tokens[after].token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
            after += 1
        start, stop = tokens[first].start, tokens[after].start
        text = f"{text[:start]}{canonical(text[start:stop])}{text[stop:]}"
    return text


def _collated(root: Node) -> Node | None:
    return root.find(exp.Collate) or next(
        (kind for kind in root.find_all(exp.DataType) if kind.args.get("collate")), None
    )


def _name(node: exp.Anonymous) -> str:
    return str(node.this).lower()


def _distinct(node: exp.Distinct) -> Iterator[tuple[Node, str]]:
    around = node.parent
    taken = isinstance(around, _TAKES_DISTINCT) or (
        isinstance(around, exp.Anonymous) and _name(around) in ("try_sum", "try_avg")
    )
    if not taken:
        yield node, "has DISTINCT, which stands in count, sum, avg and collect_list"
    elif len(node.expressions) > 1 and not isinstance(around, exp.Count):
        yield node, "has DISTINCT over several values, which count alone takes"
    elif _has_map(*node.expressions):
        yield node, "has DISTINCT over a map, and Spark does not compare maps"


def _mode(node: exp.Mode) -> Iterator[tuple[Node, str]]:
    chosen, value = node.args.get("deterministic"), node.this
    if isinstance(value, exp.Distinct):
        return
    written = value.sql(DIALECT) if value is not None else "…"
    if not isinstance(chosen, exp.Boolean) or not chosen.this:
        yield (
            node,
            "mode takes any of the values that come equally often; write "
            f"`mode({written}, true)`, the least of them",
        )
    elif kind_of(value) not in (NUMBER, TEXT, BOOLEAN, TIME):
        yield (
            node,
            "mode counts and orders numbers, texts, booleans, dates and timestamps alone as they "
            f"are equal, and `{written}` is not known as one; cast it to one",
        )


def _collected(node: Node) -> Iterator[tuple[Node, str]]:
    if isinstance(node, exp.ArrayUniqueAgg) and _has_map(node.this):
        yield node, "collect_set takes no maps, which Spark does not compare"
    around = _around(node)
    if node.find(exp.Order) or not (_is_size(around) or isinstance(around, exp.ArraySort)):
        way = _SORTED.format(node.sql(DIALECT, comments=False).lower())
        yield (
            node,
            f"collects values in an order that {_AS_READ[type(node)]}; write {way}, or `size(…)` "
            "of them",
        )
    elif isinstance(around, exp.ArraySort):
        yield from _sorted(around, node)


def _sorted(node: exp.ArraySort, collected: Node) -> Iterator[tuple[Node, str]]:
    if node.args.get("expression"):
        yield (
            node,
            "array_sort has a comparison of its own, for which values can be equal that are not "
            "the same; put what orders first into a struct: `sort_array(collect_list(struct(…)))`",
        )
    elif _has_map(collected.this):
        yield collected, "sorts maps, which have no order"
    elif not _is_bounded(node):
        yield (
            node,
            "is as long as its window has values, and a row of gold has a bound; write "
            f"{_SORTED.format('…')}, or take one element",
        )


def _is_bounded(node: exp.ArraySort) -> bool:
    around = _around(node)
    if _is_size(around):
        return True
    if not isinstance(around, exp.ArraySlice | exp.Bracket) or around.this.unnest() is not node:
        return False
    length = bound_of(around.args.get("end"))
    return length is not None and length <= MOST_COPIES


def _ordered(node: Node) -> Iterator[tuple[Node, str]]:
    value, order = node.this, node.args.get("expression")
    if isinstance(value, exp.Distinct) or order is None:
        return
    name = "max_by" if isinstance(node, exp.ArgMax) else "min_by"
    parts = [order, *_parts(order)]
    if node.args.get("count"):
        yield (
            node,
            f"{name} has a third argument, for several rows; collect them: "
            "`slice(sort_array(collect_list(struct(t, x)), false), 1, 10)`",
        )
    elif _has_map(value, order):
        yield node, f"{name} orders by a map, which has no order"
    elif not _is_decided(value, {_written(part) for part in parts}):
        first = [*_fields(order)] or [order]
        by = dict.fromkeys(map(_written, (*first, *([*_fields(value)] or [value]))))
        # A struct is never null, and null is less than all else.
        counted = "" if name == "max_by" else f" filter (where {_written(first[0])} is not null)"
        yield (
            node,
            f"{name} takes the value of any row whose order is equal; let the value decide then, "
            f"as in `{name}(…, struct({', '.join(by)})){counted}`",
        )


def _is_decided(value: Node, by: set[str]) -> bool:
    """Are two values the same, as far as an order tells them apart, where these are?"""
    if _written(value) in by or value.find(exp.Column) is None:
        return True
    parts = list(_fields(value))
    return bool(parts) and all(_is_decided(part, by) for part in parts)


def _parts(node: Node) -> Iterator[Node]:
    for part in _fields(node):
        yield part
        yield from _parts(part)


def _fields(node: Node) -> Iterator[Node]:
    if isinstance(node.unnest(), exp.Struct):
        for part in node.unnest().expressions:
            yield part.expression if isinstance(part, exp.PropertyEQ) else part.unalias()


def _written(node: Node) -> str:
    return node.unnest().sql(DIALECT, comments=False)


def _has_map(*nodes: Node) -> bool:
    return any(kind_of(part) == MAP for node in nodes for part in (node, *_parts(node)))


def _around(node: Node) -> Node | None:
    around = node.parent
    while isinstance(around, exp.Paren | exp.Filter):
        around = around.parent
    return around


def _is_size(node: Node | None) -> bool:
    return isinstance(node, exp.ArraySize) or (
        isinstance(node, exp.Anonymous) and _name(node) == "cardinality"
    )
