"""Names within an expression: the functions and columns that it uses, as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp, tokenize
from sqlglot.tokenizer_core import Token, TokenType

from tidemark.pipeline.expressions.functions import (
    CLOCK,
    CLOCK_WITHOUT_ARGUMENT,
    REFUSED,
    SYNTAX,
    function_refusal,
    spark_functions,
)
from tidemark.pipeline.names import folded, same_column
from tidemark.pipeline.problems import nearest

DIALECT = "spark"
_CALLED_WITHOUT_BRACKETS = (
    *(TokenType.CURRENT_DATE, TokenType.CURRENT_TIME, TokenType.CURRENT_TIMESTAMP),
    *(TokenType.CURRENT_USER, TokenType.SESSION_USER, TokenType.LOCALTIMESTAMP),
)
_NAME = re.compile(r"^[A-Za-z_]\w*$")


@dataclass(frozen=True)
class Fault:
    """What is wrong with an expression, and at which character of it (from 0)."""

    offset: int
    message: str
    nearest: str | None = None


@dataclass(frozen=True)
class KnownName:
    """A name that an expression can use. `type` is None where the type cannot be told; of what is
    derived it tells the kind, but not which number or time."""

    name: str
    type: exp.DataType | None
    derived: bool = False


# By folded name: Spark finds columns whatever their case.
Scope = Mapping[str, KnownName]


def known_name(name: str, scope: Scope) -> KnownName | None:
    """What Spark finds by a name."""
    found = scope.get(folded(name))
    return found if found and same_column(name, found.name) else None


def spark_type(text: str) -> exp.DataType:
    """The type of a column, as sqlglot knows it."""
    return exp.DataType.build(text, dialect=DIALECT)


def with_escaped_quotes(text: str) -> str:
    """An expression with `\\'` for each doubled quote in a text, at the same offsets.

    Spark reads `'it''s'` as one text (its legacy setting of consecutive string literals is off);
    sqlglot reads two, set together. TokenError where a quote does not end.
    """
    for token, after in pairwise(tokenize(text, read=DIALECT)):
        strings = token.token_type == after.token_type == TokenType.STRING
        if strings and after.start == token.end + 1 and text[token.end] == text[after.start]:
            text = f"{text[: token.end]}\\{text[after.start :]}"
    return text


def function_faults(tokens: list[Token]) -> Iterator[Fault]:
    """sqlglot knows functions of all engines, so names are looked up as they are written."""
    for number, token in enumerate(tokens):
        name = token.text.lower()
        following = [after.token_type for after in tokens[number + 1 : number + 3]]
        called = following[:1] == [TokenType.L_PAREN]
        if token.token_type in _CALLED_WITHOUT_BRACKETS and not called:
            yield Fault(token.start, f"{name} {function_refusal(name)}")
        if token.token_type == TokenType.STRING or not called or not _NAME.match(token.text):
            continue
        if name in CLOCK_WITHOUT_ARGUMENT and following[1:] == [TokenType.R_PAREN]:
            yield Fault(token.start, f"{name}() cannot be used: {CLOCK}")
        elif name in spark_functions():
            if reason := function_refusal(name):
                yield Fault(token.start, f"{name} {reason}")
        elif name not in SYNTAX:
            offered = [one for one in spark_functions() if function_refusal(one) is None]
            near = nearest(name, offered)
            yield Fault(token.start, f"calls `{token.text}`, which Spark does not have", near)


def column_faults(root: exp.Expr, scope: Scope, measures: Iterable[str] = ()) -> Iterator[Fault]:
    """Names that are no columns; the columns that are known get their types. One of these measures
    may have been meant."""
    for star in root.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            yield Fault(0, "has `*`, which stands only in count(*)")
    for column in root.find_all(exp.Column):
        parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
        if not parts:
            continue
        known = known_name(parts[0].name, scope)
        if known is None:
            names = [other.name for other in scope.values()]
            message = f"`{parts[0].name}` is not a column; known: {listed(names)}"
            reason = REFUSED.get(parts[0].name.lower())
            message = f"{parts[0].name} cannot be used: {reason}" if reason else message
            near = None if reason else nearest(parts[0].name, [*measures, *names])
            yield Fault(offset_of(column), message, near)
            continue
        found = _field(known.type, [part.name for part in parts[1:]])
        if isinstance(found, Fault):
            yield Fault(offset_of(column), found.message, found.nearest)
        elif found is not None:
            column.type = found


def _field(outer: exp.DataType | None, names: list[str]) -> exp.DataType | Fault | None:
    """The type of a field within a struct, or of a key within a map."""
    for name in names:
        if outer is None or outer.is_type("array", "unknown"):
            return None
        if outer.is_type("map"):
            outer = outer.expressions[1]
            continue
        if not outer.is_type("struct"):
            return Fault(0, f"has no field `{name}`: it is no struct")
        fields = {folded(field.name): field for field in outer.expressions}
        if folded(name) not in fields:
            known = [field.name for field in outer.expressions]
            return Fault(0, f"has no field `{name}`; known: {listed(known)}", nearest(name, known))
        outer = fields[folded(name)].args.get("kind")
    return outer


def listed(names: list[str]) -> str:
    """The first names, and how many there are."""
    more = f", … ({len(names)} in all)" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more


def offset_of(node: exp.Expr) -> int:
    """Where the leftmost name in a node stands; sqlglot keeps places of names only."""
    starts = [found.meta.get("start") for found in node.find_all(exp.Identifier)]
    return min((start for start in starts if isinstance(start, int)), default=0)
