"""Sums of longs that fit a long or not by what they come to, and not by the order of their rows.

The engine adds longs in a long: `9223372036854775807 + 1 - 5` overflows on the way in one order of
the rows and in another does not, and in which order bronze is read goes by the sizes of its files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import tokenize
from sqlglot.tokenizer_core import Token, TokenType

from tidemark.pipeline.expressions.names import DIALECT, with_escaped_quotes

_CASTS = {"sum": "cast", "try_sum": "try_cast"}


def exact_sums(text: str, is_long: Callable[[str], bool]) -> str:
    """A measure that was checked, where each sum of longs is added in 38 digits and then cast.

    `is_long` is asked of what is summed, as it is written. One that exceeds a long fails as the
    measure is evaluated; of `try_sum` it is null.
    """
    tokens = tokenize(with_escaped_quotes(text), read=DIALECT)
    # From the last one: what stands before it keeps its place.
    for at in reversed(range(len(tokens) - 1)):
        called = tokens[at].token_type == TokenType.VAR and opens(tokens, at + 1)
        cast = _CASTS.get(tokens[at].text.lower())
        if not called or cast is None:
            continue
        close = end = closing(tokens, at + 1)
        first = at + 2 + (tokens[at + 2].token_type in (TokenType.DISTINCT, TokenType.ALL))
        start, stop = tokens[first].start, tokens[close].start
        summed = text[start:stop]
        if not is_long(summed):
            continue
        if opens(tokens, close + 2) and tokens[close + 1].token_type == TokenType.FILTER:
            end = closing(tokens, close + 2)
        call, rest = text[tokens[at + 1].start : start], text[stop : tokens[end].end + 1]
        added = f"sum{call}cast({summed} as decimal(38, 0)){rest}"
        text = f"{text[: tokens[at].start]}{cast}({added} as bigint){text[tokens[end].end + 1 :]}"
    return text


def opens(tokens: Sequence[Token], at: int) -> bool:
    """Does a bracket open here?"""
    return at < len(tokens) and tokens[at].token_type == TokenType.L_PAREN


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Where the bracket that opens here closes, in a checked expression."""
    depth = 0
    for at in range(opening, len(tokens)):
        kind = tokens[at].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if not depth:
            return at
    raise AssertionError("a checked expression has a bracket without an end")
