"""Topics whose values a schema registry's serializers wrote, through whole runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from google.protobuf import message_factory

from tests.kit.kafka import produce
from tests.kit.killed import killed
from tests.kit.protobuf import pool_of, prefixed
from tests.kit.registry import Registry, started_registry
from tests.kit.running import Place, run_warm, succeed
from tests.sources.contract.test_every_kind import fail_at
from tests.sources.contract.worlds import Topics
from tests.sources.kafka.test_values import written
from tidemark.errors import RETRY, SourceUnavailable
from tidemark.sources.kafka import registry as asking
from tidemark.sources.kafka.values import schema_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

ROWS = [
    {"at": f"2026-07-01T10:{n % 60:02}:00Z", "key": f"k{n % 3}", "amount": n} for n in range(100)
]

KILLS = [("schemas kept", "before"), ("schemas kept", "after")]


def schema(*more: str, amount: str = "long") -> dict[str, Any]:
    types = {
        "at": "string",
        "key": ["null", "string"],
        "amount": amount,
        **dict.fromkeys(more, "int"),
    }
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return {"type": "record", "name": "Click", "namespace": "com.acme", "fields": fields}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(asking, "_TRIES_AGAIN", 0)
    with started_registry() as found:
        yield found


class AvroTopics(Topics):
    """`values` are bytes."""

    registry: Registry

    def named(self) -> dict[str, Any]:
        return {**super().named(), "format": "avro"}

    def put(self, values: list[bytes]) -> None:
        assert self.broker is not None
        produce(self.broker, self.topic, values, partition=0)


def world_of(broker: Broker, registry: Registry, root: Path) -> AvroTopics:
    Topics.broker = broker
    world = AvroTopics(root)
    world.place.connections = {
        "broker": {**world.place.connections["broker"], "schema_registry": {"url": registry.url}}
    }
    return world


def shown(place: Place) -> tuple[list[Any], list[Any]]:
    bronze = place.bronze().select(["at", "key", "amount"]).to_pylist()
    gold = place.gold().select(["window_start", "key", "events", "amount"]).to_pylist()
    return sorted(map(repr, bronze)), sorted(map(repr, gold))


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)])
def test_records_of_several_schemas_come_to_what_json_comes_to(
    spark: SparkSession,
    broker: Broker,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: bool,
) -> None:
    from tidemark.streaming.ingest import judged_lines

    if not few:
        monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    Topics.broker = broker
    plain = Topics(tmp_path / "json")
    plain.land("0", ROWS)
    succeed(spark, plain.place, "one")
    world = world_of(broker, registry, tmp_path / "avro")
    old, new = schema(), schema("extra")
    first, second = registry.add("clicks-value", old), registry.add("clicks-value", new)
    records = [
        written(second, new, {**row, "extra": 1}) if n % 3 else written(first, old, row)
        for n, row in enumerate(ROWS)
    ]
    world.put(records[:60])
    succeed(spark, world.place, "one")
    world.put(records[60:])
    succeed(spark, world.place, "two")
    assert shown(world.place) == shown(plain.place)
    # Once for each id, by the driver alone.
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/2"]


def test_messages_of_protobuf_come_to_what_json_comes_to(
    spark: SparkSession, broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    Topics.broker = broker
    plain = Topics(tmp_path / "json")
    plain.land("0", ROWS)
    succeed(spark, plain.place, "one")
    world = world_of(broker, registry, tmp_path / "protobuf")
    source = {**world.place.content["source"], "format": "protobuf"}
    world.place.content = {**world.place.content, "source": source}
    text = """
        syntax = "proto3";
        import "kinds.proto";
        message Other { int32 n = 1; }
        message Click { string at = 1; optional string key = 2; int64 amount = 3; Kind kind = 4; }
    """
    kinds = 'syntax = "proto3"; enum Kind { NONE = 0; }'
    registry.add("kinds", kinds, kind="PROTOBUF")
    refers = [{"name": "kinds.proto", "subject": "kinds", "version": 1}]
    number = registry.add("clicks-value", text, refers, kind="PROTOBUF")
    pool = pool_of(schema_text("PROTOBUF", text, {"kinds.proto": kinds}))
    click = message_factory.GetMessageClass(pool.FindMessageTypeByName("Click"))
    values = [prefixed(number, click(**row).SerializeToString(), 1) for row in ROWS]
    world.put(values)
    succeed(spark, world.place, "one")
    assert shown(world.place) == shown(plain.place)
    # A batch that is repeated asks nobody.
    asked = len(registry.asked)
    world.put([*values[:3], b"\0\0\0\0\x09\0"])
    with killed("after", "accepted rows"):
        assert run_warm(spark, world.place, "killed").error is not None
    registry.answers = (500, {})
    succeed(spark, world.place, "again")
    assert len(registry.asked) == asked + 1
    (bad,) = world.place.rejects().to_pylist()
    assert "has no schema of the id 9" in bad["detail"]


@pytest.mark.second
@pytest.mark.parametrize("few", [True, False])
def test_keys_of_a_registry_and_schemas_named_in_headers(
    spark: SparkSession,
    broker: Broker,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: bool,
) -> None:
    from tidemark.streaming.ingest import judged_lines

    if not few:
        monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    of_key = {
        "type": "record", "name": "Key",
        "fields": [{"name": "shop", "type": "string"}, {"name": "number", "type": "long"}],
    }  # fmt: skip
    world = world_of(broker, registry, tmp_path)
    source = world.place.content["source"]
    columns = {
        **source["columns"],
        "key": {"type": "string", "field": "_key.shop"},
        "number": {"type": "long", "field": "_key.number"},
    }
    source = {**source, "key_format": "avro", "columns": columns}
    world.place.content = {**world.place.content, "source": source}
    number, named = registry.add("clicks-key", of_key), registry.add("clicks-value", schema())
    keys: list[Any] = [
        written(number, of_key, {"shop": row["key"], "number": n}) for n, row in enumerate(ROWS)
    ]
    # A message without a key, one whose key goes on, and one whose value has such a field.
    keys += [None, keys[0] + b"x", keys[0]]
    twice = schema("_key")
    bodies = [written(named, schema(), {**row, "key": None})[5:] for row in [*ROWS, *ROWS[:2]]]
    value = ("__value_schema_id", b"\x01" + UUID(int=named).bytes)
    assert world.broker is not None
    produce(broker, world.topic, bodies, partition=0, keys=keys[:-1], headers=[value])
    prefixed_values = [written(registry.add("twice", twice), twice, {**ROWS[0], "_key": 1})]
    produce(broker, world.topic, prefixed_values, partition=0, keys=keys[-1:])
    rows = succeed(spark, world.place, "one").rows
    assert (rows.accepted, rows.rejected) == (101, {"malformed": 2})
    found = world.place.bronze().select(["at", "key", "number", "amount"]).to_pylist()
    numbered = sorted((row["number"], row["key"], row["amount"]) for row in found if row["key"])
    assert numbered == [(n, row["key"], row["amount"]) for n, row in enumerate(ROWS)]
    assert [row["number"] for row in found if row["key"] is None] == [None]
    details = sorted(row["detail"] for row in world.place.rejects().to_pylist())
    assert details[0] == "1 bytes lie behind the key's record of schema 1"
    assert sorted(registry.asked) == [
        f"/schemas/guids/{UUID(int=named)}", "/schemas/ids/1", "/schemas/ids/3",
    ]  # fmt: skip


@pytest.mark.second
def test_a_replay_needs_no_registry_and_says_the_same(
    spark: SparkSession, broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    world = world_of(broker, registry, tmp_path)
    number = registry.add("clicks-value", schema())
    good = [written(number, schema(), row) for row in ROWS]
    # An id that nobody registered, until the batch has failed.
    world.put([*good, written(9, schema(), ROWS[0]), good[0] + b"x"])
    fail_at(spark, world, ("accepted rows", "after"))
    registry.add("clicks-value", schema(), number=9)
    registry.answers = (500, {"error_code": 500, "message": "away"})
    rows = succeed(spark, world.place, "again").rows
    assert (rows.accepted, rows.rejected) == (100, {"malformed": 2})
    details = sorted(row["detail"] for row in world.place.rejects().to_pylist())
    assert details == [
        "1 bytes lie behind its record of schema 1",
        "The schema registry has no schema of the id 9",
    ]
    # A schema that is known is asked for no more; a missing one is, by the next batch.
    world.put(good[:5])
    assert succeed(spark, world.place, "three").rows.accepted == 5
    registry.answers = None
    world.put([written(9, schema(), ROWS[0])])
    assert succeed(spark, world.place, "four").rows.accepted == 1


@pytest.mark.parametrize("point", KILLS)
def test_a_run_that_ends_while_schemas_are_kept_goes_on(
    spark: SparkSession,
    broker: Broker,
    registry: Registry,
    tmp_path: Path,
    point: tuple[str, str],
) -> None:
    world = world_of(broker, registry, tmp_path)
    number = registry.add("clicks-value", schema())
    world.put([written(number, schema(), row) for row in ROWS])
    fail_at(spark, world, point)
    assert succeed(spark, world.place, "again").rows.accepted == 100
    # It is asked again only where nothing was kept.
    assert len(registry.asked) == {"before": 2, "after": 1}[point[1]]
    assert len(world.place.bronze()) == 100


@pytest.mark.second
def test_a_registry_that_is_away_ends_the_run_before_anything_is_committed(
    spark: SparkSession, broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    world = world_of(broker, registry, tmp_path)
    number = registry.add("clicks-value", schema())
    world.put([written(number, schema(), row) for row in ROWS])
    registry.answers = (503, {"error_code": 503, "message": "starting"})
    error = run_warm(spark, world.place, "one").error
    assert error is not None
    assert (error.type, error.retry_can_help) == (SourceUnavailable.__name__, True)
    assert "503, starting" in error.message
    assert not world.place.bronze().num_rows
    assert not world.place.rejects().num_rows
    registry.answers = None
    assert succeed(spark, world.place, "two").rows.accepted == 100
    assert RETRY == 75


@pytest.mark.second
def test_a_schema_that_does_not_fit_is_a_reject_with_both_types(
    spark: SparkSession, broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    world = world_of(broker, registry, tmp_path)
    good, other = schema(), schema(amount="string")
    first, second = registry.add("clicks-value", good), registry.add("clicks-value", other)
    wrong = {**ROWS[0], "amount": "many"}
    world.put([written(first, good, ROWS[0]), written(second, other, wrong)])
    rows = succeed(spark, world.place, "one").rows
    assert (rows.accepted, rows.rejected) == (1, {"wrong type": 1})
    (reject,) = world.place.rejects().to_pylist()
    assert reject["detail"] == 'amount should be long, found "many"'
    assert reject["raw"] == '{"at": "2026-07-01T10:00:00Z", "key": "k0", "amount": "many"}'


@pytest.mark.second
@pytest.mark.parametrize(
    ("form", "values", "columns"),
    [
        ("json_schema", [b"\0\0\0\0\x01" + b'{"at":"2026-07-01T10:00:00Z","key":"a"}'], {}),
        ("text", ["2026-07-01T10:00:00Z", "no time"], {"at": {"field": "value"}}),
    ],
)
def test_other_values_need_no_registry(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    form: str,
    values: list[Any],
    columns: dict[str, Any],
) -> None:
    Topics.broker = broker
    world = Topics(tmp_path)
    source = world.place.content["source"]
    at = {"type": "timestamp", **columns.get("at", {})}
    named = {**source, "format": form, "columns": {**source["columns"], "at": at}}
    place = replace(world.place, content={**world.place.content, "source": named})
    produce(broker, world.topic, values, partition=0)
    rows = succeed(spark, place, "one").rows
    assert (rows.accepted, rows.read) == (1, len(values))
    assert len(place.gold()) == 1
