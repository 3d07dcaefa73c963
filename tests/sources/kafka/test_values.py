"""What the values of messages come to, without a broker; and what a schema registry is asked."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import fastavro
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.registry import Registry, started_registry
from tests.kit.running import Place, clicks
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import NoteUnreadable, SettingsInvalid, SourceRefused, SourceUnavailable
from tidemark.pipeline.settings.connections import Connection, RegistryConnection, registry_of
from tidemark.sources.kafka import registry as asking
from tidemark.sources.kafka.handle import KafkaSourceHandle
from tidemark.sources.kafka.offsets import TopicOffset, offset_text
from tidemark.sources.kafka.registry import KeptSchemas, asked_for, keep_schemas, kept_schemas
from tidemark.sources.kafka.slices import KafkaSlice
from tidemark.sources.kafka.values import MessageValues, ValueUnusable, schema_text
from tidemark.sources.source import Reading

ADDRESS = {
    "type": "record",
    "name": "com.acme.Address",
    "fields": [{"name": "city", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "com.acme.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "home", "type": ["null", "com.acme.Address"]},
        {"name": "work", "type": "com.acme.Address"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
    ],
}
PLAIN = {
    "type": "record",
    "name": "Plain",
    "fields": [
        {"name": "s", "type": "string"},
        {"name": "n", "type": ["null", "long"]},
        {"name": "x", "type": "double"},
        {"name": "l", "type": {"type": "array", "items": "int"}},
    ],
}


def written(number: int, schema: Any, value: Any, *references: Any) -> bytes:
    """A value as the serializer of a schema registry writes it."""
    named: dict[str, Any] = {}
    for one in references:
        fastavro.parse_schema(one, named_schemas=named)
    out = io.BytesIO()
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    fastavro.schemaless_writer(out, parsed, value)
    return struct.pack(">bI", 0, number) + out.getvalue()


def avro(**schemas: Any) -> MessageValues:
    texts = {
        name[1:]: None if one is None else schema_text("AVRO", json.dumps(one), {})
        for name, one in schemas.items()
    }
    return MessageValues("avro", texts)


@given(
    st.fixed_dictionaries(
        {
            "s": st.text(),
            "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            "x": st.floats(allow_nan=False, allow_infinity=False),
            "l": st.lists(st.integers(-(2**31), 2**31 - 1)),
        }
    )
)
def test_a_record_is_the_line_with_its_values(value: dict[str, Any]) -> None:
    line = avro(_7=PLAIN).line(written(7, PLAIN, value))
    assert json.loads(line) == value


def test_a_schema_may_refer_to_others() -> None:
    at = datetime(2026, 7, 1, 10, tzinfo=UTC)
    home, work = {"city": "Graz"}, {"city": "Wien"}
    order = {"id": 5, "home": home, "work": work, "at": at, "amount": Decimal("1.50")}
    text = schema_text("AVRO", json.dumps(ORDER), {"com.acme.Address": json.dumps(ADDRESS)})
    line = MessageValues("avro", {"1": text}).line(written(1, ORDER, order, ADDRESS))
    assert line.decode() == (
        '{"id": 5, "home": {"city": "Graz"}, "work": {"city": "Wien"}, '
        '"at": "2026-07-01T10:00:00Z", "amount": 1.50}'
    )


def why_not(values: MessageValues, value: bytes) -> str:
    with pytest.raises(ValueUnusable) as error:
        values.line(value)
    return str(error.value)


def test_a_value_that_is_cut_anywhere_or_goes_on_is_none() -> None:
    value = written(7, PLAIN, {"s": "abc", "n": 5, "x": 1.5, "l": [1, 2]})
    values = avro(_7=PLAIN)
    for cut in range(len(value)):
        assert why_not(values, value[:cut])
    assert "1 bytes lie behind" in why_not(values, value + b"\0")
    flag = {"type": "record", "name": "Flag", "fields": [{"name": "b", "type": "boolean"}]}
    without = why_not(avro(_1=flag), b"\0\0\0\0\1")
    assert without == "It is no record of schema 1 (cannot read boolean)"
    assert "begins with 7b 7d" in why_not(values, b"{}")
    assert "begins with nothing" in why_not(values, b"")


def test_a_schema_that_reads_no_record_says_so() -> None:
    holds_itself = {
        "type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}],
    }  # fmt: skip
    values = avro(_1=None, _2=holds_itself, _3={"type": "nonsense"})
    texts = {**values.schemas, "4": schema_text("PROTOBUF", "syntax", {})}
    values = MessageValues("avro", texts)
    body = b"\x02\x00"
    assert why_not(values, struct.pack(">bI", 0, 1) + body) == (
        "The schema registry has no schema of the id 1"
    )
    assert "recursive" in why_not(values, struct.pack(">bI", 0, 2) + body)
    assert "no record of schema 3" in why_not(values, struct.pack(">bI", 0, 3) + body)
    assert "a schema of PROTOBUF" in why_not(values, struct.pack(">bI", 0, 4) + body)


def test_text_and_json_schema_need_no_registry() -> None:
    assert MessageValues("text").line('a "b" é\n'.encode()) == b'{"value": "a \\"b\\" \xc3\xa9\\n"}'
    assert "not UTF-8" in why_not(MessageValues("text"), b"\xff")
    values = MessageValues("json_schema")
    assert values.line(b"\0\0\0\0\x07" + b'{"a": 1}') == b'{"a": 1}'
    assert "schema registry's serializers" in why_not(values, b'{"a": 1}')


def test_a_header_names_the_schema_as_a_registrys_serializer_writes_it(registry: Registry) -> None:
    row = {"s": "abc", "n": 5, "x": 1.5, "l": [1, 2]}
    number = registry.add("plain", PLAIN)
    guid = str(UUID(int=number))
    body = written(number, PLAIN, row)[5:]
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("plain", MessageField.VALUE, headers)
    assert header_schema_id_serializer(body, context, SchemaId("AVRO", number, guid)) == body
    message: Any = SimpleNamespace(value=lambda: body, headers=lambda: headers)
    values = MessageValues("avro")
    assert values.needed([message]) == {guid}
    values = MessageValues("avro", asked(registry, guid, str(UUID(int=9))))
    assert json.loads(values.line(body, values.header(message))) == row
    assert registry.asked == [f"/schemas/guids/{guid}", f"/schemas/guids/{UUID(int=9)}"]
    with pytest.raises(ValueUnusable, match=r"no schema of the id 0{8}-.*9"):
        values.line(body, b"\x01" + UUID(int=9).bytes)
    with pytest.raises(ValueUnusable, match=r"schema's header of the value begins with 01 02, "):
        values.line(body, b"\x01\x02")
    # A header of the first form, and JSON without a prefix.
    values = MessageValues("avro", {str(number): values.schemas[guid]})
    assert json.loads(values.line(body, struct.pack(">bI", 0, number))) == row
    assert MessageValues("json_schema").line(b'{"a": 1}', headers[0][1]) == b'{"a": 1}'


def test_the_place_of_a_message_of_protobuf_stands_in_the_header() -> None:
    schema = 'syntax = "proto3"; message Other { } message Click { string key = 1; }'
    text, guid = schema_text("PROTOBUF", schema, {}), UUID(int=7)
    header = SchemaId("PROTOBUF", 7, str(guid), [1]).guid_to_bytes()
    values = MessageValues("protobuf", {str(guid): text})
    assert values.line(b"\x0a\x01k", header) == b'{"key": "k"}'


@pytest.mark.parametrize(
    ("form", "key", "line"),
    [
        ("json", b' {"id": 5} ', b' {"id": 5} '),
        ("json", b"5", b"5"),
        ("json_schema", b'\0\0\0\0\x07"k"', b'"k"'),
        ("avro", written(7, "string", "k"), b'"k"'),
        ("avro", written(7, "string", "k")[5:], None),
        ("json", b'1, "amount": 5', None),
        ("json", b"", None),
        ("json", b"k", None),
        ("json_schema", b'\0\0\0\0\x071, "amount": 5', None),
    ],
)
def test_a_key_is_one_value_of_json(form: Any, key: bytes, line: bytes | None) -> None:
    texts = {"7": schema_text("AVRO", '"string"', {})}
    keys = MessageValues(form, texts, "key")
    if line is not None:
        assert keys.line(key) == line
    else:
        assert re.search("[Tt]he key", why_not(keys, key))


@pytest.fixture
def registry() -> Iterator[Registry]:
    with started_registry() as found:
        yield found


def asked(registry: Registry, *ids: int | str, **more: Any) -> dict[str, str | None]:
    connection = RegistryConnection(url=registry.url, **more)
    return asked_for(connection, "events", [str(one) for one in ids])


def test_a_registry_is_asked_for_a_schema_and_for_what_it_refers_to(registry: Registry) -> None:
    city = {"type": "enum", "name": "City", "namespace": "com.acme", "symbols": ["Graz", "Wien"]}
    field = {"name": "city", "type": "com.acme.City"}
    address = {**ADDRESS, "fields": [field]}
    registry.add("city", city)
    of_city = {"name": "com.acme.City", "subject": "city", "version": 1}
    registry.add("of/addresses", address, [of_city])
    of_address = {"name": "com.acme.Address", "subject": "of/addresses", "version": 1}
    number = registry.add("orders-value", ORDER, [of_address])
    found = asked(registry, number, 99)
    named = {"com.acme.City": json.dumps(city), "com.acme.Address": json.dumps(address)}
    assert found == {"3": schema_text("AVRO", json.dumps(ORDER), named), "99": None}
    assert registry.asked == [
        "/schemas/ids/3",
        "/subjects/of%2Faddresses/versions/1",
        "/subjects/city/versions/1",
        "/schemas/ids/99",
    ]
    at = datetime(2026, 7, 1, 10, tzinfo=UTC)
    order = {"id": 5, "home": None, "work": {"city": "Wien"}, "at": at, "amount": Decimal("1.5")}
    value = written(number, ORDER, order, city, address)
    assert json.loads(MessageValues("avro", found).line(value))["work"] == {"city": "Wien"}


def test_a_registry_asks_for_a_login(registry: Registry) -> None:
    registry.login = "reader:secret:with colon"
    number = registry.add("a", PLAIN)
    assert asked(registry, number, user="reader", password="secret:with colon")[str(number)]
    with pytest.raises(SourceRefused, match="does not let us in: 401") as error:
        asked(registry, number, user="reader", password="wrong one")
    assert "wrong one" not in str(error.value)


@pytest.mark.parametrize(
    "answers",
    [
        (500, {"error_code": 50001, "message": "store"}),
        (404, b"<html>no such page</html>"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        (200, b"no JSON"),
        (200, {"no": "schema"}),
    ],
)
def test_an_answer_that_tells_of_no_schema_is_no_verdict_on_messages(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, answers: tuple[int, Any]
) -> None:
    monkeypatch.setattr(asking, "_TRIES_AGAIN", 0)
    registry.answers = answers
    with pytest.raises(SourceUnavailable, match="cannot be asked"):
        asked(registry, 1)


def test_a_registry_that_is_away_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_TRIES_AGAIN", 0)
    with started_registry() as registry:
        pass
    with pytest.raises(SourceUnavailable, match="cannot be asked"):
        asked(registry, 1)


def test_schemas_are_kept_and_a_missing_one_for_its_batch(tmp_path: Path) -> None:
    ingest = Checkpoint(str(tmp_path / "ingest"), {})
    assert kept_schemas(ingest, "a") == KeptSchemas(of="a")
    missing = {"2": 1_000, "3": 2_000}
    keep_schemas(ingest, KeptSchemas(of="a", schemas={"1": "one"}, missing=missing))
    kept = kept_schemas(ingest, "a")
    assert kept.of_batch(1_000) == {"1": "one", "2": None}
    assert kept.of_batch(3_000) == {"1": "one"}
    assert kept_schemas(ingest, "b").of_batch(1_000) == {"2": None}
    Path(f"{ingest.uri}.schemas.json").write_text("{")
    with pytest.raises(NoteUnreadable, match="is asked again"):
        kept_schemas(ingest, "a")


def test_of_schemas_of_a_former_version_it_is_not_known_whose_they_are(tmp_path: Path) -> None:
    """They are asked for once more; a batch that is repeated misses what it missed."""
    ingest = Checkpoint(str(tmp_path / "ingest"), {})
    text = '{"version": 1, "schemas": {"1": "one"}, "missing": {"2": 1000}}'
    Path(f"{ingest.uri}.schemas.json").write_text(text)
    kept = kept_schemas(ingest, "a")
    assert kept == KeptSchemas(of="a", missing={"2": 1000})
    assert kept.of_batch(1_000) == {"2": None}


def test_schemas_of_another_registry_are_asked_for(tmp_path: Path, registry: Registry) -> None:
    """Its ids begin at 1 again: at another address, or in the place of a cluster that is gone."""
    one, other = (plain("amount", "tax"), plain("tax", "amount"))
    row = {"amount": 100.0, "tax": 20.0}
    number = registry.add("orders-value", one)
    ingest = Checkpoint(str(tmp_path / "ingest"), {})
    handle = handle_of(tmp_path, registry)
    plan_batch(ingest, 0, "first")
    plan_batch(ingest, 1, "first")
    for batch in (0, 1, 0):
        assert judged(handle, ingest, batch, written(number, one, row)) == row
    assert len(registry.asked) == 1
    # The cluster is made anew, with its registry, at the same addresses.
    registry.schemas.clear()
    assert registry.add("orders-value", other) == number
    plan_batch(ingest, 2, "second")
    assert judged(handle, ingest, 2, written(number, other, row)) == row
    assert len(registry.asked) == 2
    # The pipeline's file names another connection, and the former one again.
    with started_registry() as another:
        assert another.add("orders-value", one) == number
        moved = handle_of(tmp_path, another)
        assert judged(moved, ingest, 2, written(number, one, row)) == row
        assert len(another.asked) == 1
    assert judged(handle, ingest, 2, written(number, other, row)) == row


def plain(*names: str) -> dict[str, Any]:
    fields = [{"name": name, "type": "double"} for name in names]
    return {"type": "record", "name": "Order", "fields": fields}


def handle_of(root: Path, registry: Registry) -> KafkaSourceHandle:
    source = {
        "kafka": {"topic": "t", "connection": "events"},
        "format": "avro",
        "columns": {"amount": "double", "tax": "double", "_kafka_time": "timestamp not null"},
        "event_time": {"column": "_kafka_time"},
    }
    reached: dict[str, Any] = {"servers": "a:1", "security_protocol": "PLAINTEXT"}
    reached["schema_registry"] = {"url": registry.url}
    tables = {"per_hour": {"window": {"length": "1 hour"}, "measures": {"n": "count(*)"}}}
    place = Place(root, clicks(source=source, tables=tables), connections={"events": reached})
    return KafkaSourceHandle(place.pipeline, place.settings)


def plan_batch(ingest: Checkpoint, batch: int, topic: str) -> None:
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": batch + 1, "conf": {}})
    file = Path(ingest.uri, "offsets", str(batch))
    file.parent.mkdir(parents=True, exist_ok=True)
    offset = offset_text({"t": TopicOffset(topic, {0: batch}, {0: batch + 1})})
    file.write_text(f"v1\n{head}\n{offset}")


def judged(handle: KafkaSourceHandle, ingest: Checkpoint, batch: int, value: bytes) -> Any:
    """The line of a message with this value, which a batch reads."""
    message: Any = SimpleNamespace(
        value=lambda: value, key=lambda: None, headers=lambda: None, topic=lambda: "t",
        partition=lambda: 0, offset=lambda: batch, timestamp=lambda: (1, 0),
    )  # fmt: skip
    while True:
        (one,) = handle.slices(ingest, batch, Reading((f"t/0/{batch}-{batch}",), (), {}))
        assert isinstance(one, KafkaSlice)
        if not (needed := one.as_lines.needed([message])):
            break
        handle.provide(ingest, batch, sorted(needed))
    (line,) = one.as_lines.table([message], 10**6).column("_as_read").to_pylist()
    return {name: value for name, value in json.loads(line).items() if name != "_kafka_time"}


def test_a_connection_without_a_registry_says_how_to_name_one() -> None:
    plain = {"servers": "a:1", "security_protocol": "PLAINTEXT"}
    with pytest.raises(SettingsInvalid, match=r"schema_registry: \{url: https://host:8081\}"):
        registry_of({"events": Connection.model_validate(plain)}, "events")
    held = {**plain, "schema_registry": {"url": "https://a:1", "user": "u"}}
    with pytest.raises(
        SettingsInvalid, match="TIDEMARK_CONNECTIONS__EVENTS__SCHEMA_REGISTRY__PASSWORD"
    ):
        registry_of({"events": Connection.model_validate(held)}, "events")
