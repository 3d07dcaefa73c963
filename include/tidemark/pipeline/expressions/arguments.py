"""Constant arguments that Spark takes no row with: it makes null of each, without a word, or fails.

What it takes was looked up in Spark's classes and tried with Spark 4.2; a test compares the two.
Not told here, for sqlglot does not keep them as written: patterns of times, paths into JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from tidemark.pipeline.event_time_formats import check_zone
from tidemark.pipeline.expressions.regular_expressions import count_groups
from tidemark.pipeline.expressions.types import ARRAY, kind_of
from tidemark.pipeline.problems import why_not

Node = exp.Expr
# Class DateTimeUtils, parseTruncLevel.
_DATE_UNITS = ("WEEK", "MONTH", "MON", "MM", "QUARTER", "YEAR", "YYYY", "YY")
_TIME_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "DD", *_DATE_UNITS)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# Java's ZoneId.SHORT_IDS, and offsets.
_SHORT_IDS = """ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT IET IST JST MIT NET NST PLT PNT
    PRT PST SST VST Z"""
_SHORT_ZONES = frozenset(_SHORT_IDS.split())
_OFFSET = re.compile(r"(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{1,2}){0,2}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_HEX = re.compile(r"[0-9a-fA-F]*")


@dataclass(frozen=True)
class _Taken:
    """What a function takes for one argument: in words, and whether it takes this text of one."""

    function: str
    words: str
    takes: Callable[[str], bool]


def _one_of(function: str, *allowed: str, any_case: bool = True) -> _Taken:
    known = {one.lower() if any_case else one for one in allowed}
    return _Taken(
        function,
        "one of " + ", ".join(allowed),
        lambda text: (text.lower() if any_case else text) in known,
    )


def _whole(function: str, words: str, takes: Callable[[int], bool]) -> _Taken:
    """Of a text that is no whole number nothing is said."""
    return _Taken(function, words, lambda text: not _INTEGER.fullmatch(text) or takes(int(text)))


def _zone(text: str) -> bool:
    known = text in _SHORT_ZONES or why_not(check_zone, text) is None
    return known or bool(_OFFSET.fullmatch(text))


_CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32")
_URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
_BASE = "a number from 2 to 36"
_NOT_ZERO = "a number that is not 0: the first has 1"
_ZONE = "the name of a zone, as Europe/Vienna or UTC"
# By node and by its argument, and of what sqlglot does not know by name and place.
_OF_NODES: dict[type[Node], dict[str, _Taken]] = {
    exp.SHA2: {"length": _one_of("sha2", "0", "224", "256", "384", "512")},
    exp.Unhex: {
        "this": _Taken("unhex", "hexadecimal digits", lambda text: bool(_HEX.fullmatch(text)))
    },
    exp.Decode: {"charset": _one_of("decode", *_CHARSETS)},
    exp.Encode: {"charset": _one_of("encode", *_CHARSETS)},
    exp.FromTimeZone: {"zone": _Taken("to_utc_timestamp", _ZONE, _zone)},
    exp.AtTimeZone: {"zone": _Taken("from_utc_timestamp", _ZONE, _zone)},
    exp.ConvertTimezone: {
        "source_tz": _Taken("convert_timezone", _ZONE, _zone),
        "target_tz": _Taken("convert_timezone", _ZONE, _zone),
    },
    exp.NextDay: {
        "expression": _one_of("next_day", *(day[:n] for n in (2, 3, None) for day in _DAYS))
    },
    exp.ParseUrl: {"part_to_extract": _one_of("parse_url", *_URL_PARTS, any_case=False)},
    exp.SplitPart: {"part_index": _whole("split_part", _NOT_ZERO, bool)},
    exp.ArraySlice: {"start": _whole("slice", _NOT_ZERO, bool)},
    exp.ArrayInsert: {"position": _whole("array_insert", _NOT_ZERO, bool)},
    exp.DateTrunc: {"unit": _one_of("trunc", *_DATE_UNITS)},
    exp.TimestampTrunc: {"unit": _one_of("date_trunc", *_TIME_UNITS)},
}
_BY_NAME: dict[str, dict[int, _Taken]] = {
    "conv": {
        1: _whole("conv", _BASE, lambda base: 2 <= base <= 36),
        2: _whole("conv", f"{_BASE}, or one from -36 to -2", lambda base: 2 <= abs(base) <= 36),
    },
    "try_to_binary": {1: _one_of("try_to_binary", "hex", "utf-8", "utf8", "base64")},
    "try_parse_url": {1: _one_of("try_parse_url", *_URL_PARTS, any_case=False)},
    "format_number": {1: _whole("format_number", "a number from 0 on", lambda n: n >= 0)},
}
_ELEMENT = _whole("element_at", _NOT_ZERO, bool)


def argument_faults(root: Node) -> Iterator[tuple[Node, str]]:
    """Each call with a constant that leaves every row without a value, with the reason."""
    for node in root.walk():
        for given, taken in _arguments(node):
            text = _constant(given)
            if text is not None and not taken.takes(text):
                yield (
                    node,
                    f"{taken.function} takes {taken.words}, and has '{text}', which makes null of "
                    "each row or fails on it",
                )
        if isinstance(node, exp.Quantile):
            yield from _percentages(node)


def _arguments(node: Node) -> Iterator[tuple[Node | None, _Taken]]:
    for name, taken in _OF_NODES.get(type(node), {}).items():
        yield node.args.get(name), taken
    if isinstance(node, exp.Anonymous):
        for place, taken in _BY_NAME.get(str(node.this).lower(), {}).items():
            yield next(iter(node.expressions[place : place + 1]), None), taken
    elif isinstance(node, exp.Bracket) and node.args.get("offset") and kind_of(node.this) == ARRAY:
        yield node.expressions[0], _ELEMENT
    elif isinstance(node, exp.Elt):
        count = len(node.expressions)
        yield node.this, _whole("elt", f"a number from 1 to {count}", lambda n: 1 <= n <= count)
    elif isinstance(node, exp.RegexpExtract | exp.RegexpExtractAll | exp.RegexpReplace):
        yield from _groups(node)


def _groups(node: Node) -> Iterator[tuple[Node | None, _Taken]]:
    """Groups that a pattern does not have. sqlglot fills in the first, which Spark takes, too."""
    pattern = _constant(node.args.get("expression"))
    groups = None if pattern is None else count_groups(pattern)
    if groups is None:
        return
    if isinstance(node, exp.RegexpReplace):
        words = f"`$n` for a group, of which its pattern has {groups}, and `\\\\$` for the sign"
        yield (
            node.args.get("replacement"),
            _Taken("regexp_replace", words, lambda text: _replaces(text, groups)),
        )
        return
    name = "regexp_extract" if isinstance(node, exp.RegexpExtract) else "regexp_extract_all"
    words = f"a group from 0 to {groups} (1 unless it is told), for so many its pattern has"
    yield node.args.get("group"), _whole(name, words, lambda n: 0 <= n <= groups)


def _replaces(text: str, groups: int) -> bool:
    """Can Java's Matcher.appendReplacement read this? Names of groups are not looked at."""
    rest = re.sub(r"\\.", "", text, flags=re.DOTALL)
    said = re.findall(r"\$(.?)", rest, flags=re.DOTALL)
    return "\\" not in rest and all(
        one == "{" or (one.isascii() and one.isdigit() and int(one) <= groups) for one in said
    )


def _constant(node: Node | None) -> str | None:
    """The text of what is written out; of a unit also where sqlglot takes it for a name."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    return str(node.this) if isinstance(node, exp.Literal | exp.RawString | exp.Var) else None


def _percentages(node: exp.Quantile) -> Iterator[tuple[Node, str]]:
    """Spark takes what is constant and between 0 and 1 (class Percentile)."""
    asked = node.args["quantile"]
    for one in asked.expressions if isinstance(asked, exp.Array) else [asked]:
        if one.find(exp.Column) is not None:
            yield node, f"percentile needs a constant, and has `{one.sql('spark')}`"
            continue
        number = one.this if isinstance(one, exp.Neg) else one
        outside = isinstance(one, exp.Neg) or (
            isinstance(number, exp.Literal) and not 0 <= _number(number) <= 1
        )
        if outside:
            yield node, f"percentile needs a number from 0 to 1, and has {one.sql('spark')}"


def _number(literal: exp.Literal) -> float:
    with suppress(ValueError):
        return float(literal.this)
    return 0
