"""`tidemark new --from kafka:CONNECTION/TOPIC`, at a real broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from google.protobuf import message_factory
from typer.testing import CliRunner, Result

from tests.kit.kafka import (
    client_of,
    make_topic,
    new_name,
    produce,
    produce_transaction,
)
from tests.kit.protobuf import pool_of, prefixed
from tests.kit.registry import started_registry
from tests.sources.kafka.test_values import written
from tidemark.cli.main import app
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import KafkaSource, Pipeline
from tidemark.sources.kafka.values import schema_text

if TYPE_CHECKING:
    from broker.broker import Broker

START = 1_782_900_000_000
MINUTE = 60_000


@pytest.fixture
def project(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings that know the broker, and one that is away."""
    for name in ("ROOT", "PIPELINES", "SETTINGS", "CONNECTIONS"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    (tmp_path / "include").mkdir()
    connections = {
        name: {"servers": servers, "security_protocol": "PLAINTEXT"}
        for name, servers in (("events", broker.servers), ("away", "127.0.0.1:1"))
    }
    settings = {"root": "../warehouse", "pipelines": "pipelines", "connections": connections}
    (tmp_path / "include" / "settings.yaml").write_text(json.dumps(settings))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(topic: str, *arguments: str) -> Result:
    named = topic if topic.startswith("kafka:") else f"kafka:events/{topic}"
    return CliRunner().invoke(app, ["new", "orders", "--from", named, *arguments])


def file_of(project: Path) -> Path:
    return project / "include" / "pipelines" / "orders.yaml"


def proposed(project: Path, topic: str, *arguments: str) -> Pipeline:
    ended = new(topic, *arguments)
    assert ended.exit_code == 0, ended.output
    return load_pipeline(file_of(project))


def types(pipeline: Pipeline) -> dict[str, str]:
    columns = pipeline.source.columns.items()
    return {n: c.type if c.nullable else f"{c.type} not null" for n, c in columns}


def orders(numbers: Sequence[int], **more: Any) -> list[str]:
    """One a minute."""
    return [
        json.dumps({"id": f"o{n}", "at": f"2026-07-01T{10 + n // 60}:{n % 60:02}:00Z", **more})
        for n in numbers
    ]


def kept(broker: Broker, partitions: int = 1) -> str:
    """A topic that keeps messages of any age."""
    return make_topic(broker, new_name("new"), partitions, retention_ms=-1)


def test_a_topic_s_messages_are_proposed_as_lines_are(broker: Broker, project: Path) -> None:
    topic = kept(broker, 3)
    for partition in range(3):
        numbers = range(partition, 90, 3)
        produce(
            broker, topic, orders(numbers, shop="one"), partition=partition,
            timestamps=[START + MINUTE * n for n in numbers],
            keys=[f"customer {n % 2}" for n in numbers],
        )  # fmt: skip
    produce(broker, topic, [None, "no JSON", b"\xff"], partition=1, timestamps=[START] * 3)
    ended = new(topic)
    assert ended.exit_code == 0, ended.output
    pipeline = load_pipeline(file_of(project))
    source = pipeline.source
    assert isinstance(source, KafkaSource)
    assert (source.kafka.topic, source.kafka.connection) == (topic, "events")
    assert types(pipeline) == {
        "id": "string not null", "at": "timestamp not null", "shop": "string not null",
        "_key": "string not null",
    }  # fmt: skip
    assert source.event_time.column == "at"
    assert source.unique is not None
    assert source.unique.by == "id"
    assert pipeline.tables["per_10_minutes"].group_by == ("_key",)
    # Each partition has every third minute; together they came in order.
    assert pipeline.watermark.delay == timedelta(minutes=10)
    assert "The sample's rows came in the order of time." in file_of(project).read_text()
    assert f"# Proposed by `tidemark new` from 93 messages of kafka:events/{topic}." in (
        file_of(project).read_text()
    )
    told = ended.stdout.splitlines()
    assert f"kafka           topic {topic}, connection events" in told
    assert told[0] == (
        "orders: proposed from 93 messages. A run accepts 90 of them and rejects 3 "
        "(2 malformed, 1 no value)."
    )


def test_kafka_s_time_is_the_event_time_where_the_value_has_none(
    broker: Broker, project: Path
) -> None:
    topic = kept(broker)
    readings = [json.dumps({"sensor": f"s{n % 2}", "value": n / 2}) for n in range(50)]
    produce(broker, topic, readings, timestamps=[START + MINUTE * n for n in range(50)])
    pipeline = proposed(project, topic)
    assert types(pipeline) == {
        "sensor": "string not null", "value": "double not null",
        "_kafka_time": "timestamp not null",
    }  # fmt: skip
    assert pipeline.source.event_time.column == "_kafka_time"
    assert pipeline.tables["per_10_minutes"].group_by == ("sensor",)


@pytest.mark.slow
def test_what_is_of_the_message_is_a_column_only_where_it_tells_more(
    broker: Broker, project: Path
) -> None:
    same, rare, binary = (kept(broker) for _ in range(3))
    produce(broker, same, orders(range(20)), keys=[f"o{n}" for n in range(20)])
    produce(broker, rare, orders(range(20)), keys=["a", *[None] * 19])
    produce(broker, binary, orders(range(20)), keys=[b"\xff\x00"] * 20)
    for topic in (same, rare, binary):
        assert list(proposed(project, topic, "--force").source.columns) == ["id", "at"]
    asked = proposed(project, rare, "--force", "--group-by", "_key", "--event-time", "_kafka_time")
    assert types(asked)["_key"] == "string"
    assert asked.source.event_time.column == "_kafka_time"
    assert [table.group_by for table in asked.tables.values()] == [("_key",)]
    refused = new(binary, "--force", "--group-by", "_key")
    assert "The sample has no column `_key` for this" in refused.stderr


@pytest.mark.slow
def test_offsets_without_a_message_are_looked_past(broker: Broker, project: Path) -> None:
    topic = make_topic(broker, new_name("new"))
    produce_transaction(broker, topic, orders(range(40)), abort=True)
    produce_transaction(broker, topic, orders(range(40, 45)))
    proposed(project, topic)
    assert f"from 5 messages of kafka:events/{topic}." in file_of(project).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "code", "said"),
    [
        ("kafka:events/{near}", 1, "There is no topic `{near}` in the cluster of the connection "
         "`events`. Did you mean `{topic}`?"),
        ("kafka:evnts/{topic}", 1, "There is no connection `evnts` among the settings' "
         "`connections`: it has away, events."),
        ("kafka:{topic}", 1, "A topic is named kafka:CONNECTION/TOPIC, by a connection of the "
         "settings' `connections` (away, events)."),
        ("kafka:events/a b", 1, "`a b` is no name of a topic"),
        ("kafka:events/{empty}", 1, "The topic `{empty}` has no message that can be read yet."),
        ("kafka:events/{avro}", 1, "None of the first 2 messages of `{avro}` has a value that is "
         "one JSON object"),
        pytest.param("kafka:away/{topic}", 75, "The Kafka cluster of the connection `away` "
                     "(127.0.0.1:1) cannot be asked", marks=pytest.mark.second),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_looked_at_is_one_clear_error_and_nothing_is_written(
    broker: Broker, project: Path, named: str, code: int, said: str
) -> None:
    topic, empty, avro = (make_topic(broker, new_name(f"a_{name}")) for name in "tea")
    produce(broker, avro, [b"\x00\x01\x02", None])
    names = {"topic": topic, "empty": empty, "avro": avro, "near": f"{topic}x"}
    ended = new(named.format(**names))
    assert ended.exit_code == code
    assert said.format(**names) in ended.stderr
    assert ended.stderr.rstrip().endswith("Nothing was written.")
    assert not file_of(project).parent.exists()


def test_looking_at_a_topic_joins_no_consumer_group(broker: Broker, project: Path) -> None:
    topic = kept(broker, 2)
    produce(broker, topic, orders(range(20)))
    admin = AdminClient(client_of(broker))

    def groups() -> set[str]:
        return {one.group_id for one in admin.list_consumer_groups().result().valid}

    before = groups()
    proposed(project, topic)
    assert groups() == before


def test_records_of_a_schema_registry_are_proposed_with_their_format(
    broker: Broker, project: Path
) -> None:
    schema = {
        "type": "record", "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "amount", "type": ["null", "double"]},
        ],
    }  # fmt: skip
    topic = kept(broker)
    with started_registry() as registry:
        number = registry.add("orders-value", schema)
        at = [datetime(2026, 7, 1, 10, n, tzinfo=UTC) for n in range(60)]
        rows = [{"id": f"o{n}", "at": at[n], "amount": n / 4} for n in range(60)]
        produce(broker, topic, [written(number, schema, row) for row in rows])
        refused = new(topic)
        assert refused.exit_code == 1
        assert "The connection `events` has no `schema_registry`" in refused.output
        settings = json.loads((project / "include" / "settings.yaml").read_text())
        settings["connections"]["events"]["schema_registry"] = {"url": registry.url}
        (project / "include" / "settings.yaml").write_text(json.dumps(settings))
        pipeline = proposed(project, topic)
    assert isinstance(pipeline.source, KafkaSource)
    assert pipeline.source.format == "avro"
    assert types(pipeline) == {
        "id": "string not null", "at": "timestamp not null", "amount": "double not null",
    }  # fmt: skip
    assert pipeline.source.event_time.column == "at"


@pytest.mark.second
def test_messages_of_protobuf_are_proposed_with_their_format_and_without_their_keys(
    broker: Broker, project: Path
) -> None:
    text = 'syntax = "proto3"; message Order { string id = 1; string at = 2; int32 number = 3; }'
    order = message_factory.GetMessageClass(
        pool_of(schema_text("PROTOBUF", text, {})).FindMessageTypeByName("Order")
    )
    topic = kept(broker)
    with started_registry() as registry:
        number = registry.add("orders-value", text, kind="PROTOBUF")
        times = [f"2026-07-01T10:{n:02}:00Z" for n in range(60)]
        rows = [order(id=f"o{n}", at=at, number=n % 7 + 1) for n, at in enumerate(times)]
        values = [prefixed(number, row.SerializeToString()) for row in rows]
        produce(broker, topic, values, keys=[written(number, "string", f"k{n}") for n in range(60)])
        settings = json.loads((project / "include" / "settings.yaml").read_text())
        settings["connections"]["events"]["schema_registry"] = {"url": registry.url}
        (project / "include" / "settings.yaml").write_text(json.dumps(settings))
        pipeline = proposed(project, topic)
    assert isinstance(pipeline.source, KafkaSource)
    assert pipeline.source.format == "protobuf"
    assert types(pipeline) == {
        "id": "string not null", "at": "timestamp not null", "number": "long not null",
    }  # fmt: skip


def test_values_that_are_text_are_proposed_as_text(broker: Broker, project: Path) -> None:
    topic, broken = kept(broker), kept(broker)
    lines = [f"{n} took {n / 2} s, ok" for n in range(50)]
    times = [START + MINUTE * n for n in range(53)]
    produce(broker, topic, [*lines, '{"a": 1}', b"\xff", None], timestamps=times)
    ended = new(topic)
    assert ended.exit_code == 0, ended.output
    assert "A run accepts 51 of them and rejects 2 (1 malformed, 1 no value)." in ended.stdout
    assert "each is one text, `value`. Take it apart in `derive`." in ended.stdout.replace(
        "\n", " "
    )
    pipeline = load_pipeline(file_of(project))
    assert isinstance(pipeline.source, KafkaSource)
    assert pipeline.source.format == "text"
    assert types(pipeline) == {"value": "string not null", "_kafka_time": "timestamp not null"}
    # What is meant to be JSON is no text.
    produce(broker, broken, ['{"a": NaN}'] * 9)
    refused = new(broken, "--force")
    assert refused.exit_code == 1
    assert "or text (`format: text`), which" in refused.stderr
