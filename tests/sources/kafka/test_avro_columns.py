"""Avro values that are read column by column come to what they come to one by one."""

from __future__ import annotations

import io
import json
import math
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.running import clicks
from tests.sources.formats.test_typed_rows import TABLES
from tidemark.errors import InputNeeded
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.sources.kafka.avro_columns import typed_records
from tidemark.sources.kafka.messages import AsLines, as_lines
from tidemark.sources.kafka.offsets import OffsetRange
from tidemark.sources.kafka.slices import KafkaSlice
from tidemark.sources.kafka.values import schema_text
from tidemark.sources.kinds import row_origin
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

NOW_MS = 1_780_000_000_000
AT_MS = 1_778_000_000_000


def number(value: int, longer: int = 0) -> bytes:
    """A whole number as Avro has it, with so many bytes more than it needs."""
    left = (value << 1) ^ (value >> 127)
    found = []
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    for _ in range(longer):
        found[-1] |= 0x80
        found.append(0)
    return bytes(found)


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def nested(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda one: usual if one else odd)


def numbers(low: int, high: int) -> st.SearchStrategy[bytes]:
    odd = st.one_of(st.integers(low, high), st.sampled_from([low, high, 2**62, 2**40, -1]))
    return st.builds(number, mostly(st.integers(-300, 300), odd), mostly(st.just(0), st.just(3)))


TEXTS = st.one_of(
    st.text(max_size=6).map(str.encode),
    st.sampled_from(
        [b"", b"NA", b" NA ", b"\x00", b'a"b\\', "é\u2028".encode(), b"x" * 90, b"5", b"true"]
    ),
    st.sampled_from([b"2026-04-01T00:00:00Z", b"2026-02-30", b"2026-02-28", b"AA=="]),
)
ODD_TEXTS = st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "NA", "_b1"]}
LIST = {"type": "array", "items": "long"}
INT, LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
DAYS = st.one_of(st.integers(-800_000, 3_000_000), st.sampled_from([-719_162, 2_932_896, 0]))
MICROS = mostly(
    st.integers(AT_MS * 1_000, NOW_MS * 1_000),
    st.one_of(
        st.integers(*LONG),
        st.sampled_from([-62_135_596_800_000_000, 253_402_300_799_999_999, -1, 0]),
    ),
)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimals(size: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=size, scale=scale)


def whole(size: int) -> st.SearchStrategy[bytes]:
    """Digits of a decimal, in as many bytes as they need, or in more."""
    values = st.one_of(
        st.integers(-999, 999),
        mostly(st.integers(-(10**size), 10**size), st.sampled_from([-(2**63), 10**size])),
    )
    return st.builds(
        lambda value, more: text(
            value.to_bytes(value.bit_length() // 8 + 1 + more, "big", signed=True)
        ),
        values,
        mostly(st.integers(0, 1), st.just(9)),
    )


# By name: a field's type, and its bytes.
FIELDS: dict[str, tuple[Any, st.SearchStrategy[bytes]]] = {
    "string": ("string", TEXTS.map(text)),
    "odd string": ("string", mostly(TEXTS, ODD_TEXTS).map(text)),
    "java string": ({"type": "string", "avro.java.string": "String"}, TEXTS.map(text)),
    "uuid": (logical("string", "uuid"), TEXTS.map(text)),
    "bytes": ("bytes", st.binary(max_size=5).map(text)),
    "int": ("int", numbers(*INT)),
    "long": ("long", numbers(*LONG)),
    "float": (
        "float",
        mostly(st.floats(-9, 9, width=32), st.floats(width=32)).map(
            lambda one: struct.pack("<f", one)
        ),
    ),
    "double": (
        "double",
        mostly(st.floats(-9, 9), st.floats()).map(lambda one: struct.pack("<d", one)),
    ),
    "boolean": (
        "boolean",
        mostly(st.sampled_from([b"\0", b"\1"]), st.sampled_from([b"\2", b"\xff"])),
    ),
    "enum": (ENUM, mostly(st.integers(0, 2), st.sampled_from([-1, 3])).map(number)),
    "date": (logical("int", "date"), DAYS.map(number)),
    "millis": (logical("long", "timestamp-millis"), MICROS.map(lambda one: number(one // 1_000))),
    "micros": (logical("long", "timestamp-micros"), MICROS.map(number)),
    "decimal": (decimals(10, 2), whole(10)),
    "long decimal": (decimals(30, 3), whole(18)),
    "no decimal": (decimals(10, 2), st.binary(max_size=3).map(text)),
    # These are left to lines.
    "local": (logical("long", "local-timestamp-millis"), MICROS.map(number)),
    "nanos": (logical("long", "timestamp-nanos"), MICROS.map(lambda one: number(one // 9))),
    "time": (logical("int", "time-millis"), st.integers(0, 86_400_000).map(number)),
    "unknown": (logical("long", "years"), numbers(*LONG)),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, st.binary(min_size=2, max_size=2)),
    "list": (LIST, st.sampled_from([nested(LIST, []), nested(LIST, [1, 2])])),
    "null": ("null", st.just(b"")),
}
FAST = list(FIELDS)[:17]
DECLARED = {
    "string": ["string", "string", "timestamp", "date", "long"],
    "int": ["int", "long", "short", "double", "float", "decimal(10,2)", "string", "boolean"],
    "long": ["long", "int", "double", "decimal(5,0)", "decimal(20,0)", "timestamp"],
    "float": ["float", "double", "decimal(10,2)", "long"],
    "double": ["double", "float", "decimal(10,2)"],
    "boolean": ["boolean", "string"],
    "bytes": ["binary", "string"],
    "date": ["date", "string", "timestamp", "int"],
    "millis": ["timestamp", "string", "long"],
    "decimal": ["decimal(10,2)", "decimal(12,2)", "decimal(9,2)", "double", "long", "string"],
}
TYPES = sorted({one for some in DECLARED.values() for one in some})
# Of event times: the field's type, its bytes, and how the pipeline reads it.
ISO = st.integers(AT_MS, NOW_MS).map(
    lambda one: text(f"2026-04-{1 + one % 30:02}T10:00:00Z".encode())
)
EVENT_TIMES: list[tuple[Any, st.SearchStrategy[bytes], dict[str, Any]]] = [
    (*FIELDS["millis"], {}),
    (*FIELDS["micros"], {}),
    ("string", ISO, {}),
    ("string", ISO, {"zone": "Europe/Vienna"}),
    ("long", st.integers(AT_MS, NOW_MS).map(number), {"format": "epoch_millis"}),
    ("long", st.integers(*LONG).map(number), {"format": "epoch_seconds"}),
    (decimals(16, 3), st.integers(AT_MS, NOW_MS).map(lambda one: text(one.to_bytes(7, "big"))),
     {"format": "epoch_seconds"}),
    (*FIELDS["millis"], {"format": "epoch_millis"}),
]  # fmt: skip


@st.composite
def values_of(draw: st.DrawFn, kind: Any, own: st.SearchStrategy[bytes]) -> tuple[Any, Any]:
    """A type that may be null, and its bytes."""
    forms = st.sampled_from(["", "null first", "null last"])
    form = draw(mostly(forms, st.sampled_from(["other", "odd"])))
    if form == "" or kind == "null":
        return kind, own
    if form == "other":
        of_other = st.one_of(own.map(lambda one: number(1) + one), st.just(number(0)))
        return ["null", kind, LIST], of_other
    first = form != "null last"
    branches = [number(1 - first), own.map(lambda one: number(int(first)) + one)]
    found = st.one_of(st.just(branches[0]), branches[1], branches[1])
    if form == "odd":
        found = st.one_of(found, st.sampled_from([number(0, 1), number(-1), number(2), b""]))
    return (["null", kind] if first else [kind, "null"]), found


@st.composite
def schemas_of(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """The fields of a schema with their bytes, others of it, and what a pipeline declares."""
    usual = draw(st.booleans())
    kind, own, written = EVENT_TIMES[0] if usual else draw(st.sampled_from(EVENT_TIMES))
    if draw(st.integers(0, 5)) == 0:
        kind, own = draw(values_of(kind, own))
    fields: dict[str, Any] = {"at": (kind, own)}
    columns: dict[str, Any] = {"at": "timestamp"}
    for place in range(draw(st.integers(1, 4))):
        names = FAST if draw(st.integers(0, 20)) else list(FIELDS)
        name, field = draw(st.sampled_from(names)), f"c{place}"
        kind, own = FIELDS[name]
        kind = {**kind, "name": field} if "name" in kind else kind
        kind, own = draw(values_of(kind, own))
        fields[field] = (kind, own)
        like = name.split()[-1].replace("micros", "millis")
        declared = DECLARED.get(like, ["string"])
        usually = draw(st.integers(0, 9)) != 5
        entry: dict[str, Any] = {
            "type": declared[0] if usually else draw(st.sampled_from(declared))
        }
        if draw(st.integers(0, 30)) == 0:
            entry["type"] = draw(st.sampled_from(TYPES))
        if draw(st.integers(0, 5)) == 0:
            entry["type"] += " not null"
        if draw(st.integers(0, 20)) == 0:
            entry |= {"nulls": ["NA", "5"], "trim": draw(st.booleans())}
        if draw(st.integers(0, 15)) > 0:
            columns[field] = entry
    if draw(st.integers(0, 9)) == 0:
        columns["absent"] = "long"
    others = []
    for _ in range(draw(st.integers(0, 2))):
        other = dict(fields)
        left_out = draw(st.sampled_from(list(fields)))
        if draw(st.booleans()):
            del other[left_out]
        else:
            other[left_out] = FIELDS[draw(st.sampled_from(FAST))]
        others.append(other)
    source = {
        "kafka": {"topic": "t", "connection": "c"},
        "format": "avro",
        "columns": columns,
        "event_time": {"column": "at", **written},
        "unknown_fields": draw(st.sampled_from(["ignore", "keep", "ignore", "reject"])),
    }
    return source, [fields, *others], written


@dataclass(frozen=True)
class Case:
    """A pipeline's source, schemas by their ids, and messages: values with their headers."""

    source: dict[str, Any]
    schemas: dict[str, str | None]
    messages: list[tuple[bytes | None, Any]]


def record(fields: dict[str, Any]) -> dict[str, Any]:
    described = [{"name": name, "type": kind} for name, (kind, _) in fields.items()]
    return {"type": "record", "name": "R", "fields": described}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    source, forms, _ = draw(schemas_of())
    schemas: dict[str, str | None] = {"99": None, "98": schema_text("JSON", '{"a": 1}', {})}
    usable = []
    for place, fields in enumerate(forms, 2**32 - 3 if draw(st.booleans()) else 1):
        try:
            fastavro.parse_schema(record(fields))
        except fastavro.schema.SchemaParseException:
            # An enum or a fixed twice.
            continue
        schemas[str(place)] = schema_text("AVRO", json.dumps(record(fields)), {})
        usable.append((place, fields))
    messages: list[tuple[bytes | None, Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        if not usable or draw(st.integers(0, 40)) == 7:
            messages.append(
                (draw(st.sampled_from([None, b"", b"\0", b"{}", b"\0\0\0\0\x63\2"])), None)
            )
            continue
        place, fields = draw(st.sampled_from(usable))
        value = b"\0" + place.to_bytes(4, "big")
        value += b"".join(draw(own) for _, own in fields.values())
        headers: Any = None
        match draw(st.integers(0, 40)):
            case 7:
                value = value[: draw(st.integers(0, len(value)))]
            case 1:
                value += draw(st.binary(min_size=1, max_size=3))
            case 2:
                at = draw(st.integers(0, len(value) - 1))
                value = value[:at] + draw(st.binary(min_size=1, max_size=2)) + value[at + 1 :]
            case 3:
                value = value[:5] + draw(st.binary(max_size=30))
            case 4:
                headers = [("__value_schema_id", value[:5])]
                value = value[5:] if draw(st.booleans()) else value
            case 5:
                headers = [("h", b"\xff"), ("__key_schema_id", value[:5])]
            case 6:
                value = value[:4] + b"\x62" + value[5:]
        messages.append((value, headers))
    return Case(source, schemas, messages)


def message(place: int, value: bytes | None, headers: Any) -> Any:
    """As confluent-kafka's, at an offset of one of two partitions."""
    return SimpleNamespace(
        value=lambda: value,
        headers=lambda: headers,
        key=lambda: b"k",
        topic=lambda: "t",
        partition=lambda: place % 2,
        offset=lambda: place // 2,
    )


@dataclass(frozen=True)
class Given(KafkaSlice):
    """Messages that no broker has; `lines_only`: as if the kind had no types."""

    given: tuple[Any, ...] = ()
    lines_only: bool = False

    def messages(self) -> Iterator[Sequence[Any]]:
        yield from [self.given[:5], self.given[5:]] if len(self.given) > 5 else [self.given]

    def typed(self, most_bytes: int) -> Any:
        return None if self.lines_only else super().typed(most_bytes)


def slice_of(case: Case, most: int) -> tuple[Given, BatchRules]:
    content = clicks(source=case.source, tables=TABLES, keep="60 days")
    pipeline = pipeline_from_mapping("judged", content)
    given_ = tuple(message(n, *one) for n, one in enumerate(case.messages))
    # Of ids that nobody registered, the registry has none.
    missing = as_lines(pipeline, 5_000, case.schemas).needed(given_)
    lines = as_lines(pipeline, 5_000, {**dict.fromkeys(missing), **case.schemas})
    rules, origin = rules_of(pipeline), row_origin(pipeline)
    by = BatchRules(rules, origin, 0, NOW_MS, most, keeps_lines=False, by_line=False)
    return Given((OffsetRange("t", 0, 0, 9),), "c", {}, lines, given_), by


def judged(one: Given, by: BatchRules) -> Any:
    """Accepted rows by partition, in their order, and rejected ones in theirs."""
    found = judge_slices(by, [one], sys.maxsize)
    assert found is not None
    assert found.read == len(one.given) == sum(map(len, (*found.accepted, *found.rejected)))
    for table in found.accepted:
        table.validate(full=True)
    accepted, rejected = (
        [row for table in tables for row in table.to_pylist()]
        for tables in (found.accepted, found.rejected)
    )
    by_partition = [
        [repr(row) for row in accepted if row["_partition"] == number] for number in (0, 1)
    ]
    return by_partition, list(map(repr, rejected)), found.by_reason


def assert_same(case: Case, most: int = 10**7) -> Any:
    one, by = slice_of(case, most)
    fast = judged(one, by)
    lines = replace(one, lines_only=True)
    assert fast == judged(lines, by)
    assert fast == judged(one, replace(by, by_line=True))
    return fast


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=list(HealthCheck), deadline=None)
@given(case=cases(), most=mostly(st.just(10**7), st.integers(50, 3_000)))
def test_values_of_any_schema_are_judged_as_their_lines(case: Case, most: int) -> None:
    assert_same(case, most)


PLAIN: dict[str, Any] = {
    "kafka": {"topic": "t", "connection": "c"},
    "format": "avro",
    "columns": {"at": "timestamp", "v": "long"},
    "event_time": {"column": "at"},
}
AT = number(AT_MS)


def case_of(
    bodies: Sequence[bytes], declared: Any = "long", kind: Any = "long", at: Any = None, **more: Any
) -> Case:
    fields = {"at": (at or FIELDS["millis"][0], None), "v": (kind, None)}
    source = {**PLAIN, "columns": {"at": "timestamp", "v": declared}, **more}
    schemas: dict[str, str | None] = {"1": schema_text("AVRO", json.dumps(record(fields)), {})}
    return Case(source, schemas, [(b"\0\0\0\0\1" + body, None) for body in bodies])


@pytest.fixture
def lines_made(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that were made of values."""
    made: list[bytes] = []
    original = AsLines._line

    def counted(self: AsLines, one: Any, most: int) -> Any:
        made.append(one.value())
        return original(self, one, most)

    monkeypatch.setattr(AsLines, "_line", counted)
    return made


@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("int", number(-5), "int"),
        ("int", number(-5), "long"),
        ("long", number(2**59), "long"),
        ("long", number(5), "int"),
        ("long", number(5), "double"),
        (["null", "long"], number(0), "long"),
        (["string", "null"], number(0) + text("é".encode()), "string"),
        (FIELDS["java string"][0], text(b"a"), "string"),
        (FIELDS["uuid"][0], text(b"a"), "string"),
        ("string", text(b"2026-04-01T00:00:00Z"), "timestamp"),
        ("string", text(b"2026-04-01"), "date"),
        ("bytes", text(b"\xff"), "binary"),
        ("float", struct.pack("<f", 0.1), "float"),
        ("float", struct.pack("<f", 0.1), "double"),
        ("double", struct.pack("<d", 0.1), "double"),
        ("boolean", b"\1", "boolean"),
        (ENUM, number(2), "string"),
        (FIELDS["date"][0], number(20_000), "date"),
        (FIELDS["micros"][0], number(AT_MS * 1_000), "timestamp"),
        (decimals(10, 2), text(b"\xff\x38"), "decimal(10,2)"),
        (decimals(8, 2), text(b"\x05"), "decimal(10,2)"),
    ],
)
def test_lines_are_made_only_of_values_that_need_them(
    lines_made: list[bytes], kind: Any, value: bytes, declared: str
) -> None:
    bodies = [AT + value] * 20
    bodies[7] += b"\0"
    one, by = slice_of(case_of(bodies, declared, kind), 10**7)
    accepted, rejected, _ = judged(one, by)
    assert [len(rows) for rows in accepted] == [10, 9]
    assert "1 bytes lie behind" in rejected[0]
    assert len(lines_made) == 1
    assert_same(case_of(bodies, declared, kind))


@pytest.mark.parametrize(
    ("kind", "at", "event_time"),
    [
        ("string", text(b"2026-05-01T00:00:00Z"), {}),
        ("long", AT, {"format": "epoch_millis"}),
        ("int", number(AT_MS // 1_000), {"format": "epoch_seconds"}),
    ],
)
def test_event_times_need_no_lines(
    lines_made: list[bytes], kind: Any, at: bytes, event_time: dict[str, str]
) -> None:
    more = {"event_time": {"column": "at", **event_time}}
    one, by = slice_of(case_of([at + AT] * 3, at=kind, **more), 10**7)
    assert [len(rows) for rows in judged(one, by)[0]] == [2, 1]
    assert lines_made == []


def test_versions_of_a_schema_are_read_side_by_side(lines_made: list[bytes]) -> None:
    old = {"at": FIELDS["millis"], "v": ("long", None)}
    new = {**old, "w": (["null", "string"], None)}
    # In the third version a field is of another type.
    odd = {"at": FIELDS["millis"], "v": ("string", None)}
    versions = [
        (1, old, number(5)),
        (2, new, number(6) + number(1) + text(b"x")),
        (3, odd, text(b"5")),
    ]
    schemas: dict[str, str | None] = {
        str(place): schema_text("AVRO", json.dumps(record(fields)), {})
        for place, fields, _ in versions
    }
    messages: list[tuple[bytes | None, Any]] = [
        (bytes([0, 0, 0, 0, versions[n][0]]) + AT + versions[n][2], None)
        for n in [0, 1, 1, 0, 2, 1, 0, 1, 1, 0]
    ]
    columns = {"at": "timestamp", "v": "long", "w": "string"}
    case = Case({**PLAIN, "columns": columns}, schemas, messages)
    one, by = slice_of(case, 10**7)
    accepted, rejected, _ = judged(one, by)
    assert (len(lines_made), len(rejected)) == (1, 1)
    assert "'v': 5, 'w': None" in accepted[0][0]
    assert "'v': 6, 'w': 'x'" in accepted[0][1]
    assert_same(case)


def test_a_value_with_any_byte_changed_or_cut_off_is_judged_as_its_line() -> None:
    kind = ["null", "string"]
    body = AT + number(1) + text(b"abc")
    cut = [body[:place] for place in range(len(body))]
    changed = [
        body[:place] + bytes([byte]) + body[place + 1 :]
        for place in range(len(body))
        for byte in (0, 1, 2, 3, 0x7F, 0x80, 0xFF)
    ]
    for bodies in (cut, changed, *([one] for one in cut[-3:])):
        assert_same(case_of([*bodies, body], "string", kind))


@pytest.mark.parametrize(
    ("kind", "body", "declared"),
    [
        ("double", bytes(8), "double"),
        ("boolean", b"\1", "boolean"),
        ("string", text(b""), "string"),
        (decimals(10, 2), text(b"\5"), "decimal(10,2)"),
    ],
)
def test_the_last_value_of_all_is_read_to_its_end(kind: Any, body: bytes, declared: str) -> None:
    assert len(assert_same(case_of([AT + body], declared, kind))[0][0]) == 1


@pytest.mark.parametrize(
    ("kinds", "body"),
    [
        # Less than no bytes.
        (["string", "long"], number(-1) + number(5)),
        # A number that goes on behind 64 bits, whose rest could be the number of the text's bytes.
        (["long", "string"], b"\x80" * 9 + b"\x04" + text(b"x")),
        (["int", "string"], number(2**40) + text(b"x")),
        (["long", "string"], number(-(2**63)) + text(b"x")),
        # More than is there of all messages.
        (["string", "long"], number(2**62) + number(5)),
        (["string", "long"], number(2**31 - 1) + number(5)),
    ],
)
def test_numbers_that_no_writer_wrote_are_their_lines_to_judge(
    kinds: list[str], body: bytes
) -> None:
    names = {"long": number(5), "int": number(5), "string": text(b"a")}
    fields = {"v": (kinds[0], None), "w": (kinds[1], None), "at": FIELDS["millis"]}
    schemas: dict[str, str | None] = {"1": schema_text("AVRO", json.dumps(record(fields)), {})}
    columns = {name: {"int": "long"}.get(fields[name][0], fields[name][0]) for name in ("v", "w")}
    good = b"\0\0\0\0\1" + names[kinds[0]] + names[kinds[1]] + AT
    messages = [(good, None), (b"\0\0\0\0\1" + body + AT, None), (good, None)]
    assert_same(Case({**PLAIN, "columns": {**columns, "at": "timestamp"}}, schemas, messages))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("double", struct.pack("<d", 1), struct.pack("<d", math.nan)),
        ("float", struct.pack("<f", 1), struct.pack("<f", math.inf)),
        ("string", text(b"a"), text(b"\xff")),
        (FIELDS["millis"][0], AT, number(2**60)),
        (FIELDS["date"][0], number(0), number(2**30)),
        (ENUM, number(1), number(3)),
        (decimals(10, 2), text(b"\1"), text(b"")),
    ],
)
def test_what_no_column_takes_may_spoil_a_line_too(kind: Any, good: bytes, bad: bytes) -> None:
    case = case_of([AT + good, AT + bad], kind=kind, unknown_fields="ignore")
    case = replace(case, source={**case.source, "columns": {"at": "timestamp"}})
    accepted, rejected, _ = assert_same(case)
    assert (len(accepted[0]), len(rejected)) == (1, 0 if bad == text(b"") else 1)


def test_a_schema_of_another_kind_reads_nothing() -> None:
    case = case_of([AT + number(5)] * 3)
    fields = {"at": FIELDS["millis"], "v": ("long", None)}
    of_json = schema_text("JSON", json.dumps(record(fields)), {})
    _, rejected, _ = assert_same(replace(case, schemas={"1": of_json}))
    assert ["it is a schema of JSON" in one for one in rejected] == [True] * 3


def test_what_is_declared_of_the_message_stands_in_its_line() -> None:
    case = case_of([AT + number(5)] * 4)
    columns = {**case.source["columns"], "_key": "string"}
    accepted, _, _ = assert_same(replace(case, source={**case.source, "columns": columns}))
    assert ["'_key': 'k'" in row for row in accepted[0]] == [True, True]


def test_an_unknown_schema_is_asked_for_before_anything_else() -> None:
    case = case_of([AT + number(5)] * 3)
    one, by = slice_of(case, 10**7)
    values = replace(one.as_lines.values, schemas={})
    one = replace(one, as_lines=replace(one.as_lines, values=values))
    with pytest.raises(InputNeeded) as error:
        judge_slices(by, [one], sys.maxsize)
    assert error.value.args == InputNeeded(("1",)).args


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=5),
    kinds=st.lists(st.sampled_from([one for one in FAST if one != "enum"]), max_size=6),
)
def test_no_bytes_lead_out_of_a_value(values: list[Any], kinds: list[str]) -> None:
    fields = {f"c{place}": FIELDS[kind] for place, kind in enumerate(kinds)}
    schema = schema_text("AVRO", json.dumps(record(fields)), {})
    prefixed = [one and b"\0\0\0\0\1" + one for one in values]
    rows, sure = typed_records(prefixed, {"1": schema}, 10**6)
    assert len(sure) == len(values)
    rows.validate(full=True)
    for n in sure.nonzero()[0].tolist():
        parsed = fastavro.parse_schema(record(fields))
        fastavro.schemaless_reader(io.BytesIO(values[n]), parsed, None)
