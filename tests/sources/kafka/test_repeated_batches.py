"""A batch that runs again reads what is there now: of a compacted topic less than at first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.kafka import (
    ends,
    make_topic,
    new_name,
    open_transaction,
    produce,
    produce_transaction,
    wait_compacted,
)
from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.sources.contract.test_every_kind import fail_at
from tests.sources.contract.worlds import Topics
from tests.sources.kafka.test_lost_topics import accepted, is_right, lost_rows, topics_place, write
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.sources.notes import source_notes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

COMPACTED = {"cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": 0.01}


def row(key: str, minute: int = 0) -> str:
    return f'{{"at": "2026-07-01T10:{minute:02}:00Z", "key": "{key}", "amount": 1}}'


def place_of(root: Path, broker: Broker, topic: str, **source: Any) -> Place:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    content = clicks(source={"kafka": {"connection": "broker", "topic": topic}, **common, **source})
    plain = {"servers": broker.servers, "security_protocol": "PLAINTEXT"}
    return Place(root, content, connections={"broker": plain})


def fail(spark: SparkSession, place: Place, point: tuple[str, str]) -> None:
    world = Topics(place.root)
    world.place = place
    fail_at(spark, world, point)


def test_what_compaction_took_after_bronze_had_it_is_still_repeated_and_what_it_never_had_counted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("compacted"), **COMPACTED)
    place = place_of(tmp_path, broker, topic, unique={"by": "key", "within": "1 hour"})
    values = [row("x"), row("x", 1), "not JSON", row("y")]
    produce(broker, topic, values, keys=["k", "k", "m", "m"])
    fail(spark, place, ("accepted rows", "after"))
    assert accepted(place) == [(0, "x"), (3, "y")]
    time.sleep(0.3)
    produce(broker, topic, [row("z")], keys=["last"])
    assert [offset for _, offset in wait_compacted(broker, topic)] == [1, 3, 4]
    rows = succeed(spark, place, "again").rows
    assert accepted(place) == [(0, "x"), (3, "y"), (4, "z")]
    assert lost_rows(place) == [(1, "duplicate")]
    # Of the first batch: that it has four offsets, and that none is left of one of them.
    assert (rows.read, rows.accepted, rows.rejected) == (4, 3, {"duplicate": 1})
    is_right(spark, place)


@pytest.mark.long
def test_latest_is_where_the_first_run_began_and_not_where_the_next_one_does(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("latest"))
    place = topics_place(tmp_path, broker, {"topic": topic, "starting": "latest"})
    write(place, broker, "ab")
    with killed("after", "source noted"):
        assert run_warm(spark, place, "killed").error is not None
    write(place, broker, "cd")
    assert place.bronze().num_rows == 0
    rows = succeed(spark, place, "one").rows
    assert accepted(place) == [(2, "c"), (3, "d")]
    assert rows.read == 2
    is_right(spark, place)
    assert source_notes(place.run("look").ingest_checkpoint()).begins == {f"{topic}/0": 2}


@pytest.mark.long
def test_a_first_run_from_latest_that_finds_nothing_has_begun(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("latest"))
    place = topics_place(tmp_path, broker, {"topic": topic, "starting": "latest"})
    write(place, broker, "ab")
    assert succeed(spark, place, "one").rows.read == 0
    assert isinstance(run_preflight(place.run("look")), NothingNew)
    write(place, broker, "c")
    assert succeed(spark, place, "two").rows.read == 1
    assert accepted(place) == [(2, "c")]


@pytest.mark.long
def test_ranges_that_end_with_markers_or_aborted_messages_end_and_are_counted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("markers"), 2)
    place = topics_place(tmp_path, broker, {"topic": topic})
    write(place, broker, "a")
    produce_transaction(broker, topic, [row("b")], partition=0)
    produce_transaction(broker, topic, [row("c")], partition=0, abort=True)
    # Of the other partition nothing but what was aborted, and one that is open.
    produce_transaction(broker, topic, [row("d")], partition=1, abort=True)
    opened = open_transaction(broker, topic, [row("e")], partition=1)
    rows = succeed(spark, place, "one").rows
    assert (rows.read, rows.accepted) == (2, 2)
    assert offsets_of(place, 0) == (7, 5)
    assert isinstance(run_preflight(place.run("look")), NothingNew)
    opened.commit()
    assert succeed(spark, place, "two").rows.read == 1
    assert sorted(one["key"] for one in place.bronze().to_pylist()) == ["a", "b", "e"]
    # What is left of it is the marker of its end.
    assert offsets_of(place, 1) == (2, 1)
    is_right(spark, place)
    assert sum(ends(broker, topic).values()) == 9


def offsets_of(place: Place, batch: int) -> tuple[int | None, int | None]:
    """How many a batch read, and how many of them no message has."""
    from tidemark.sources.committed import committed_before

    ingest = place.run("look").ingest_checkpoint()
    warehouse = place.warehouse
    found = committed_before(ingest, warehouse.bronze, warehouse.rejects, batch)
    assert found is not None
    return found.rows.offsets, found.rows.without_record


@pytest.mark.long
@pytest.mark.parametrize("point", [("accepted rows", "before"), ("accepted rows", "after")])
def test_a_batch_of_many_that_are_split_is_repeated_as_it_was_planned(
    spark: SparkSession, broker: Broker, tmp_path: Path, point: tuple[str, str]
) -> None:
    """What comes between the kill and the next run is of a later batch."""
    topic = make_topic(broker, new_name("split"), 3)
    place = topics_place(tmp_path, broker, {"topic": topic})
    place.content = {**place.content, "advanced": {"max_messages_per_batch": 4}}
    for partition, number in enumerate((5, 3, 2)):
        produce(
            broker, topic, [row(f"{partition}-{n}") for n in range(number)], partition=partition
        )
    fail(spark, place, point)
    produce(broker, topic, [row("late")] * 3, partition=2)
    rows = succeed(spark, place, "again").rows
    assert rows.read == 13
    found = [(one["_partition"], one["_offset"]) for one in place.bronze().to_pylist()]
    assert sorted(found) == [
        *((0, n) for n in range(5)),
        *((1, n) for n in range(3)),
        *((2, n) for n in range(5)),
    ]
    assert most_of_a_batch(place.bronze().to_pylist()) <= 4
    is_right(spark, place)


def most_of_a_batch(rows: Sequence[dict[str, Any]]) -> int:
    batches = [one["_batch"] for one in rows]
    return max(batches.count(one) for one in batches)


@pytest.mark.long
def test_partitions_topics_keys_headers_and_times_of_the_broker_are_read_as_they_are(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """A topic without a message, one whose times are the broker's, messages without a key and with
    a header of a hundred kilobytes."""
    name = new_name("shapes")
    make_topic(broker, f"{name}-empty", 2)
    make_topic(broker, f"{name}-appended", 1, message_timestamp_type="LogAppendTime")
    common = {n: value for n, value in clicks()["source"].items() if n != "files"}
    columns = {**common["columns"], "_key": "string", "_kafka_time": "timestamp"}
    columns["_headers"] = "array<struct<key:string,value:string>>"
    kafka = {"connection": "broker", "pattern": f"{name}-.*"}
    source = {"kafka": kafka, **common, "columns": columns}
    plain = {"servers": broker.servers, "security_protocol": "PLAINTEXT"}
    place = Place(tmp_path, clicks(source=source), connections={"broker": plain})
    large = [("h", "x" * 100_000), ("h", None)]
    produce(broker, f"{name}-appended", [row("a"), row("b")], headers=large, timestamps=[1, 2])
    assert succeed(spark, place, "one").rows.accepted == 2
    for one in place.bronze().to_pylist():
        assert one["_key"] is None
        assert one["_headers"] == [{"key": k, "value": v} for k, v in large]
        assert one["_kafka_time"].year > 2000
    assert isinstance(run_preflight(place.run("look")), NothingNew)
    make_topic(broker, f"{name}-later", 2)
    produce(broker, f"{name}-later", [row("c")], partition=1)
    produce(broker, f"{name}-empty", [row("d")], partition=1)
    assert succeed(spark, place, "two").rows.accepted == 2
    is_right(spark, place)
