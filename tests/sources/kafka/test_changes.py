"""Which message of a key counts, and which row an event of Debezium is."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.running import clicks
from tests.sources.kafka.test_values import written
from tidemark.errors import InputNeeded, PipelineInvalid, SourceRefused
from tidemark.judge.json_text import LineReader
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import KafkaSource, ValueFormat
from tidemark.pipeline.row_key import key_text
from tidemark.sources.kafka.changes import Form, RowKeys, newest_messages
from tidemark.sources.kafka.offsets import OffsetRange, TopicOffset, offset_text
from tidemark.sources.kafka.planning import followed_offset, is_read
from tidemark.sources.kafka.values import MessageValues, ValueUnusable, schema_text
from tidemark.sources.notes import FollowedOffsets
from tidemark.sources.planned_source import Position


def row_keys(form: Form, *paths: tuple[str, ...], keys: ValueFormat = "text") -> RowKeys:
    return RowKeys(form, paths, MessageValues("json"), MessageValues(keys, of="key"))


UPSERT, DEBEZIUM = row_keys("upsert", ()), row_keys("debezium", ("id",))


def message(offset: int, key: Any, value: Any, partition: int = 0) -> Any:
    as_bytes = [None if one is None else str(one).encode() for one in (key, value)]
    return SimpleNamespace(
        topic=lambda: "t",
        partition=lambda: partition,
        offset=lambda: offset,
        headers=lambda: None,
        key=lambda: as_bytes[0],
        value=lambda: as_bytes[1],
    )


def event(op: str, after: Any) -> str:
    return json.dumps({"before": None, "after": after, "op": op})


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), max_size=12),
    st.lists(st.integers(1, 4), max_size=4),
)
def test_of_each_key_the_last_message_counts_however_they_are_read(
    said: list[tuple[str | None, bool]], sizes: list[int]
) -> None:
    messages = [
        message(7 + number * 2, key, None if deletes else "{}")
        for number, (key, deletes) in enumerate(said)
    ]
    left, pieces = messages, []
    for size in [*sizes, len(messages)]:
        pieces.append(left[:size])
        left = left[size:]
    found = newest_messages(pieces, UPSERT, with_keys=True)
    last = {key: number for number, (key, _) in enumerate(said) if key is not None}
    for number, (key, deletes) in enumerate(said):
        verdict = found.verdict(0, 7 + number * 2)
        if key is None:
            assert verdict is not None
            assert verdict[0] == "no row key"
        elif last[key] != number:
            assert verdict is not None
            assert verdict[0] == "superseded"
            assert f"offset {7 + last[key] * 2} " in verdict[1]
        elif deletes:
            assert verdict is not None
            assert verdict[0] == "row deleted"
        else:
            assert verdict is None
    assert found.keys == {key: (0, said[number][1]) for key, number in last.items()}
    assert found.verdict(1, 7) is None
    middle = OffsetRange("t", 0, 11, 15)
    for offset in range(7, 7 + 2 * len(said), 2):
        expected = found.verdict(0, offset) if 11 <= offset <= 15 else None
        assert found.only([middle]).verdict(0, offset) == expected
    assert not found.only([OffsetRange("t", 1, 0, 99)]).others


def test_messages_of_a_key_in_two_partitions_are_refused() -> None:
    messages = [message(1, "k", "{}"), message(1, None, "{}", 1), message(2, None, "{}")]
    assert newest_messages([messages], UPSERT, with_keys=True).keys == {"k": (0, False)}
    with pytest.raises(SourceRefused, match=r"several partitions \(k\)"):
        newest_messages([[*messages, message(5, "k", "{}", 1)]], UPSERT)


@pytest.mark.parametrize("form", ["debezium", "upsert"])
def test_messages_whose_keys_tell_more_than_the_row_s_key_are_refused_where_they_differ(
    form: Form,
) -> None:
    keys = row_keys(form, ("id",) if form == "debezium" else ("_key", "id"), keys="json")

    def of_shop(offset: int, key: dict[str, Any], deletes: bool = False) -> Any:
        row = {"id": 7, "shop": offset}
        written = event("c", row) if form == "debezium" else json.dumps(row)
        return message(offset, json.dumps(key), None if deletes else written)

    first = of_shop(0, {"shop": {"name": "a"}, "id": 7})
    # The order of fields says nothing, nor does a key that tells less.
    same = [first, of_shop(1, {"id": 7, "shop": {"name": "a"}}, True), of_shop(2, {"id": 7})]
    assert newest_messages([same], keys, with_keys=True).keys == {"7": (0, False)}
    for deletes in (False, True):
        other = of_shop(3, {"shop": {"name": "b"}, "id": 7}, deletes)
        with pytest.raises(SourceRefused, match=r"other fields than .*\(7\)"):
            newest_messages([[first], [other]], keys)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ('{"id": 7}', event("c", {"id": 7}), ("7", False)),
        ('{"id": "7"}', event("u", {"id": "7"}), ("7", False)),
        ('{"schema": {}, "payload": {"id": 7}}',
         '{"schema": {}, "payload": {"op": "r", "after": {"id": 7}}}', ("7", False)),
        ('{"id": 7}', event("d", None), ("7", True)),
        ('{"id": 7}', None, ("7", True)),
        ('{"id": -0}', event("c", {"id": 0}), ("0", False)),
        # What is no event takes the place of the row of before, and is a reject.
        ('{"id": 7}', "not JSON", ("7", False)),
        ('{"id": 7}', event("m", None), ("7", False)),
        # Which row it is cannot be told.
        ('{"id": 7}', event("c", {"id": 8}), (None, False)),
        ('{"id": 7}', event("c", {"other": 8}), (None, False)),
        ('{"ID": 7}', event("d", None), (None, True)),
        ("7", event("d", None), (None, True)),
        ('{"id": 7.5}', event("d", None), (None, True)),
        ('{"id": null}', event("d", None), (None, True)),
        (None, event("d", None), (None, True)),
        ("Struct{id=7}", event("d", None), (None, True)),
    ],
)  # fmt: skip
def test_the_row_of_an_event_is_told_by_its_key(
    key: str | None, value: str | None, expected: tuple[str | None, bool]
) -> None:
    assert DEBEZIUM.change(message(3, key, value), LineReader())[:3] == (*expected, None)


@pytest.mark.parametrize(
    ("key", "after", "expected"),
    [
        ({"id": 7, "land": "DE"}, {"id": 7, "land": "DE"}, "DE,7"),
        ({"id": 7, "land": "a,~"}, {"id": 7, "land": "a,~"}, "a~,~~,7"),
        ({"land": "DE", "id": "7", "more": 1}, {"land": "DE", "id": 7}, "DE,7"),
        ({"id": 7}, {"id": 7, "land": "DE"}, None),
        ({"id": 7, "land": None}, {"id": 7, "land": None}, None),
        ({"id": 7, "land": "DE"}, {"id": 7, "land": "AT"}, None),
    ],
)
def test_of_a_key_of_several_fields_each_tells_the_row(
    key: Any, after: Any, expected: str | None
) -> None:
    keys = row_keys("debezium", ("land",), ("id",))
    written = message(3, json.dumps(key), event("u", after))
    assert keys.change(written, LineReader())[:3] == (expected, False, None)
    removed = expected or (None if len(key) < 2 or key["land"] is None else "DE,7")
    assert keys.change(message(3, json.dumps(key), None), LineReader())[:3] == (removed, True, None)


ROW = {
    "type": "record", "name": "Value", "namespace": "shop.orders",
    "fields": [{"name": "id", "type": "long"}, {"name": "land", "type": "string"}],
}  # fmt: skip
KEY = {**ROW, "name": "Key"}
EVENT = {
    "type": "record", "name": "Envelope", "namespace": "shop.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}  # fmt: skip


def as_avro(key: Any, value: Any) -> Any:
    """A message of Debezium's as Confluent's converter writes it: schema 1 of keys, 2 of values."""
    found = message(3, None, None)
    found.key = lambda: None if key is None else written(1, KEY, key)
    found.value = lambda: None if value is None else written(2, EVENT, value)
    return found


def of_avro(schemas: dict[str, Any]) -> RowKeys:
    columns = {"id": "long not null", "land": "string not null"}
    formats = {"format": "avro", "key_format": "avro"}
    kafka = {"changes": "debezium", "key": ["land", "id"]}
    texts = {one: schema_text("AVRO", json.dumps(schema), {}) for one, schema in schemas.items()}
    found = RowKeys.of(source(kafka, columns=columns, **formats), texts)
    assert found is not None
    return found


@given(
    st.sampled_from("cdru"),
    st.tuples(st.integers(-9, 9), st.text("a,~é", max_size=3)),
    st.none() | st.tuples(st.integers(-9, 9), st.text("a,~é", max_size=3)),
)
def test_events_of_avro_say_what_events_of_json_say(
    op: str, key: tuple[int, str], after: tuple[int, str] | None
) -> None:
    names = ("id", "land")
    own = dict(zip(names, key, strict=True))
    state = None if after is None else dict(zip(names, after, strict=True))
    keys, lines = of_avro({"1": KEY, "2": EVENT}), LineReader()
    of_json = row_keys("debezium", ("land",), ("id",))
    for same in (state, own):
        said = {"before": None, "after": same, "op": op}
        expected = of_json.change(message(3, json.dumps(own), event(op, same)), lines)[:3]
        assert keys.change(as_avro(own, said), lines)[:3] == expected
    assert keys.change(as_avro(own, None), lines)[:3] == (
        key_text([key[1], str(key[0])]),
        True,
        None,
    )


def test_schemas_that_events_name_are_asked_for_and_what_is_no_record_names_no_row() -> None:
    own = {"id": 7, "land": "DE"}
    one = as_avro(own, {"after": own, "op": "c"})
    with pytest.raises(InputNeeded) as needed:
        newest_messages([[one]], of_avro({"2": EVENT}))
    assert needed.value.needed == ("1",)
    keys = of_avro({"1": KEY, "2": EVENT})
    assert newest_messages([[one]], keys, with_keys=True).keys == {"DE,7": (0, False)}
    cut_off = one.key()[:-1]
    one.key = lambda: cut_off
    assert keys.change(one, LineReader())[:3] == (None, False, None)
    one.key = lambda: b"text"
    assert keys.change(one, LineReader())[:3] == (None, False, None)


def test_a_table_that_was_emptied_is_refused() -> None:
    with pytest.raises(SourceRefused, match=r"offset 3, says that the table was emptied"):
        DEBEZIUM.change(message(3, None, event("t", None)), LineReader())


PLACEHOLDER = "__debezium_unavailable_value"
OF_ITS_BYTES = base64.b64encode(PLACEHOLDER.encode()).decode()
# Of PostGIS's types and of points: places that nobody is at.
GEOMETRY = "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ=="
GEOGRAPHY = "AQEAACDmEAAADCHn/f9/ZkAYQs77/39WQA=="
NOWHERE = {"x": -99999999.0, "y": -99999999.0, "wkb": None, "srid": None}


@pytest.mark.parametrize(
    "value",
    [
        PLACEHOLDER, OF_ITS_BYTES, PLACEHOLDER.encode().hex(), [PLACEHOLDER], [OF_ITS_BYTES],
        [*PLACEHOLDER.encode()], {PLACEHOLDER: PLACEHOLDER}, {"within": [{"it": PLACEHOLDER}]},
        f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}', ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
        {"wkb": GEOMETRY, "srid": 4326}, {"wkb": GEOGRAPHY, "srid": 4326}, NOWHERE,
        {"wkb": base64.b64decode(GEOMETRY).hex()}, base64.b64decode(GEOGRAPHY).hex(),
        [float(byte) for byte in PLACEHOLDER.encode()],
    ],
)  # fmt: skip
def test_a_value_that_the_database_did_not_tell_is_no_value_of_the_row(value: Any) -> None:
    one = message(3, '{"id": 7}', event("u", {"id": 7, "large": value, "more": 1}))
    told = message(4, '{"id": 8}', event("u", {"id": 8, "large": "as it is", "more": [95, 95]}))
    assert newest_messages([[told]], DEBEZIUM, with_keys=True).keys == {"8": (0, False)}
    with pytest.raises(SourceRefused) as refused:
        newest_messages([[told], [one]], DEBEZIUM)
    said = str(refused.value)
    assert "partition 0, offset 3, does not tell its row's value of `large`" in said
    assert "Nothing was read. Set REPLICA IDENTITY FULL" in said


def test_a_point_that_was_not_told_is_known_as_java_writes_its_coordinates() -> None:
    after = '{"id":7,"at":{"x":%s,"y":-9.9999999E7}}'
    for x, lacks in (
        ("-9.9999999E7", "at"),
        ("-9.9E7", None),
        ("null", None),
        ('"-99999999"', None),
    ):
        said = f'{{"op":"u","after":{after % x}}}'
        assert DEBEZIUM.change(message(3, '{"id":7}', said), LineReader())[:3] == (
            "7",
            False,
            lacks,
        )


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("bytes", PLACEHOLDER.encode(), b"as it is"),
        ({"type": "array", "items": "bytes"}, [PLACEHOLDER.encode()], [b"as it is"]),
        ({"type": "array", "items": {"type": "int", "logicalType": "date"}},
         [*PLACEHOLDER.encode()], [95, 95]),
        ({"type": "array", "items": "double"}, [*PLACEHOLDER.encode()], [95.0, 95.0]),
        ({"type": "map", "values": "string"}, {PLACEHOLDER: PLACEHOLDER}, {"it": "is told"}),
        ({"type": "record", "name": "Geometry", "fields": [
            {"name": "wkb", "type": "bytes"}, {"name": "srid", "type": ["null", "int"]}]},
         {"wkb": base64.b64decode(GEOMETRY), "srid": 4326}, {"wkb": b"\x01", "srid": 4326}),
        ({"type": "record", "name": "Point", "fields": [
            {"name": "x", "type": "double"}, {"name": "y", "type": "double"}]},
         NOWHERE, {"x": -99999999.0, "y": 48.2}),
    ],
)  # fmt: skip
def test_what_was_not_told_is_known_in_records_of_avro_too(
    kind: Any, value: Any, told: Any
) -> None:
    row = {**ROW, "fields": [*ROW["fields"], {"name": "large", "type": ["null", kind]}]}
    # A decimal beside it, which has no form of Python's in JSON.
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    row["fields"] += [{"name": "price", "type": price}]
    before, *others = EVENT["fields"]
    schema = {**EVENT, "fields": [{**before, "type": ["null", row]}, *others]}
    texts = {
        one: schema_text("AVRO", json.dumps(it), {}) for one, it in (("1", KEY), ("2", schema))
    }
    keys = RowKeys(
        "debezium",
        (("id",),),
        MessageValues("avro", texts),
        MessageValues("avro", texts, "key"),
    )
    for one, lacks in ((value, "large"), (told, None), (None, None)):
        own = {"id": 7, "land": "DE"}
        after = own | {"large": one, "price": Decimal("9.90")}
        said = as_avro(own, None)
        event_of_avro = written(2, schema, {"after": after, "op": "u"})
        said.value = lambda data=event_of_avro: data
        assert keys.change(said, LineReader())[:3] == ("7", False, lacks)


def test_a_value_that_was_not_told_does_no_harm_where_a_newer_message_has_the_whole_row() -> None:
    lacking = event("u", {"id": 7, "large": PLACEHOLDER})
    messages = [message(3, '{"id": 7}', lacking)]
    for whole in (event("u", {"id": 7, "large": "x"}), event("d", None), None):
        newest_messages([[*messages, message(4, '{"id": 7}', whole)]], DEBEZIUM)
    with pytest.raises(SourceRefused, match="offset 5"):
        newest_messages([[*messages, message(5, '{"id": 7}', lacking)]], DEBEZIUM)


def test_a_value_that_was_not_told_does_no_harm_where_bronze_does_not_take_its_field() -> None:
    kafka, columns = {"changes": "debezium", "key": "id"}, {"id": "long not null"}
    for unknown, takes in (("keep", True), ("ignore", False)):
        keys = RowKeys.of(source(kafka, columns=columns, unknown_fields=unknown))
        assert keys is not None
        for field, is_taken in (("large", takes), ("key", True)):
            said = message(3, '{"id": 7}', event("u", {"id": 7, field: PLACEHOLDER}))
            lacks = field if is_taken else None
            assert keys.change(said, LineReader())[:3] == ("7", False, lacks)


def test_the_row_of_an_event_is_as_exact_as_the_event() -> None:
    after = '{"id":7,"amount":1.10,"large":123456789012345678901234567890,"text":"\\u00e9\\n"}'
    row = DEBEZIUM.row(f'{{"op":"u","before":null,"after":{after}}}'.encode())
    assert row == after.replace("\\u00e9", "é").encode()
    wrapped = f'{{"schema":{{}},"payload":{{"op":"u","after":{after}}}}}'.encode()
    assert DEBEZIUM.row(wrapped) == row
    for wrong in ('{"op": "x", "after": {}}', '{"op": "c"}', '{"after": {}}', "1", '{"op": ["c"]}'):
        with pytest.raises(ValueUnusable):
            DEBEZIUM.row(wrong.encode())


@pytest.mark.parametrize(
    ("kafka", "others", "fault"),
    [
        ({"key": None}, {}, "go together"),
        ({"topic": None, "topics": ["a", "b"]}, {}, "one `topic`"),
        ({"key": "amount"}, {}, "has to come of the message's key"),
        ({"key": "none"}, {}, "has to be a column of type"),
        ({}, {"columns": {"_key": "string"}}, "`not null`"),
        ({}, {"unique": {"by": "_key", "within": "1 day"}}, "no `unique`"),
        ({}, {"when": {"field": "key", "in": ["a"]}}, "no `when`"),
        ({}, {"format": "text", "columns": {"_key": "string not null", "value": "string"}}, "json"),
        ({"changes": "debezium"}, {}, "a field of the row itself"),
        ({"key": ["_key", "amount"]}, {}, "`amount`, the key of `changes: upsert`, has to come"),
        ({"key": ["_key", "_key"]}, {}, "names a column twice"),
        ({}, {"format": "protobuf"}, "json, avro and json_schema"),
    ],
)
def test_what_does_not_go_with_changes_is_refused(
    kafka: dict[str, Any], others: dict[str, Any], fault: str
) -> None:
    with pytest.raises(PipelineInvalid, match=fault):
        source(kafka, **others)


def source(kafka: dict[str, Any], keep: str | None = None, **others: Any) -> KafkaSource:
    columns = {
        "_key": "string not null", "amount": "long not null", "at": "timestamp", "key": "string",
    } | others.pop("columns", {})  # fmt: skip
    said = {"topic": "t", "connection": "c", "changes": "upsert", "key": "_key", **kafka}
    said = {name: value for name, value in said.items() if value is not None}
    content = clicks(
        source={
            "kafka": said, "columns": columns, "event_time": {"column": "at"}, **others,
        }
    )  # fmt: skip
    content |= {"keep": keep} if keep else {}
    found = pipeline_from_mapping("clicks", content).source
    assert isinstance(found, KafkaSource)
    return found


def test_frozen_windows_do_not_go_with_changes() -> None:
    with pytest.raises(PipelineInvalid, match="goes with no `changes: upsert`"):
        source({}, keep="30 days")


def test_the_key_is_that_of_the_message() -> None:
    assert RowKeys.of(source({})) == UPSERT
    of_json = {
        "key_format": "json",
        "columns": {"id": {"type": "long not null", "field": "_key.id"}},
    }
    of_json["columns"]["_key"] = {"type": "string", "field": "_key.name"}  # type: ignore[index]
    assert RowKeys.of(source({"key": "id"}, **of_json)) == row_keys(
        "upsert", ("_key", "id"), keys="json"
    )
    of_json["columns"]["place"] = {"type": "string not null", "field": "_key.at.place"}
    keys = RowKeys.of(source({"key": ["place", "id"]}, **of_json))
    assert keys == row_keys("upsert", ("_key", "at", "place"), ("_key", "id"), keys="json")
    columns = {"id": "long not null"}
    keys = RowKeys.of(source({"key": "id", "changes": "debezium"}, columns=columns))
    assert keys == DEBEZIUM


def test_an_act_is_due_until_a_batch_has_read_it() -> None:
    def offset(begin: int, end: int) -> dict[str, TopicOffset]:
        return {"t": TopicOffset("id", {0: begin}, {0: end})}

    act = FollowedOffsets(offset=offset_text(offset(5, 9)), after=2, act="a")
    now = offset(5, 12)
    assert followed_offset(Position(2, offset(0, 5)), act, now) == offset(5, 9)
    # Of what expired since, the batch reads what is kept.
    assert followed_offset(Position(2, offset(0, 5)), act, offset(7, 12)) == offset(7, 9)
    assert not is_read(Position(2, offset(5, 9)), act)
    assert is_read(Position(3, offset(7, 9)), act)
    assert followed_offset(Position(3, offset(5, 9)), act, now) is None
    # A batch that read nothing lies between the same offsets, written anew.
    assert followed_offset(Position(3, offset(5, 5)), act, now) == offset(5, 9)
    # Batches that came again after a rewind are others.
    assert followed_offset(Position(1, offset(0, 5)), act, now) is None
    assert followed_offset(Position(4, offset(0, 5)), act, now) is None
    another = {"t": TopicOffset("other", {0: 0}, {0: 3})}
    assert followed_offset(Position(2, offset(0, 5)), act, another) == offset(5, 9)
