"""Texts such as `'now'` and `'today UTC'` that Spark takes for a time of the clock.

Where such a text becomes a date or a timestamp, by a cast that is written or by one that Spark adds
beside a time, it stands for the time of the query (classes SpecialDatetimeValues and
SparkDateTimeUtils). Everywhere else it is a text as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from tidemark.pipeline.expressions.functions import CLOCK
from tidemark.pipeline.expressions.types import MAP, TIME, kind_of

Node = exp.Expr
# A zone may follow; Java's `trim` leaves out what is below a blank, too.
_WORDS = re.compile(r"[\s\x00-\x20]*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_OF_TIMES = (
    *(exp.TsOrDsToDate, exp.TimeStrToTime, exp.TsOrDsAdd, exp.TimestampAdd, exp.TimestampDiff),
    *(exp.DateDiff, exp.TimestampTrunc, exp.DateTrunc, exp.Extract, exp.Hour, exp.Minute),
    *(exp.Second, exp.Quarter, exp.Dayname, exp.Monthname, exp.LastDay, exp.MonthsBetween),
    *(exp.NextDay, exp.AddMonths, exp.ConvertTimezone),
    # Of two texts or a text and a number there is no sum.
    *(exp.Add, exp.Sub, exp.SafeAdd, exp.SafeSubtract),
)
_OF_TIMES_BY_NAME = (
    *("to_timestamp_ltz", "to_timestamp_ntz", "try_to_date", "try_to_timestamp", "weekday"),
    *("date_part", "datepart"),
)
_CHOOSING = (
    *(exp.Case, exp.If, exp.Nvl2, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif),
    exp.DecodeCase,
)
_OF_ONE_TYPE = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.In, exp.Between, exp.EqualNull, exp.Array, exp.GenerateSeries, exp.Bracket),
)


def clock_faults(root: Node) -> Iterator[tuple[Node, str]]:
    """Each part in which a text becomes a time of the clock, or may, with the reason."""
    for text in root.find_all(exp.Literal, exp.RawString):
        is_text = isinstance(text, exp.RawString) or text.is_string
        if is_text and _WORDS.match(str(text.this)) and (found := _read_as_time(text)):
            node, reason = found
            yield node, f"'{text.this}' cannot be used: {reason}"


def _read_as_time(text: Node) -> tuple[Node, str] | None:
    """What reads the text as a time, as a part of others that it is the value of."""
    while (around := text.parent) is not None:
        if isinstance(around, exp.If) and isinstance(around.parent, exp.Case):
            around = around.parent
        if isinstance(around, exp.Cast):
            return (around, CLOCK) if around.to.this in exp.DataType.TEMPORAL_TYPES else None
        name = str(around.this).lower() if isinstance(around, exp.Anonymous) else ""
        if isinstance(around, _OF_TIMES) or name in _OF_TIMES_BY_NAME:
            return around, CLOCK
        compared, chosen = _alike(around)
        for group in (compared, chosen):
            others = [one for one in group if one is not text]
            if len(others) < len(group) and any(map(_may_be_time, others)):
                said = "where text is meant, write `cast(… as string)` of what stands beside it"
                return around, f"{CLOCK}; {said}"
        if not isinstance(around, exp.Paren) and not any(one is text for one in chosen):
            return None
        text = around
    return None


def _alike(node: Node) -> tuple[list[Node], list[Node]]:
    """The parts of a node that Spark brings to one type: those it compares, and those of which one
    is its value."""
    if isinstance(node, exp.Case):
        branches = node.args["ifs"]
        compared = [node.this, *(branch.this for branch in branches)] if node.this else []
        chosen = [*(branch.args["true"] for branch in branches), node.args.get("default")]
    elif isinstance(node, exp.If | exp.Nvl2):
        compared, chosen = [], [node.args.get("true"), node.args.get("false")]
    elif isinstance(node, _CHOOSING):
        compared, chosen = [], list(node.iter_expressions())
    else:
        compared = list(node.iter_expressions()) if isinstance(node, _OF_ONE_TYPE) else []
        chosen = []
    return compared, [one for one in chosen if one is not None]


def _may_be_time(node: Node) -> bool:
    """Is it a time, as far as can be told? sqlglot takes a choice of times and text for text."""
    node = node.unnest()
    if isinstance(node, _CHOOSING):
        return any(map(_may_be_time, _alike(node)[1]))
    kind = kind_of(node)
    if kind == MAP and isinstance(node.type, exp.DataType):
        # Its keys are what it is asked for.
        return any(key.this in exp.DataType.TEMPORAL_TYPES for key in node.type.expressions[:1])
    return kind == TIME or (kind is None and not isinstance(node, exp.Null))
