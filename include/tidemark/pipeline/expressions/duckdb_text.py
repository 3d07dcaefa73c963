"""Text in DuckDB as Java has it."""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from tidemark.pipeline.expressions.duckdb_values import (
    BOOLEAN,
    INT,
    NULL,
    TEXT,
    UNKNOWN,
    Untranslated,
    Value,
    call,
    cast,
)

_NAMES: dict[type[exp.Expr], str] = {
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
}
# At the end of a word Java's small sigma is another letter, and DuckDB's patterns see no ends.
_SIGMA = "Σ"
_NO_SIGMA = "a capital sigma has two small letters, and DuckDB knows one"


def of_text(node: exp.Expr, values: list[Value]) -> Value:
    """A function of text, or `like`."""
    for value in values:
        if value.kind not in (TEXT, NULL, UNKNOWN):
            raise Untranslated(f"it needs text, and has {value.kind}; cast it")
    one = values[0].sql
    if isinstance(node, exp.Length):
        return Value(cast(call("length", one), "int"), INT)
    if isinstance(node, exp.Upper | exp.Lower):
        _check_once(node)
        return Value(_upper(one) if isinstance(node, exp.Upper) else _lower(one), TEXT)
    if isinstance(node, exp.Like):
        _check_pattern(values[1])
        return Value(exp.Like(this=one, expression=values[1].sql), BOOLEAN)
    return Value(call(_NAMES[type(node)], one, values[1].sql), BOOLEAN)


def bytes_of(value: Value) -> Value:
    """The length of bytes."""
    return Value(cast(call("octet_length", value.sql), "int"), INT)


def _check_pattern(pattern: Value) -> None:
    """Spark's patterns escape with a backslash, DuckDB's with nothing."""
    if pattern.literal is None and pattern.kind != NULL:
        raise Untranslated("a pattern has to be written out")
    if "\\" in (pattern.literal or ""):
        raise Untranslated("a pattern with a backslash is read in another way")


def _check_once(node: exp.Expr) -> None:
    # Spark leaves the inner one out where one stands within the other, which `ß` tells; and what
    # they are of stands several times in the translation.
    if node.find_ancestor(exp.Upper, exp.Lower):
        raise Untranslated("it stands within another change of case; leave one of them out")


def _upper(text: exp.Expr) -> exp.Expr:
    """DuckDB has one letter for one; Java has `SS` for `ß`."""
    several, plain = _of_several_letters(), call("upper", text)
    is_plain = exp.Not(this=call("regexp_matches", text.copy(), _string(f"[{''.join(several)}]")))
    replaced = text.copy()
    for letter, upper in several.items():
        replaced = call("replace", replaced, _string(letter), _string(upper))
    branch = exp.If(this=is_plain, true=plain)
    return exp.Case(ifs=[branch], default=call("upper", replaced))


@cache
def _of_several_letters() -> dict[str, str]:
    letters = (chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000)
    return {letter: letter.upper() for letter in letters if len(letter.upper()) > 1}


def _lower(text: exp.Expr) -> exp.Expr:
    told = call("lower", call("replace", text, _string("İ"), _string("İ".lower())))
    has_sigma = call("contains", text.copy(), _string(_SIGMA))
    return exp.Case(
        ifs=[exp.If(this=has_sigma, true=call("error", _string(_NO_SIGMA)))], default=told
    )


def _string(text: str) -> exp.Expr:
    return exp.Literal.string(text)
