"""Whatever the columns and the lines: through all tiers a line's verdict is the exact tier's."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judge.judging import BATCH_TIME, pipeline_of
from tidemark.judge import judge as judge_module
from tidemark.judge.block import block_reader
from tidemark.judge.by_columns import ColumnJudge
from tidemark.judge.judge import Judge, JudgedRows
from tidemark.judge.limits import time_limits
from tidemark.judge.rules import rules_of
from tidemark.pipeline.model import Pipeline

BATCH_MS = int(BATCH_TIME.timestamp() * 1_000)
TYPES = (
    *("long", "int", "short", "byte", "double", "float", "boolean", "string", "date", "timestamp"),
    *("binary", "decimal(10,2)", "decimal(38,18)", "decimal(2,2)", "decimal(5,0)", "array<int>"),
    *("array<string>", "struct<p:int,q:string>", "array<struct<p:double,q:array<date>>>"),
    *("struct<t:timestamp,d:decimal(4,1)>", "array<array<byte>>", "map<string,int>"),
    *("map<string,struct<p:int>>", "map<string,array<string>>", "struct<s:struct<p:int>>"),
)


def nested(kind: str) -> bool:
    """Is it of others that are of others?"""
    return kind.count("<") > 1


# Values as they stand in a line: good ones for some types, nearly good ones, and nonsense.
VALUES = (
    *("0", "-0", "1", "-1", "127", "128", "-129", "32768", "2147483648", "9223372036854775807"),
    *("999999999999999999", "1000000000000000000", "9223372036854775808", "1.0", "1e3", "1E+2"),
    *("0.1", "1.5", "-1.25", "1e400", "-1e400", "1e-400", "3.5e38", "1.401298464324817e-45"),
    *("16777217", "0.99", "1.00", "12345678.99", "123456789", "1.105", "01", "1.", ".5", "+1", "-"),
    *("true", "false", "null", "NaN", "Infinity", "nul", "True", "[]", "{}", "[1,2]", "[null]"),
    *('[1,"x"]', '{"p":1}', '{"p":1,"q":"x"}', '{"q":null}', '{"p":1,"p":2}', '{"z":1}', '["x"]'),
    *('{"a":1}', '{"a":null,"ä":2}', '{"a":{"p":1,"z":[1.50]},"p":null}', '{"a":["x"]}'),
    *('{"p":1,"z":{"p":-0}}', '[{"p":0.5,"z":null},null,{"q":[]}]', '{"s":{"p":1,"\\u0070p":1E5}}'),
    *("[[1],[2,null]]", "[[128]]", '[{"p":0.5,"q":["2026-03-01"]}]', '[{"q":["2026-02-30"]}]'),
    *('{"t":"2026-03-01T00:00:00Z","d":1.5}', '{"t":"2026-03-01","d":100000}', '{"d":"1.5"}'),
    *(
        '" x\\t"',
        '" 1"',
        '"true "',
        '" 2026-03-01 "',
        '""',
        '"x"',
        '"ä€😀"',
        '"a\\"b"',
        '"\\u00e4"',
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"\\n\\/"',
    ),
    *('"\\u0000\\uFFff"', '"\\uD83D\\uDe00\\ud7Ff"', '"\\ud83dx\\ude00"', '"\\ude00\\ud83d"'),
    *('"tab\t"', '"\\q"', '"}"', '"{"', '"1"', '"1.50"', '"12,50"', '"-0.5"', '"+.5"', '"1e2"'),
    *(
        '"aGk="',
        '"aGk"',
        '"aGl="',
        '"aGk=aGk="',
        '"!!"',
        '"2026-03-01"',
        '"2026-02-29"',
        '"2024-02-29"',
    ),
    *('"1900-02-29"', '"2000-02-29"', '"2026-04-31"', '"2026-08-31"', '"2026-11-31T00:00:00Z"'),
    *('"0000-01-01"', '"0001-01-01"', '"9999-12-31"', '"2026-3-1"', '"2026-03-01T00:00:00Z"'),
    *(
        '"2026-03-01T00:00:00.123456Z"',
        '"2026-03-01T00:00:00.1234567Z"',
        '"2026-03-01T00:00:00+01:00"',
    ),
    *('"2026-03-01 00:00:00-17:59"', '"2026-03-01T00:00:00+19:00"', '"2026-03-01T00:00:00"'),
    *(
        '"2026-03-29T02:30:00"',
        '"2026-10-25T02:30:00"',
        '"1971-06-01T00:00:00"',
        '"2026-03-01T24:00:00Z"',
    ),
    *('"0000-01-01T00:00:00Z"', '"0001-01-01T00:00:00Z"', '"0001-01-01T00:00:00+01:00"'),
    *(
        '"9999-12-31T23:59:59Z"',
        '"9999-12-31T23:59:59-01:00"',
        '"9999-12-31T00:30:00+01:00"',
        '"9999-12-30T23:59:59-05:00"',
        '"1969-12-31T23:59:59Z"',
        '"2031-01-01T00:00:00Z"',
    ),
    *(
        '"2026-03-01t00:00:00z"',
        '"2026-03-01T00:00Z"',
        '"2026-03-01T23:59:60Z"',
        '"2026-02-30T00:00:00Z"',
    ),
    *("1772323200", "1772323200.123", "1772323200.1234567", "1772323200123", "-5", '"1772323200"'),
    *(
        "253402300800",
        "99999999999999999999",
        '"01/Mar/2026:00:00:00 +0000"',
        '"30/Feb/2026:00:00:00 +0000"',
    ),
)
TIMES: tuple[dict[str, Any], ...] = (
    {},
    {"zone": "Europe/Vienna"},
    {"format": "epoch_seconds"},
    {"format": "epoch_millis"},
    {"format": "epoch_micros"},
    {"format": "dd/MMM/yyyy:HH:mm:ss Z"},
    {"format": "rfc_1123"},
)
GOOD_TIMES = {
    "epoch_seconds": "1772323200.5",
    "epoch_millis": "1772323200123",
    "epoch_micros": "1772323200123456",
    "dd/MMM/yyyy:HH:mm:ss Z": '"01/Mar/2026:00:00:00 +0000"',
    "rfc_1123": '"Sun, 01 Mar 2026 00:00:00 GMT"',
}
# What no column takes, or a column that stands twice then.
FURTHER = (
    *('"x":1.50', '"x":null', '"x":1e400', '"y" : "\\u00e4 ä\\/"', '"y":",\\"x\\":5}"', '"z":true'),
    *('"x":{"b":[1E5,"1",{}]}', '"":[]', '"AT":-0', '"v":"\\\\"', '"y":"\\ud800"', '"x":01', ""),
    *('"x":{"b":1,"b":2}', '"at":1', '"c0":null', '"\\u0063\\u0030":1', '"\\u0078":1', '"p":1'),
    *(
        '"x":{"x":"y","y":[1 , 2]}',
        '"x":[{"b":2},{"b":3,"x":-0}]',
        '"x":"a b"',
        '"x":NaN',
        '"x":1.',
    ),
    *(
        '"x":{"b":"\\ud800"}',
        '"x" :\t[ ]',
        '"\\"x":1',
        '"x\\"":1',
        '"a,b":1',
        '"a:b":[2]',
        '":1":3',
    ),
    *('"y":"x"', '"c1":"x"', '"c0":{"x":1}', f'"x":{"[" * 198}{"]" * 198}', f'"x":{"[" * 200}1'),
    f'"x":{"[" * 200}{"]" * 200}',
)
AROUND = (
    "",
    " ",
    "\r",
    "\t ",
    "}",
    "{",
    ",",
    "{}",
    '{"c0":1}',
    "x",
    "]",
    "null",
    " null {}",
    "\ufeff",
    "\x00",
)


# Of columns: some are also those of fields within values of these types.
NAMES = ("c0", "c1", "c2", "p", "q", "s")


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """Some columns of random types, and some way of writing event time."""
    types = draw(st.lists(st.sampled_from(TYPES), max_size=4))
    names = draw(st.permutations(NAMES))
    columns: dict[str, Any] = {
        name: kind + draw(st.sampled_from(["", " not null"]))
        for name, kind in zip(names, types, strict=False)
    }
    if draw(st.booleans()):
        fielded = {"at": "timestamp", **columns}.items()
        columns = {
            name: {"type": kind, "field": draw(st.sampled_from(_fields_for(name)))}
            | draw(st.sampled_from(_texts_for(kind)))
            for name, kind in fielded
        }
    unknown = draw(st.sampled_from(["keep", "keep", "ignore", "reject"]))
    keep = draw(st.sampled_from([None, "3650 days"]))
    return pipeline_of(columns, unknown, keep=keep, **draw(st.sampled_from(TIMES)))


def _fields_for(name: str) -> list[Any]:
    return [name, f"{name} (x)", [f"o.{name}"], f"o.{name}", f"o.o.{name}", f"o.ä b.{name}"]


def _texts_for(kind: str) -> list[dict[str, Any]]:
    if "<" in kind:
        return [{}]
    number = not kind.startswith(("string", "date", "timestamp", "binary"))
    more = [{"from_text": True}, {"from_text": True, "trim": True, "nulls": ["x"]}]
    return [{}, {}, {"nulls": ["x", "1"]}, {"trim": True}, *(more if number else [])]


@st.composite
def lines_of(draw: st.DrawFn, pipeline: Pipeline, drifted: bool) -> str:
    """A line that is a row of the pipeline, or nearly; if drifted, mostly with unknown fields, and
    with few values of another type."""
    time = GOOD_TIMES.get(pipeline.source.event_time.format, '"2026-03-01T00:00:00Z"')
    values = {"at": draw(st.sampled_from([time, time, time, *([] if drifted else VALUES)]))}
    for name, column in pipeline.source.columns.items():
        if name != "at" and draw(st.integers(0, 9)):
            fits = drifted and draw(st.integers(0, 29))
            values[name] = draw(st.sampled_from(_fitting(column.type) if fits else VALUES))
            if not fits and draw(st.booleans()):
                values[name] = draw(_any_value())
    columns = pipeline.source.columns
    placed = {columns[name].path(name): value for name, value in values.items()}
    fields = draw(_fields_of(placed))
    if drifted:
        fields += draw(st.lists(st.sampled_from(FURTHER[:8]), max_size=2, unique=True))
    if not draw(st.integers(0, 9)):
        fields.append(draw(st.sampled_from(FURTHER)))
    fields = draw(st.permutations(fields))
    comma = draw(st.sampled_from([",", ",", ", ", " ,\t"]))
    line = f"{{{comma.join(fields)}}}"
    if not draw(st.integers(0, 9)):
        line = draw(st.sampled_from(AROUND)) + line + draw(st.sampled_from(AROUND))
    if not draw(st.integers(0, 19)):
        line = line[: draw(st.integers(0, len(line)))]
    return line


@st.composite
def _fields_of(draw: st.DrawFn, values: dict[tuple[str, ...], str]) -> list[str]:
    """Values at the ends of their paths, in objects that have other fields now and then, or are
    something else."""
    fields, within = [], defaultdict[str, dict[tuple[str, ...], str]](dict)
    for path, value in values.items():
        if len(path) == 1:
            fields.append(f"{json.dumps(path[0], ensure_ascii=False)}:{value}")
        else:
            within[path[0]][path[1:]] = value
    for name, inner in within.items():
        parts = draw(_fields_of(inner))
        if not draw(st.integers(0, 4)):
            parts.append(draw(st.sampled_from([one for one in FURTHER if one])))
        one = f"{{{','.join(draw(st.permutations(parts)))}}}"
        one = one if draw(st.integers(0, 9)) else draw(st.sampled_from(VALUES))
        fields.append(f"{json.dumps(name, ensure_ascii=False)}:{one}")
    return fields


@cache
def _fitting(kind: str) -> list[str]:
    """The listed values that are of a kind."""
    lines = [f'{{"at":"2026-03-01T00:00:00Z","c":{value}}}'.encode() for value in VALUES]
    accepted = _judged(pipeline_of({"c": kind}), lines, by_line=True).accepted_at
    return [VALUES[place] for place in accepted.to_pylist()]


def _any_value() -> st.SearchStrategy[str]:
    number = st.floats(allow_nan=False, allow_infinity=False).map(repr)
    decimal = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(_plain)
    whole = st.integers(-(2**70), 2**70).map(str) | st.integers(-300, 300).map(str)
    text = st.builds(json.dumps, st.text(max_size=6), ensure_ascii=st.booleans())
    return number | decimal | whole | text


def _plain(value: Decimal) -> str:
    return f"{value:f}"


@st.composite
def cases(draw: st.DrawFn, number: int) -> tuple[Pipeline, list[bytes]]:
    pipeline = draw(pipelines())
    line = lines_of(pipeline, drifted=draw(st.booleans()))
    lines = draw(st.lists(line, min_size=number, max_size=number))
    return pipeline, [line.encode("utf-8", "surrogatepass") for line in lines]


def check_tiers_agree(pipeline: Pipeline, lines: Sequence[bytes]) -> None:
    """Each line goes through each tier; whichever may take it comes to the same."""
    exact = _judged(pipeline, lines, by_line=True)
    with mock.patch.object(judge_module, "block_reader", return_value=None):
        by_columns = _judged(pipeline, lines, by_line=False)
    for judged in (by_columns, _judged(pipeline, lines, by_line=False)):
        assert judged.accepted_at == exact.accepted_at
        assert _texts(judged.accepted) == _texts(exact.accepted)
        assert judged.rejected_at == exact.rejected_at
        assert judged.rejected.to_pylist() == exact.rejected.to_pylist()


def _judged(pipeline: Pipeline, lines: Sequence[bytes], by_line: bool) -> JudgedRows:
    return Judge(rules_of(pipeline), BATCH_MS, by_line).judge(pa.array(lines, pa.binary()))


def _texts(rows: pa.Table) -> list[str]:
    """Rows as texts, by which -0.0 is not 0.0."""
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in rows
    ]
    return [repr(row) for row in pa.table(plain, names=rows.column_names).to_pylist()]


SOME = settings(max_examples=30, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=1_600, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@SOME
@given(case=cases(64))
def test_all_tiers_come_to_the_exact_tiers_verdict(case: tuple[Pipeline, list[bytes]]) -> None:
    check_tiers_agree(*case)


@pytest.mark.long
@pytest.mark.usefixtures("small_blocks")
@MANY
@given(case=cases(64))
def test_all_tiers_come_to_the_exact_tiers_verdict_on_100000_lines(
    case: tuple[Pipeline, list[bytes]],
) -> None:
    check_tiers_agree(*case)


TIME = '"at":"2026-03-01T00:00:00Z"'


@pytest.mark.parametrize("unknown", ["keep", "ignore", "reject"])
@pytest.mark.parametrize(
    ("columns", "body"),
    [
        ({}, '"x":%d.50,"y" : "\\"x\\":ä","z":null'),
        ({}, '"x":{"b":[%d,"a b"],"at":"x"},"my x":[]'),
        ({"s": "struct<p:int>"}, '"s":{"p":1,"x":%d}'),
        ({"s": "array<struct<p:int>>"}, '"s":[{"p":1,"x":{"s":%d}}]'),
        ({"k": "map<string,int>"}, '"k":{"a":%d}'),
        ({"n": "int", "m": "int not null"}, '"n":"many","o":%d'),
        ({"n": "byte"}, '"n":%d'),
        ({"d": "decimal(4,2)"}, '"d":%d1e-1'),
        ({"u": {"type": "int", "field": "o.u"}}, '"o":{"u":%d,"v":1}'),
    ],
)
def test_no_line_is_read_whole_of_which_a_few_fields_are_a_matter_of_their_own(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], body: str, unknown: str
) -> None:
    monkeypatch.setattr(judge_module, "_WORTH_LEARNING", 1)
    lines = [f"{{{TIME},{body % number}}}".encode() for number in range(200)]
    with mock.patch.object(ColumnJudge, "judge") as whole:
        judged = _judged(pipeline_of(columns, unknown), lines, by_line=False)
    whole.assert_not_called()
    exact = _judged(pipeline_of(columns, unknown), lines, by_line=True)
    assert judged.accepted == exact.accepted
    assert judged.rejected == exact.rejected


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("columns", "body"),
    [
        ({"m": "map<string,string>", "s": "struct<m:string>"}, '"s":{"m":"x"}'),
        ({"m": "map<string,string>", "s": "struct<m:string>"}, '"s":{"m":{"a":"b"}}'),
        ({"m": "map<string,string>", "s": "array<struct<m:string>>"}, '"s":[{"m":"x"}]'),
        (
            {"m": "map<string,string>", "s": {"type": "string", "field": "o.m"}},
            '"o":{"m":"x"}',
        ),
        (
            {"m": {"type": "map<string,string>", "field": ","}, "s": "array<string>"},
            '"s":["x",":{}"]',
        ),
        ({"m": "array<map<string,int>>", "s": "struct<m:int>"}, '"s":{"m":7}'),
    ],
)
def test_a_field_within_another_is_not_taken_for_one_that_blocks_cannot_read(
    columns: dict[str, Any], body: str
) -> None:
    check_tiers_agree(pipeline_of(columns), [f"{{{TIME},{body}}}".encode()] * 40)


@pytest.mark.parametrize("value", ["[\n]", '{"a":\n1}', "[1,\t2]"])
def test_what_is_kept_of_an_unknown_field_does_not_depend_on_the_lines_beside_it(
    value: str,
) -> None:
    lines = [f'{{{TIME},"v":{value},"a":2}}'.encode()] * 2_000
    judged, exact = (
        _judged(pipeline_of({"a": "int"}), lines, by_line=by_line) for by_line in (False, True)
    )
    assert judged.accepted["_extra"].equals(exact.accepted["_extra"])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("learned", "later"),
    [('"s":{"p":1},"p":7', '"s":{"p":1}'), ('",":1', '"t":"b",":5":1')],
    ids=["a name within a column", "a name that may stand between two texts"],
)
def test_nothing_but_a_field_of_the_line_is_taken_for_an_unknown_one(
    monkeypatch: pytest.MonkeyPatch, learned: str, later: str
) -> None:
    monkeypatch.setattr(judge_module, "_BLOCK_LINES", 20)
    columns = {"s": "struct<p:int>", "t": "string", "c": {"type": "int", "field": ":null"}}
    lines = [f"{{{TIME},{body}}}".encode() for body in (learned, later) for _ in range(20)]
    check_tiers_agree(pipeline_of(columns), lines)


def test_what_is_kept_of_an_unknown_field_is_as_it_stood_in_the_line() -> None:
    line = '{"x":%d.50,"at":"2026-03-01T00:00:00Z","y" : "\\"x\\":ä","z":{"b" : [1E5]}}'
    lines = [(line % number).encode() for number in range(2_000)]
    judged = _judged(pipeline_of({}), lines, by_line=False)
    kept = '{"x":7.50,"y":"\\"x\\":ä","z":{"b":[1E5]}}'
    assert judged.accepted["_extra"][7].as_py() == kept


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("array<" * 18 + "string" + ">" * 18, "[" * 18 + "%s" + "]" * 18),
        ("struct<p:" * 18 + "int" + ">" * 18, '{"p":' * 18 + "%s" + "}" * 18),
        ({"type": "string", "field": ["o"] * 18}, '{"o":' * 17 + "%s" + "}" * 17),
        ({"type": "string", "field": ["o"] * 199}, '{"o":' * 198 + "%s" + "}" * 198),
    ],
    ids=["arrays", "structs", "objects", "all objects that a line may have"],
)
def test_what_lies_within_many_others_is_no_matter_for_blocks(column: Any, value: str) -> None:
    """An expression that doubles with each of them takes RE2 gigabytes, before it is refused."""
    pipeline = pipeline_of({"o": column})
    rules = rules_of(pipeline)
    assert block_reader(rules, time_limits(rules, BATCH_MS)) is None
    bodies = [f',"o":{value % part}' for part in ('"x"', "7", "null", "[]", "{}")]
    check_tiers_agree(pipeline, [f"{{{TIME}{body}}}".encode() for body in [*bodies, ""]])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("struct<t:timestamp,p:array<" * 5 + "int" + ">>" * 5, '{"p":[null,{"t":null}]}'),
        (f"struct<{','.join(f'a{number}:timestamp' for number in range(900))}>", '{"a7":null}'),
    ],
    ids=["deep", "wide"],
)
def test_what_re2_has_room_for_is_read_in_blocks(kind: str, value: str) -> None:
    lines = [f'{{{TIME},"o":{value}}}'.encode()] * 200
    with mock.patch.object(ColumnJudge, "judge") as by_columns:
        judged = _judged(pipeline_of({"o": kind}), lines, by_line=False)
    by_columns.assert_not_called()
    assert judged.accepted == _judged(pipeline_of({"o": kind}), lines, by_line=True).accepted


def values_of(kind: str) -> tuple[Pipeline, list[bytes]]:
    """The listed values in a column of a type."""
    lines = [f'{{"at":"2026-03-01T00:00:00Z","c":{value}}}'.encode() for value in VALUES]
    return pipeline_of({"c": kind}), lines


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", TYPES)
def test_all_tiers_come_to_the_exact_tiers_verdict_on_each_listed_value(kind: str) -> None:
    check_tiers_agree(*values_of(kind))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.long if nested(kind) else ()) for kind in TYPES],
)
def test_so_they_do_on_each_of_them_alone(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    each_line_is_a_block(monkeypatch)
    check_tiers_agree(*values_of(kind))


def each_line_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no line is left to another tier for those beside it."""
    monkeypatch.setattr(judge_module, "_BLOCK_LINES", 1)
    monkeypatch.setattr(judge_module, "_PORTION_LINES", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("time", TIMES, ids=str)
def test_all_tiers_come_to_the_exact_tiers_verdict_on_each_listed_time(
    monkeypatch: pytest.MonkeyPatch, time: dict[str, Any]
) -> None:
    each_line_is_a_block(monkeypatch)
    pipeline = pipeline_of({}, **time)
    check_tiers_agree(pipeline, [f'{{"at":{value}}}'.encode() for value in VALUES])
