"""Lines and the verdicts that they must come to, kind by kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.judge.judging import BATCH_TIME, pipeline_of
from tidemark.pipeline.model import Pipeline

AT = datetime(2026, 3, 1, tzinfo=UTC)
T = '"at":"2026-03-01T00:00:00Z"'
MALFORMED, WRONG, MISSING = "malformed", "wrong type", "missing field"


@dataclass(frozen=True)
class Case:
    """A line, and its reason with a piece of the detail, or the values it was accepted with."""

    line: str | bytes
    reason: str | None = None
    detail: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return repr(self.line)[:60]


def good(body: str | bytes, **values: Any) -> Case:
    return Case(_line(body), values=values)


def bad(body: str | bytes, detail: str = "", reason: str = WRONG) -> Case:
    return Case(_line(body), reason, detail)


def _line(body: str | bytes) -> str | bytes:
    if isinstance(body, bytes):
        return b"{" + T.encode() + b"," + body + b"}"
    return f"{{{T},{body}}}"


def broken_in(body: str, detail: str) -> Case:
    return Case(_line(body), MALFORMED, detail)


def broken(line: str | bytes, detail: str = "not exactly one JSON object") -> Case:
    return Case(line, MALFORMED, detail)


def at(value: object, expected: datetime | str) -> Case:
    """A line with only an event time, and the instant or a piece of the detail."""
    line = f'{{"at":{value if isinstance(value, Literal) else json.dumps(value)}}}'
    if isinstance(expected, datetime):
        return Case(line, values={"at": expected})
    return Case(line, WRONG, expected)


def json_names(case: Case) -> set[str]:
    """The columns whose names stand in a case's line."""
    return {name for name in COLUMNS if f'"{name}":' in str(case.line)}


class Literal(str):
    """A number as it stands in the line."""


COLUMNS = {
    "l": "long", "i": "int", "s": "short", "b": "byte", "d": "double", "f": "float",
    "m": "decimal(10,2)", "big": "decimal(38,0)", "num": "numeric(10,2)", "fine": "decimal(38,18)",
    "o": "boolean", "t": "string", "y": "date", "w": "timestamp", "bin": "binary",
    "a": "array<int>", "r": "struct<p:int,q:string>", "k": "map<string,int>",
    "texts": "array<string>", "times": "array<timestamp>", "days": "map<string,date>",
    "bytes": "array<byte>", "floats": "array<float>", "price": "struct<net:decimal(5,2)>",
    "deep": "array<struct<p:string,q:map<string,string>>>",
    "within": "struct<r:struct<p:int>,z:int>", "each": "map<string,struct<p:int>>",
}  # fmt: skip
# Without those that have no fast form, so that blocks are read too.
FLAT_COLUMNS = {name: kind for name, kind in COLUMNS.items() if "map<" not in kind}
HUGE = "12345678901234567890123456789012345678"

TYPES = [
    good('"l":1', l=1),
    good('"l":-0', l=0),
    good('"l":9223372036854775807', l=2**63 - 1),
    good('"l":-9223372036854775808', l=-(2**63)),
    good('"l":null'),
    bad('"l":9223372036854775808', "l should be long, found 9223372036854775808"),
    bad('"l":1.5', "l should be long, found 1.5"),
    bad('"l":1.0', "l should be long, found 1.0"),
    bad('"l":1e3', "l should be long"),
    bad('"l":"1"', 'l should be long, found "1"'),
    bad('"l":true', "l should be long, found true"),
    bad('"l":[1]', "l should be long, found [1]"),
    bad('"l":{}', "l should be long, found {}"),
    good('"i":2147483647', i=2**31 - 1),
    bad('"i":2147483648', "i should be int"),
    good('"s":-32768', s=-(2**15)),
    bad('"s":32768', "s should be short"),
    good('"b":127', b=127),
    # Spark's own parser reads these as -128 and -1.
    bad('"b":128', "b should be byte, found 128"),
    bad('"b":255', "b should be byte, found 255"),
    bad('"b":-129', "b should be byte"),
    good('"d":1', d=1.0),
    good('"d":0.1', d=0.1),
    good('"d":1e-400', d=0.0),
    good('"d":123456789012345678901234567890', d=1.2345678901234568e29),
    bad('"d":"1"', 'd should be double, found "1"'),
    bad('"d":1e400', "d should be double"),
    bad('"d":"NaN"', "d should be double"),
    bad('"d":"Infinity"', "d should be double"),
    bad('"d":true', "d should be double"),
    good('"f":1.5', f=1.5),
    bad('"f":1e39', "f should be float"),
    bad('"f":"1"', "f should be float"),
    good('"m":1.10', m=Decimal("1.10")),
    good('"m":1.100', m=Decimal("1.10")),
    good('"m":1e2', m=Decimal("100.00")),
    good('"m":"12.50"', m=Decimal("12.50")),
    good('"m":12345678.99', m=Decimal("12345678.99")),
    bad('"m":1.105', "m should be decimal(10,2), found 1.105"),
    bad('"m":123456789', "m should be decimal(10,2), found 123456789"),
    bad('"m":99999999.999', "m should be decimal(10,2)"),
    bad('"m":1e400', "m should be decimal(10,2)"),
    bad('"m":1e99999999', "m should be decimal(10,2), found 1e99999999"),
    bad('"m":1e-99999999', "m should be decimal(10,2)"),
    bad('"m":1e99999999999999999999999', "m should be decimal(10,2)"),
    good('"m":0e999999999999999999', m=Decimal("0.00")),
    bad('"m":0e9999999999999999999', "m should be decimal(10,2), found 0e9999999999999999999"),
    bad('"m":1e-100000', "m should be decimal(10,2)"),
    # Spark's parser takes commas out.
    bad('"m":"12,50"', 'm should be decimal(10,2), found "12,50"'),
    bad('"m":"1,2,5,0"', "m should be decimal(10,2)"),
    bad('"m":" 1"', "m should be decimal(10,2)"),
    bad('"m":"NaN"', "m should be decimal(10,2)"),
    good('"m":"+.50"', m=Decimal("0.50")),
    good('"m":"007."', m=Decimal("7.00")),
    bad('"fine":1.9999999999999999999', "fine should be decimal(38,18)"),
    good('"fine":1.999999999999999999', fine=Decimal("1.999999999999999999")),
    bad('"fine":1e-100000', "fine should be decimal(38,18)"),
    bad('"m":"x"', "m should be decimal(10,2)"),
    bad('"m":true', "m should be decimal(10,2)"),
    good('"num":1.10', num=Decimal("1.10")),
    bad('"num":1.105', "num should be numeric(10,2), found 1.105"),
    good(f'"big":{HUGE}', big=Decimal(HUGE)),
    good(f'"big":"{HUGE}"', big=Decimal(HUGE)),
    bad(f'"big":{HUGE}9', "big should be decimal(38,0)"),
    good('"o":false', o=False),
    bad('"o":"true"', "o should be boolean"),
    bad('"o":1', "o should be boolean, found 1"),
    good('"y":"2024-02-29"', y=date(2024, 2, 29)),
    bad('"y":"2026-02-29"', "y should be date"),
    bad('"y":"2026-3-1"', "y should be date"),
    bad('"y":"0000-01-01"', "y should be date"),
    bad('"y":"2026-03-01T00:00:00Z"', "y should be date"),
    bad('"y":"12:01"', "y should be date"),
    bad('"y":"today"', "y should be date"),
    bad('"y":20513', "y should be date"),
    good('"w":"1900-01-01T01:00:00+01:00"', w=datetime(1900, 1, 1, tzinfo=UTC)),
    good('"w":"9999-12-31T23:59:59Z"', w=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    # No reader of the table could show the year 10000.
    bad('"w":"9999-12-31T23:59:59-05:00"', "w should be timestamp"),
    bad('"w":"0001-01-01T00:59:59+01:00"', "w should be timestamp"),
    *[
        good(f'"w":"9999-12-31{rest}"', w=datetime(9999, 12, 31, 23, 0, tzinfo=UTC))
        for rest in ("T23:00Z", " 23:00:00 z", "T23:00:00+00:00", "T22:30:00-00:30")
    ],
    good('"w":"0001-01-01T01:00+01:00"', w=datetime(1, 1, 1, tzinfo=UTC)),
    good('"w":"0001-01-01T00:00:00-01:00"', w=datetime(1, 1, 1, 1, tzinfo=UTC)),
    bad('"w":"2026-03-01T00:00:00"', "w should be timestamp"),
    bad('"w":"now"', "w should be timestamp"),
    bad('"w":1772323200', "w should be timestamp"),
    good('"bin":"aGk="', bin=b"hi"),
    bad('"bin":"!!"', "bin should be binary"),
    bad('"bin":5', "bin should be binary"),
]
# Another field's name that ends like the column's, behind an escaped quote.
HALF_ALIKE = [
    good('"\\"t":"x","\\u0074":"y"', t="y", _extra='{"\\"t":"x"}'),
    bad('"\\"t":"x","\\u0074":5', "t should be string, found 5"),
    bad('"\\"t":"x","t":5', "t should be string, found 5"),
]
TEXTS = [
    good('"t":"x"', t="x"),
    good('"t":""', t=""),
    good('"t":null'),
    good('"t" :\t"x"', t="x"),
    good('"t":"\\u0000"', t="\x00"),
    good('"t":"\\ud83d\\uDE00"', t="😀"),
    good('"t":"\\\\ud800"', t="\\ud800"),
    good('"t":"a\\"t\\":5"', t='a"t":5'),
    good('"\\u0074":"x"', t="x"),
    *HALF_ALIKE,
    good('"n":{"t":5},"t":"x"', t="x", _extra='{"n":{"t":5}}'),
    bad('"t":5', "t should be string, found 5"),
    bad('"t":1.50', "t should be string, found 1.50"),
    bad('"t":true', "t should be string, found true"),
    bad('"t":{"t":"x"}', 't should be string, found {"t":"x"}'),
    bad('"t":["x"]', 't should be string, found ["x"]'),
    bad('"\\u0074":5', "t should be string, found 5"),
    bad('"n":{"t":"x"},"t":5', "t should be string, found 5"),
    bad('"t":5,"n":"\\"t\\":\\"x\\""', "t should be string, found 5"),
]
NESTED = [
    good('"a":[1,2]', a=[1, 2]),
    good('"a":[]', a=[]),
    good('"a":[null,1]', a=[None, 1]),
    bad('"a":[1,"x"]', 'a should be array<int>, found [1,"x"]'),
    bad('"a":[1.5]', "a should be array<int>"),
    bad('"a":[99999999999]', "a should be array<int>"),
    bad('"a":5', "a should be array<int>, found 5"),
    bad('"a":"[1]"', "a should be array<int>"),
    bad('"a":{"x":1}', "a should be array<int>"),
    good('"r":{"p":1,"q":"x"}', r={"p": 1, "q": "x"}),
    good('"r":{"p":1,"z":5}', r={"p": 1, "q": None}, _extra='{"r":{"z":5}}'),
    good('"r":{"P":1}', r={"p": None, "q": None}, _extra='{"r":{"P":1}}'),
    good(
        '"deep":[{"p":"x"},null,{"z":{"y":1.50},"q":{}}]',
        deep=[{"p": "x", "q": None}, None, {"p": None, "q": []}],
        _extra='{"deep":[null,null,{"z":{"y":1.50}}]}',
    ),
    good(
        '"within":{"z":3,"r":{"z":2,"p":1}}',
        within={"r": {"p": 1}, "z": 3},
        _extra='{"within":{"r":{"z":2}}}',
    ),
    good(
        '"each":{"x":{"z":null},"y":{"p":1},"n":null}',
        each=[("x", {"p": None}), ("y", {"p": 1}), ("n", None)],
        _extra='{"each":{"x":{"z":null}}}',
    ),
    good('"r":{}', r={"p": None, "q": None}),
    broken_in('"r":{"p":1,"p":2}', "a field stands twice in a nested object"),
    broken_in('"k":{"x":1,"x":1}', "a field stands twice in a nested object"),
    broken_in('"deep":[{"p":"x","p":"y"}]', "a field stands twice in a nested object"),
    bad('"r":{"p":"1"}', "r should be struct<p:int,q:string>"),
    bad('"r":{"q":5}', 'found {"q":5}'),
    bad('"r":[{"p":1}]', "r should be struct<p:int,q:string>"),
    bad('"r":"x"', "r should be struct<p:int,q:string>"),
    good('"k":{"x":1,"y":null}', k=[("x", 1), ("y", None)]),
    bad('"k":{"x":"1"}', "k should be map<string,int>"),
    bad('"k":[]', "k should be map<string,int>"),
    good('"texts":["x",null]', texts=["x", None]),
    bad('"texts":["x",5]', 'texts should be array<string>, found ["x",5]'),
    bad('"texts":[{"x":1}]', "texts should be array<string>"),
    good('"times":["2026-03-01T00:00:00Z",null]', times=[AT, None]),
    # Spark's own parser reads it as a time of the day on which it runs.
    bad('"times":["12:01"]', "times should be array<timestamp>"),
    good('"days":{"x":"2026-03-01"}', days=[("x", date(2026, 3, 1))]),
    bad('"days":{"x":"12:01"}', "days should be map<string,date>"),
    bad('"bytes":[128]', "bytes should be array<byte>"),
    bad('"floats":[1e39]', "floats should be array<float>"),
    good('"price":{"net":1.5}', price={"net": Decimal("1.50")}),
    bad('"price":{"net":1.005}', "price should be struct<net:decimal(5,2)>"),
    good('"deep":[{"p":"x","q":{"y":"z"}},null]', deep=[{"p": "x", "q": [("y", "z")]}, None]),
    bad('"deep":[{"p":"x","q":{"y":5}}]', "deep should be array<"),
    # The first column that is wrong is named, and a good nested one beside it is not blamed.
    bad('"l":"1","a":[1]', 'l should be long, found "1"'),
    bad('"l":1,"a":["x"],"k":{"x":1}', "a should be array<int>"),
]
LINES = [
    *[broken(blank, "blank line") for blank in ("", "  ", "\t", "\r")],
    *[broken(text) for text in ("nope", "{", "[]", "[1]", "null", "true", "5", '"x"', "{at:1}")],
    broken(f"{{{T}"),
    broken(f'{{{T},"l":'),
    broken(f'{{{T},"t":"cut'),
    broken(f"{{{T}}}{{{T}}}"),
    broken(f"{{{T}}} {{{T}}}"),
    broken(f"{{{T}}},{{{T}}}"),
    broken(f"{{{T}}}x"),
    broken(f"{{{T}}}]"),
    broken(f"{{{T}}}}}"),
    broken(f"{{{T},}}"),
    broken(f"[{{{T}}}]"),
    broken(f"{{{T}}}//c"),
    broken(f"/*c*/{{{T}}}"),
    broken("{'at':'2026-03-01T00:00:00Z'}"),
    broken(f'{{{T},"l":NaN}}'),
    broken(f'{{{T},"d":Infinity}}'),
    broken(f'{{{T},"x":NaN}}'),
    broken(f'{{{T},"x":01}}'),
    broken(f'{{{T},"x":+1}}'),
    broken(f'{{{T},"x":.5}}'),
    broken(f'{{{T},"x":1.}}'),
    broken(f'{{{T},"x":"a\tb"}}'),
    broken(f'{{{T},"x":"\\q"}}'),
    broken(
        f'{{{T},"x":{"[" * 2000}{"]" * 2000}}}',
        "more than 200 objects and arrays within each other",
    ),
    good(f'"x":{"[" * 199}{"]" * 199}', _extra=f'{{"x":{"[" * 199}{"]" * 199}}}'),
    broken(f"{{{T}}}\x00"),
    broken(f"\u00a0{{{T}}}"),
    broken(f"\ufeff{{{T}}}", "begins with a byte order mark (BOM)"),
    # Imitations of an envelope that a line could be read in.
    broken(f'{{{T}}},"x":1'),
    broken(f'{{{T}}}],"rows":[{{{T}}}'),
    broken(f'{{{T}}}],"rows_5f3a9c":[{{{T}}}'),
    broken(f'{{{T}}},{{"end\\u005f5f3a9c":1}}]}} anything'),
    broken(f"{{{T},{T}}}", "a field stands twice in the object"),
    broken(f'{{{T},"x":1,"\\u0078":2}}', "a field stands twice in the object"),
    broken(f'{{{T},"x":{{"b":1,"b":2}}}}', "a field stands twice in a nested object"),
    broken(b"{" + T.encode() + b',"t":"\xff"}', "not valid UTF-8"),
    broken(b"{" + T.encode() + b',"t":"\xed\xa0\x80"}', "not valid UTF-8"),
    broken(b"\xff\xfe{\x00", "not valid UTF-8"),
    broken(f'{{{T},"t":"\\ud800"}}', "holds half of a surrogate pair"),
    broken(f'{{{T},"t":"\\ude00\\ud83d"}}', "holds half of a surrogate pair"),
    broken(f'{{{T},"t":"\\\\\\uD83D"}}', "holds half of a surrogate pair"),
    Case(f"{{{T}}}\r"),
    Case(f" {{{T}}} "),
    Case("{}", MISSING, "at is missing"),
    Case('{"at":null}', MISSING, "at is null"),
    Case('{"AT":"2026-03-01T00:00:00Z"}', MISSING, "at is missing"),
    Case(f'{{"row":{{{T}}}}}', MISSING, "at is missing"),
    Case('{"at":5}', WRONG, "at should be timestamp, found 5"),
    Case('{"at":""}', WRONG, 'at should be timestamp, found ""'),
    good('"L":1', _extra='{"L":1}'),
    good('"":1', _extra='{"":1}'),
    good('"x":1.50,"z":"ä","n":null', _extra='{"x":1.50,"z":"ä","n":null}'),
    good('"x":1e400,"y":[-0.0,1E5]', _extra='{"x":1e400,"y":[-0.0,1E5]}'),
    good(f'"x":{HUGE}', _extra=f'{{"x":{HUGE}}}'),
    good('"x":"1","v":{"b":[1,"1",true,null]}', _extra='{"x":"1","v":{"b":[1,"1",true,null]}}'),
]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


NOT = "at should be timestamp, found"
EARLY = "at is before 1970-01-01"
ISO = [
    *[
        at(text, AT)
        for text in (
            "2026-03-01T00:00:00Z", "2026-03-01t00:00:00z", "2026-03-01 00:00:00Z",
            "2026-03-01 00:00:00 Z", "2026-03-01T00:00Z", "2026-03-01T01:00:00+01:00",
            "2026-03-01T01:00:00+0100", "2026-03-01T01:00:00+01", "2026-03-01T01:00:00 +01",
            "2026-03-01T01:00+01", "2026-02-28T19:00:00-05:00", "2026-03-01T00:00:00-00:00",
            "2026-03-01T18:00:00+18:00",
        )
    ],
    at("2026-03-01T00:00:00.5Z", utc(2026, 3, 1, 0, 0, 0, 500_000)),
    at("2026-03-01T00:00:00.123456Z", utc(2026, 3, 1, 0, 0, 0, 123_456)),
    # Beyond microseconds the digits are cut off, not rounded.
    at("2026-03-01T00:00:00.123456999Z", utc(2026, 3, 1, 0, 0, 0, 123_456)),
    at("2024-02-29T00:00:00Z", utc(2024, 2, 29)),
    at("1970-01-01T00:00:00Z", utc(1970, 1, 1)),
    at("1969-12-31T23:59:59.999999Z", EARLY),
    at("1970-01-01T00:00:00+01:00", EARLY),
    *[
        at(text, NOT)
        for text in (
            "2026-03-01T00:00:00", "2026-03-01", "2026-03-01Z", "12:01", "T12:01Z", "2026", "now",
            "today", "epoch", "1772323200", "2026-03-01T23:59:60Z", "2026-03-01T24:00:00Z",
            "2026-02-30T00:00:00Z", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
            "20260301T000000Z", "2026-W09-7T00:00:00Z", "2026-3-1T0:00:00Z",
            "+2026-03-01T00:00:00Z", "12026-03-01T00:00:00Z", "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-05:00", "2026-03-01T00:00:00.Z", "2026-03-01T00:00:00,5Z",
            "2026-03-01T00:00:00.1234567890Z", "2026-03-01T00:00:00+19:00",
            "2026-03-01T00:00:00 UTC", "2026-03-01T00:00:00[Europe/Vienna]",
            " 2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z ", "2026-03-01T00:00:00Z\n",
        )
    ],
    at(Literal("1772323200"), NOT),
    at(Literal("true"), NOT),
    at(Literal("[1]"), NOT),
]  # fmt: skip
VIENNA = [
    at("2026-03-01T01:00:00", AT),
    at("2026-03-01 01:00", AT),
    at("2026-03-01t01:00:00", AT),
    at("2026-03-01", utc(2026, 2, 28, 23)),
    at("2026-07-01T00:00:00.25", utc(2026, 6, 30, 22, 0, 0, 250_000)),
    # 02:00 to 03:00 does not exist on this day: it is counted on.
    at("2026-03-29T01:59:59", utc(2026, 3, 29, 0, 59, 59)),
    at("2026-03-29T02:30:00", utc(2026, 3, 29, 1, 30)),
    at("2026-03-29T03:00:00", utc(2026, 3, 29, 1)),
    # 02:00 to 03:00 comes twice on this day: it is the first.
    at("2026-10-25T02:30:00", utc(2026, 10, 25, 0, 30)),
    at("2026-10-25T03:00:00", utc(2026, 10, 25, 2)),
    at("2026-03-01T00:00:00Z", AT),
    at("2026-03-01T05:00:00+05:00", AT),
    at("1970-01-01T00:30:00", EARLY),
    at("12:01", NOT),
    at("2026-02-30", NOT),
    at("2026-03-01 24:00:00", NOT),
]
EPOCH_SECONDS = [
    at(Literal("1772323200"), AT),
    at(Literal("1.7723232e9"), AT),
    at("1772323200", AT),
    at("1772323200.0", AT),
    at(Literal("1772323200.9999999"), utc(2026, 3, 1, 0, 0, 0, 999_999)),
    at(Literal("1772323200.9999999999"), utc(2026, 3, 1, 0, 0, 0, 999_999)),
    at(Literal("1e-100000"), utc(1970, 1, 1)),
    at(Literal("-1e-100000"), EARLY),
    at(Literal("1e99999999"), NOT),
    at(Literal("0"), utc(1970, 1, 1)),
    at(Literal("-1"), EARLY),
    at(Literal("-0.5"), EARLY),
    at("-1", EARLY),
    *[
        at(Literal(number), NOT)
        for number in (
            "true", "1e400", "253402300800", "99999999999999999999", "9223372036854775807", "[0]"
        )
    ],
    *[at(text, NOT) for text in ("", "x", " 5", "0x10", "1_000", "2026-03-01T00:00:00Z")],
]  # fmt: skip
EPOCH_MILLIS = [
    at(Literal("1772323200000"), AT),
    at(Literal("1772323200000.5"), utc(2026, 3, 1, 0, 0, 0, 500)),
    at("1772323200123", utc(2026, 3, 1, 0, 0, 0, 123_000)),
    at(Literal("-1"), EARLY),
    at(Literal("9223372036854775807"), NOT),
]
EPOCH_MICROS = [
    at(Literal("1772323200000001"), utc(2026, 3, 1, 0, 0, 0, 1)),
    at(Literal("1772323200000001.9"), utc(2026, 3, 1, 0, 0, 0, 1)),
    at(Literal("-1"), EARLY),
    at(Literal("9223372036854775807"), NOT),
]
ACCESS_LOG = [
    at("01/Mar/2026:00:00:00 +0000", AT),
    at("01/Mar/2026:01:00:00 +0100", AT),
    *[
        at(text, NOT)
        for text in (
            "01/Mar/2026:00:00:00", "01/Mar/2026:00:00:00 Z", "30/Feb/2026:00:00:00 +0000",
            "1/Mar/2026:00:00:00 +0000", "01/Mar/2026:00:00:00 +0000 x",
            "01/Mar/2026:23:59:60 +0000", "2026-03-01T00:00:00Z",
        )
    ],
    at(Literal("5"), NOT),
]  # fmt: skip
LOCAL_PATTERN = [
    at("2026-03-01 01:00:00", AT),
    at("2026-03-29 02:30:00", utc(2026, 3, 29, 1, 30)),
    at("2026-10-25 02:30:00", utc(2026, 10, 25, 0, 30)),
    at("2026-03-01 01:00:00Z", NOT),
    at("2026-02-30 00:00:00", NOT),
]
QUOTED_ZONE = [at("2026-03-01T00:00:00Z", AT), at("2026-03-01T00:00:00", NOT)]
LIMIT = BATCH_TIME + timedelta(minutes=10)
FUTURE = [
    at(LIMIT.isoformat(), LIMIT),
    Case(
        json.dumps({"at": (LIMIT + timedelta(microseconds=1)).isoformat()}),
        "future",
        "at is 2026-11-18 11:16:40.000001, more than",
    ),
    Case('{"at":"9999-12-31T23:59:59Z"}', "future", "at is 9999-12-31 23:59:59"),
]
EXACT_LIMIT = [
    at(BATCH_TIME.isoformat(), BATCH_TIME),
    Case(json.dumps({"at": (BATCH_TIME + timedelta(microseconds=1)).isoformat()}), "future"),
]
KEEP_LIMIT = BATCH_TIME - timedelta(days=90)
TOO_OLD = [
    at(KEEP_LIMIT.isoformat(), KEEP_LIMIT),
    at((KEEP_LIMIT + timedelta(microseconds=1)).isoformat(), KEEP_LIMIT + timedelta.resolution),
    Case(
        json.dumps({"at": (KEEP_LIMIT - timedelta(microseconds=1)).isoformat()}),
        "too old",
        "at is 2026-08-20 11:06:39.999999, more than 90 days before the batch's time",
    ),
    Case('{"at":"1970-01-01T00:00:00Z"}', "too old", "at is 1970-01-01 00:00:00, more than"),
    at(LIMIT.isoformat(), LIMIT),
    Case(json.dumps({"at": (LIMIT + timedelta(microseconds=1)).isoformat()}), "future"),
    # What cannot be a row's value at all is told first.
    at("1969-12-31T23:59:59Z", EARLY),
    Case('{"at":"2000-01-01T00:00:00Z","n":"x"}', WRONG, "n should be int"),
    Case('{"at":"2000-01-01T00:00:00Z","x":1}', "unknown field", "unknown: x"),
    Case('{"at":null}', MISSING, "at is null"),
    broken('{"at":"2000-01-01T00:00:00Z"} x'),
]
KEPT_LONGER_THAN_TIME = [at("1970-01-01T00:00:00Z", utc(1970, 1, 1)), at("1969-12-31", EARLY)]
KEPT_FOR_EVER = [at("1970-01-01T00:00:00Z", utc(1970, 1, 1))]
REQUIRED = [
    good('"n":1,"t":"x"', n=1, t="x"),
    bad('"t":"x"', "n is missing", MISSING),
    bad('"n":null,"t":"x"', "n is null", MISSING),
    bad('"n":1', "t is missing", MISSING),
    bad('"n":"1","t":"x"', 'n should be int, found "1"'),
    # What is missing is told before what is wrong.
    bad('"n":"1"', "t is missing", MISSING),
]
REJECT = [
    good('"t":"x"', t="x"),
    bad('"x":1', "unknown: x", "unknown field"),
    bad('"x":null,"y":2', "unknown: x, y", "unknown field"),
    bad('"t":5,"x":1', "t should be string, found 5"),
]
IGNORE = [good('"t":"x","x":1', t="x"), bad('"t":5,"x":1', "t should be string")]

PATTERN = "dd/MMM/yyyy:HH:mm:ss Z"
KINDS: dict[str, tuple[Callable[[], Pipeline], list[Case]]] = {
    "types": (lambda: pipeline_of(FLAT_COLUMNS), TYPES + TEXTS),
    "nested": (lambda: pipeline_of(COLUMNS), NESTED),
    "nested without maps": (
        lambda: pipeline_of(FLAT_COLUMNS),
        [case for case in NESTED if not {"k", "days", "deep", "each"} & json_names(case)],
    ),
    "flat": (lambda: pipeline_of({"t": "string"}), HALF_ALIKE),
    "lines": (lambda: pipeline_of({"l": "long", "d": "double", "t": "string"}), LINES),
    "iso": (lambda: pipeline_of({}), ISO),
    "vienna": (lambda: pipeline_of({}, zone="Europe/Vienna"), VIENNA),
    "seconds": (lambda: pipeline_of({}, format="epoch_seconds"), EPOCH_SECONDS),
    "millis": (lambda: pipeline_of({}, format="epoch_millis"), EPOCH_MILLIS),
    "micros": (lambda: pipeline_of({}, format="epoch_micros"), EPOCH_MICROS),
    "pattern": (lambda: pipeline_of({}, format=PATTERN), ACCESS_LOG),
    "local": (
        lambda: pipeline_of({}, format="yyyy-MM-dd HH:mm:ss", zone="Europe/Vienna"),
        LOCAL_PATTERN,
    ),
    "quoted": (
        lambda: pipeline_of({}, format="yyyy-MM-dd'T'HH:mm:ss'Z'", zone="UTC"),
        QUOTED_ZONE,
    ),
    "future": (lambda: pipeline_of({}), FUTURE),
    "limit": (lambda: pipeline_of({}, max_future="0 seconds"), EXACT_LIMIT),
    "too old": (lambda: pipeline_of({"n": "int"}, "reject", keep="90 days"), TOO_OLD),
    "long": (
        lambda: pipeline_of({}, zone="UTC", keep="999999999 days"),
        KEPT_LONGER_THAN_TIME,
    ),
    "for ever": (lambda: pipeline_of({}), KEPT_FOR_EVER),
    "required": (lambda: pipeline_of({"n": "int not null", "t": "string not null"}), REQUIRED),
    "reject": (lambda: pipeline_of({"t": "string"}, "reject"), REJECT),
    "ignore": (lambda: pipeline_of({"t": "string"}, "ignore"), IGNORE),
}
