"""A topic whose messages change rows: bronze and gold are what its newest messages say, in whatever
batches they are read; each message is in one of the tables; killed anywhere, a run finishes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, get_args

import pytest

from tests.end_to_end.test_followed_changes import cases
from tests.kit.kafka import make_topic, new_name, produce
from tests.kit.killed import killed
from tests.kit.registry import Registry, started_registry
from tests.kit.retracting import retract_warm, retracted
from tests.kit.rewinding import rewind_warm, rewound
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.sources.kafka.test_values import written
from tests.streaming.audits import audit
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.runs.unfinished_act import unfinished_act

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

Form = Literal["upsert", "upsert by json", "debezium", "debezium with schemas", "debezium as avro"]
FORMS: tuple[Form, ...] = get_args(Form)
BEGIN = datetime(2026, 7, 1, 10, tzinfo=UTC)
MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
TABLES = {
    "per_10m": {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": MEASURES},
    "visits": {
        "window": {"session": "10 minutes"},
        "group_by": ["key"],
        "measures": MEASURES,
        "output_mode": "append",
    },
}
VALUES = {"at": "timestamp not null", "key": "string", "amount": "long not null"}
# By form: the key's column, or columns, and what else the source says.
KEYS: Mapping[str, tuple[str | list[str], Mapping[str, Any]]] = {
    "upsert": ("_key", {"columns": {"_key": "string not null"}}),
    "upsert by json": (
        "id",
        {"columns": {"id": {"type": "long not null", "field": "_key.id"}}, "key_format": "json"},
    ),
    "debezium": ("id", {"columns": {"id": "long not null"}}),
    "debezium with schemas": (
        ["half", "side"],
        {"columns": {"half": "long not null", "side": "string not null"}},
    ),
    "debezium as avro": (
        "id",
        {"columns": {"id": "long not null"}, "format": "avro", "key_format": "avro"},
    ),
}
_NULLABLE = ["null", "string"]
# As Debezium's connectors name them; an amount may be text, for rejects.
AVRO_KEY = {"type": "record", "name": "Key", "namespace": "shop.orders",
            "fields": [{"name": "id", "type": "long"}]}  # fmt: skip
AVRO_ROW = {**AVRO_KEY, "name": "Value", "fields": [
    {"name": "id", "type": "long"}, {"name": "at", "type": "string"},
    {"name": "key", "type": _NULLABLE}, {"name": "amount", "type": ["long", "string"]},
]}  # fmt: skip
AVRO_EVENT = {**AVRO_KEY, "name": "Envelope", "fields": [
    {"name": "before", "type": ["null", AVRO_ROW]}, {"name": "after", "type": ["null", "Value"]},
    {"name": "op", "type": "string"},
]}  # fmt: skip
# Minute, key, amount; an amount that is text is rejected.
Row = tuple[int, str, Any]


@dataclass
class Topic:
    """A topic and what its newest messages say, by id; None: the row is deleted."""

    broker: Broker
    form: Form
    place: Place
    name: str
    rows: dict[int, Row | None] = field(default_factory=dict)
    sent: int = 0
    # Of the key, and of the event, with a registry.
    schemas: tuple[int, int] = 0, 0

    def send(self, *changes: tuple[int, Row | None]) -> None:
        """Each as a message, in this order; a key's partition is its own."""
        for partition in (0, 1):
            own = [(one, row) for one, row in changes if one % 2 == partition]
            said = [(self._key(one), value) for one, row in own for value in self._values(one, row)]
            if said:
                keys, values = [key for key, _ in said], [value for _, value in said]
                produce(self.broker, self.name, values, keys=keys, partition=partition)
                self.sent += len(said)
        self.rows |= dict(changes)

    def _key(self, one: int) -> str | bytes:
        if self.form == "upsert":
            return str(one)
        key = self._fields_of_key(one)
        if "avro" in self.form:
            return written(self.schemas[0], AVRO_KEY, key)
        return json.dumps(
            {"schema": {"type": "struct"}, "payload": key} if "schemas" in self.form else key
        )

    def _fields_of_key(self, one: int) -> Mapping[str, Any]:
        return {"half": one // 2, "side": ",~"[one % 2]} if "schemas" in self.form else {"id": one}

    def _values(self, one: int, row: Row | None) -> Iterator[str | bytes | None]:
        fields = None
        if row is not None:
            at = f"{BEGIN + timedelta(minutes=row[0]):%Y-%m-%dT%H:%M:%SZ}"
            fields = {"at": at, "key": row[1], "amount": row[2]}
        if self.form.startswith("upsert"):
            yield None if fields is None else json.dumps(fields)
            return
        state = None if fields is None else {**self._fields_of_key(one), **fields}
        event = {"before": None, "after": state, "op": "d" if state is None else "u"}
        if "schemas" in self.form:
            event = {"schema": {"type": "struct"}, "payload": event}
        as_avro = "avro" in self.form
        yield written(self.schemas[1], AVRO_EVENT, event) if as_avro else json.dumps(event)
        if state is None:
            yield None

    @property
    def accepted(self) -> list[tuple[datetime, str, int]]:
        """Event time, key and amount of the rows of now."""
        return sorted(
            (BEGIN + timedelta(minutes=row[0]), row[1], row[2])
            for row in self.rows.values()
            if row is not None and isinstance(row[2], int)
        )


def topic_at(
    root: Path,
    broker: Broker,
    form: Form = "upsert",
    registry: Registry | None = None,
    **kafka: Any,
) -> Topic:
    topic = make_topic(broker, new_name("changes"), 2)
    key, said = KEYS[form]
    source = {
        **said,
        "columns": {**said["columns"], **VALUES},
        "kafka": {
            "topic": topic, "connection": "broker", "changes": form.split()[0], "key": key, **kafka
        },
        "event_time": {"column": "at"},
    }  # fmt: skip
    plain: dict[str, Any] = {"servers": broker.servers, "security_protocol": "PLAINTEXT"}
    if registry is not None:
        plain["schema_registry"] = {"url": registry.url}
    place = Place(root, clicks(source=source, tables=TABLES), connections={"broker": plain})
    found = Topic(broker, form, place, topic)
    if registry is not None:
        found.schemas = registry.add("key", AVRO_KEY), registry.add("value", AVRO_EVENT)
    return found


def check(spark: SparkSession, topic: Topic, rewound: int = 0) -> None:
    """Bronze has the rows of the newest messages, gold what they come to, and each message of the
    topic is in one of the tables. `rewound`: so many were read by runs that count no more."""
    place = topic.place
    bronze = place.bronze().select(["at", "key", "amount"]).to_pylist()
    assert sorted((row["at"], row["key"], row["amount"]) for row in bronze) == topic.accepted
    windows: dict[tuple[datetime, str], tuple[int, int]] = {}
    for at, key, amount in topic.accepted:
        place_of = at - timedelta(minutes=at.minute % 10), key
        number, total = windows.get(place_of, (0, 0))
        windows[place_of] = number + 1, total + amount
    gold = place.gold("per_10m").to_pylist()
    found = {(row["window_start"], row["key"]): (row["events"], row["amount"]) for row in gold}
    assert len(gold) == len(found)
    assert found == windows
    assert audit(spark, place).outcome == "equal"
    lines = place.table(place.places.ledger).to_pylist()
    assert all(line["difference"] in (0, None) for line in lines)
    tables = [place.bronze(), place.rejects()]
    if Path(place.places.retracted).exists():
        tables.append(place.table(place.places.retracted))
    origins = {(row["_partition"], row["_offset"]) for table in tables for row in table.to_pylist()}
    assert len(origins) == sum(table.num_rows for table in tables) == topic.sent
    read = sum(line["read"] or 0 for line in lines if line["kind"] == "ingest")
    assert read - rewound == topic.sent
    assert unfinished_act(place.warehouse) is None


def drawn(draw: Random, topic: Topic, many: int) -> list[tuple[int, Row | None]]:
    """Changes of few rows, so that most batches have several of one; some delete, some are bad."""
    found: list[tuple[int, Row | None]] = []
    for _ in range(many):
        one = draw.randint(1, 14)
        row = (draw.randint(0, 120), draw.choice("ab"), draw.choice([1, 2, 3, "text"]))
        found.append((one, None if draw.random() < 0.25 else row))
    return found


@pytest.mark.parametrize(
    "form",
    [pytest.param(one, marks=() if one == "debezium" else pytest.mark.long) for one in FORMS],
)
def test_random_changes_are_followed_run_by_run(
    spark: SparkSession, broker: Broker, tmp_path: Path, form: Form
) -> None:
    with started_registry() as registry:
        asked = registry if "avro" in form else None
        _check_followed(spark, Random(form), topic_at(tmp_path / "root", broker, form, asked))


def _check_followed(spark: SparkSession, draw: Random, topic: Topic) -> None:
    for number in range(4):
        topic.send(*drawn(draw, topic, draw.choice([1, 4, 9])))
        succeed(spark, topic.place, f"run-{number}")
        check(spark, topic)
    assert isinstance(run_preflight(topic.place.run("idle")), NothingNew)
    # Only new rows, and only deletes of rows that are not there: no generation begins.
    before = topic.place.run("asked").table("visits").generation
    topic.send((21, (130, "a", 5)), (22, (131, "b", 1)), (31, None), (32, None))
    succeed(spark, topic.place, "new")
    check(spark, topic)
    assert topic.place.run("asked").table("visits").generation == before
    reasons = {row["reason"] for row in topic.place.rejects().to_pylist()}
    assert reasons == {"superseded", "row deleted", "wrong type"}


@pytest.mark.parametrize(("point", "when"), [*cases()])
def test_killed_anywhere_the_next_run_finishes_it(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    point: tuple[str, int],
    when: Literal["before", "after"],
) -> None:
    topic = topic_at(tmp_path / "root", broker)
    topic.send(*((one, (one * 7, "ab"[one % 2], one)) for one in range(1, 9)))
    succeed(spark, topic.place, "first")
    topic.send(
        (1, (3, "b", 9)), (2, None), (9, (80, "a", 1)), (9, (81, "a", 2)), (3, (4, "a", "x"))
    )
    with killed(when, *point):
        assert run_warm(spark, topic.place, "killed").error is not None
    # What comes meanwhile is read by the next act.
    topic.send((1, (3, "b", 10)), (10, (90, "b", 1)))
    succeed(spark, topic.place, "next")
    succeed(spark, topic.place, "last")
    check(spark, topic)


def test_batches_of_few_messages_come_to_the_same(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    draw, topic = Random(3), topic_at(tmp_path / "root", broker)
    topic.place.content = {**topic.place.content, "advanced": {"max_messages_per_batch": 6}}
    topic.send(*drawn(draw, topic, 14))
    for number in range(6):
        succeed(spark, topic.place, f"run-{number}")
    check(spark, topic)


def test_a_rewind_goes_back_as_far_as_no_row_went_since_and_the_messages_are_followed_again(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = topic_at(tmp_path / "root", broker)
    topic.send(*((one, (one * 7, "a", one)) for one in range(1, 6)))
    succeed(spark, topic.place, "first")
    topic.send((1, None), (2, (15, "b", 7)))
    succeed(spark, topic.place, "second")
    topic.send((6, (50, "a", 1)), (8, (51, "a", 1)))
    succeed(spark, topic.place, "third")
    check(spark, topic)
    refused = rewind_warm(spark, topic.place, "first").error
    assert refused is not None
    assert "were retracted since" in refused.message
    rewound(spark, topic.place, "second")
    topic.send((3, None), (6, (52, "b", 2)))
    succeed(spark, topic.place, "again")
    check(spark, topic, rewound=2)


def test_a_row_that_a_person_took_out_comes_back_with_its_next_message_only(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = topic_at(tmp_path / "root", broker)
    topic.send(*((one, (one * 7, "a", one)) for one in range(1, 6)))
    succeed(spark, topic.place, "first")
    act = retracted(spark, topic.place, where="_key = '2'").change
    assert act is not None
    topic.send((2, None))
    succeed(spark, topic.place, "second")
    check(spark, topic)
    undone = retract_warm(spark, topic.place, undo=act.id)
    assert undone.error is not None
    assert "was read since the retraction" in undone.error.message
    check(spark, topic)
    act = retracted(spark, topic.place, where="_key = '3'").change
    assert act is not None
    retracted(spark, topic.place, undo=act.id)
    check(spark, topic)
    retracted(spark, topic.place, where="_key = '3'")
    topic.send((3, (21, "b", 30)))
    succeed(spark, topic.place, "third")
    check(spark, topic)


@pytest.mark.long
def test_an_event_whose_schema_nobody_has_stops_the_run_until_it_is_there_again(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with started_registry() as registry:
        topic = topic_at(tmp_path / "root", broker, "debezium as avro", registry)
        topic.send((1, (7, "a", 1)), (2, (8, "a", 1)))
        away = registry.schemas.pop(topic.schemas[0])
        for name in ("first", "second"):
            failed = run_warm(spark, topic.place, name).error
            assert failed is not None
            assert "has no schema of the id 1, which messages" in failed.message
        registry.schemas[topic.schemas[0]] = away
        succeed(spark, topic.place, "third")
        check(spark, topic)
        changed = {**AVRO_EVENT, "doc": "another id"}
        topic.schemas = topic.schemas[0], registry.add("value", changed)
        away = registry.schemas.pop(topic.schemas[1])
        topic.send((1, (7, "b", 2)), (2, None))
        failed = run_warm(spark, topic.place, "fourth").error
        assert failed is not None
        assert "has no schema of the id 3, which messages" in failed.message
        assert unfinished_act(topic.place.warehouse) is None
        assert topic.place.bronze().num_rows == 2
        registry.schemas[topic.schemas[1]] = away
        succeed(spark, topic.place, "fifth")
        check(spark, topic)


def test_a_key_that_moved_to_another_partition_is_refused_and_nothing_changes(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = topic_at(tmp_path / "root", broker)
    topic.send((1, (7, "a", 1)), (2, (8, "a", 1)))
    succeed(spark, topic.place, "first")
    check(spark, topic)
    produce(broker, topic.name, [None], keys=["1"], partition=0)
    failed = run_warm(spark, topic.place, "second").error
    assert failed is not None
    assert "lie in several partitions (1)" in failed.message
    assert topic.place.bronze().num_rows == 2
    assert unfinished_act(topic.place.warehouse) is None
