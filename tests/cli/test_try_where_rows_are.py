"""`tidemark try` over topics and tables: their first rows, read where they are, come to what a run
over them comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, write_deltalake

from tests.kit.kafka import (
    client_of,
    make_topic,
    new_name,
    produce,
    produce_transaction,
)
from tests.kit.running import Place, clicks, run_warm, succeed
from tidemark.cli.trial.first_rows import settings_of_trial, take_first_rows, write_pipeline
from tidemark.errors import PipelineInvalid, SampleUnusable, SourceNotFound
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import FirstRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

START = 1_782_900_000_000


def row(key: str, amount: object = 1) -> bytes:
    return json.dumps({"at": "2026-07-01T10:00:00Z", "key": key, "amount": amount}).encode()


def place_of(root: Path, broker: Broker | None, source: Mapping[str, Any], **columns: str) -> Place:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    own = {**common, "columns": {**common["columns"], **columns}, **source}
    plain = {"servers": broker.servers, "security_protocol": "PLAINTEXT"} if broker else {}
    return Place(root, clicks(source=own), connections={"events": plain} if broker else {})


def topics(root: Path, broker: Broker, *, kafka: Mapping[str, Any], **columns: str) -> Place:
    return place_of(root, broker, {"kafka": {"connection": "events", **kafka}}, **columns)


def first_of(place: Place, most: int = 1_000) -> FirstRows:
    return take_first_rows(place.pipeline, place.settings, most, place.root / "trial")


def trial_of(place: Place, most: int = 1_000) -> tuple[FirstRows, Place]:
    """What `tidemark try` runs."""
    root = place.root.with_name("trial")
    first = take_first_rows(place.pipeline, place.settings, most, root)
    file = write_pipeline(place.pipeline, first.source, root / "pipelines", place.settings)
    content = json.loads(file.read_text())
    sources = settings_of_trial(place.settings, root).sources
    trial = Place(root, content, place.name, connections=place.connections, sources=sources)
    return first, trial


def without_batch(table: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in table.column_names if not name.startswith("_batch")]
    found: list[dict[str, Any]] = table.select(names).to_pylist()
    return sorted(found, key=repr)


@pytest.mark.long
def test_a_message_is_judged_by_a_trial_as_by_a_run(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("tried"), 2)
    bad: list[bytes | None] = [
        None, b"\xef\xbb\xbf" + row("marked"), b"\xff\xfe", row("cut")[:20], b"", b"\n",
        row("a").replace(b", ", b",\n\r "), row("a").replace(b"a", b"a\nb", 1),
        b'{"at": "2026-07-01T10:00:00Z", "amount": [1,\n 2]}', row("l" * 300), row("b", "x"),
        b'{"_key": "mine", ' + row("a")[1:], row("new")[:-1] + b', "more": [1.50,\n2]}',
    ]  # fmt: skip
    for partition in (0, 1):
        keys = ["k"] * len(bad)
        produce(broker, topic, bad, partition=partition, keys=keys)
        produce(broker, topic, [row("twice")] * 2, partition=partition, keys=["k", b"\xff"])
    kafka = {"topic": topic, "max_message_bytes": 200}
    place = topics(tmp_path / "real", broker, kafka=kafka, _key="string")
    place.content["source"]["derive"] = {"place": "concat(_topic, '/', _partition)"}
    place.content["source"]["unique"] = {"by": "key", "within": "1 day"}
    _, trial = trial_of(place)
    tried, real = succeed(spark, trial), succeed(spark, place)
    assert (tried.rows.read, tried.rows.rejected) == (30, real.rows.rejected)
    assert {"no value", "too large", "malformed", "wrong type", "duplicate"} <= set(
        real.rows.rejected
    )
    assert without_batch(trial.rejects()) == without_batch(place.rejects())
    assert without_batch(trial.bronze()) == without_batch(place.bronze())


def test_the_first_messages_are_of_all_partitions_and_leave_nothing_behind(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("many"), 3)
    for partition in range(3):
        produce(broker, topic, [row("a")] * 600, partition=partition)
    place = topics(tmp_path / "real", broker, kafka={"topic": topic})
    admin = AdminClient(client_of(broker))

    def groups() -> set[str]:
        return {one.group_id for one in admin.list_consumer_groups().result().valid}

    before = groups()
    first, trial = trial_of(place)
    assert first.label == "the first 1,000 messages of its source, of 3 partitions"
    assert first.source["first_messages"] == {topic: {0: 334, 1: 333, 2: 333}}
    assert succeed(spark, trial).rows.accepted == 1_000
    assert max(trial.bronze()["_offset"].to_pylist()) == 333
    assert groups() == before
    assert not place.root.exists()


def test_the_first_messages_begin_where_the_pipeline_does(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, new_name("begun"), retention_ms=-1)
    produce(broker, topic, [row("a")] * 9, timestamps=[START + n * 1_000 for n in range(9)])
    begins: dict[str, Any] = {
        "earliest": 0, "latest": 0, "2026-07-01T10:00:04Z": 4,
    }  # fmt: skip
    for starting, begin in begins.items():
        first = first_of(topics(tmp_path, broker, kafka={"topic": topic, "starting": starting}), 3)
        assert first.source["kafka"]["starting"] == {topic: {0: begin}}
        assert first.source["first_messages"] == {topic: {0: begin + 3}}
    of_pattern = first_of(topics(tmp_path, broker, kafka={"pattern": f"{topic}|none"}))
    assert of_pattern.source["kafka"]["topic"] == topic
    named = {"topic": topic, "starting": {topic: {0: 8}}}
    assert first_of(topics(tmp_path, broker, kafka=named)).label == (
        "the only message of its source, of 1 partition"
    )


@pytest.mark.slow
def test_messages_are_looked_for_behind_offsets_that_have_none(
    broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("aborted"))
    produce_transaction(broker, topic, [row("a")] * 60, abort=True)
    produce_transaction(broker, topic, [row("b")] * 20)
    first = first_of(topics(tmp_path, broker, kafka={"topic": topic}), 7)
    assert (first.rows, first.source["first_messages"]) == (7, {topic: {0: 68}})


def test_a_topic_without_messages_and_one_that_is_not_there_are_told(
    broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("silent"))
    with pytest.raises(SampleUnusable, match="has no partition with a message"):
        first_of(topics(tmp_path, broker, kafka={"topic": topic}))
    with pytest.raises(SourceNotFound, match="There is no topic `none`"):
        first_of(topics(tmp_path, broker, kafka={"topic": "none"}))


def append(place: Place, *keys: str) -> None:
    rows = [{**json.loads(row(key)), "more": 1.5} for key in keys]
    write_deltalake(str(place.root / "lake"), pa.Table.from_pylist(rows), mode="append")


@pytest.mark.long
def test_the_first_rows_of_a_table_are_those_of_its_first_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path / "the root", None, {"delta": {"table": "lake"}})
    place.content["source"]["derive"] = {"place": "concat(_version, '/', _row)"}
    place.content["advanced"] = {"max_files_per_batch": 1}
    for version in range(4):
        append(place, *(f"{version}-{n}" for n in range(40)))
    first, trial = trial_of(place, 100)
    assert first.label == "the first 100 rows of its source, of 3 files"
    assert succeed(spark, trial).rows.accepted == 100
    succeed(spark, place)
    of_run = [one for one in without_batch(place.bronze()) if one["_version"] < 2]
    of_run += [o for o in without_batch(place.bronze()) if o["_version"] == 2 and o["_row"] < 20]
    assert without_batch(trial.bronze()) == sorted(of_run, key=repr)


def test_a_trial_stops_at_a_version_that_changed_rows_as_a_run_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path / "real", None, {"delta": {"table": "lake"}})
    append(place, "a", "b")
    DeltaTable(str(place.root / "lake")).delete("key = 'a'")
    append(place, "c")
    first, trial = trial_of(place)
    assert first.rows == 3
    error = run_warm(spark, trial).error
    assert error is not None
    assert error.type == "InputLost"
    assert "version 1 (DELETE) changed rows that were there" in error.message


def test_what_a_trial_wrote_is_no_pipeline_below_another_root(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "root" / "events"), pa.table({"key": ["a", "b"]}))
    content = clicks(source={**clicks()["source"], "delta": {"table": "events"}})
    del content["source"]["files"]
    place = Place(tmp_path / "root", content)
    _, trial = trial_of(place)
    assert source_handle(trial.pipeline, trial.settings)
    with pytest.raises(PipelineInvalid, match="is a trial's"):
        source_handle(trial.pipeline, place.settings)
