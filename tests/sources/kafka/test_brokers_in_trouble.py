"""Clusters that are away, slow, or do not let us in: one clear error each, and nothing written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.kafka import (
    forbid_reading,
    make_topic,
    new_name,
    produce,
    started_broker,
    wait_until,
)
from tests.kit.running import Place, run_warm, succeed
from tests.sources.kafka.test_lost_topics import accepted, is_right, topics_place, write
from tidemark.errors import SourceRefused, SourceUnavailable, TidemarkError
from tidemark.runs.preflight import run_preflight
from tidemark.sources.kafka import client, slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker


@pytest.fixture(scope="module")
def own() -> Iterator[Broker]:
    """A broker to stop."""
    with started_broker() as started:
        yield started


@pytest.fixture
def place(own: Broker, tmp_path: Path) -> Place:
    made = topics_place(tmp_path, own, {"topic": make_topic(own, new_name("trouble"))})
    write(made, own, "ab")
    return made


def secure(place: Place, broker: Broker, **changed: str) -> None:
    told = {
        "servers": broker.secure_servers,
        "mechanism": "SCRAM-SHA-512",
        "user": broker.user,
        "password": broker.password,
        "ca": str(broker.ca_pem),
        **changed,
    }
    place.connections = {"broker": told}


def refuses(
    spark: SparkSession, place: Place, kind: type[TidemarkError], told: str, written: int = 0
) -> None:
    """As preflight and as a run."""
    with pytest.raises(kind, match=told):
        run_preflight(place.run("look"))
    error = run_warm(spark, place, "refused").error
    assert error is not None
    assert (error.type, error.retry_can_help) == (kind.__name__, kind.retry_can_help)
    assert told in error.message
    found = Path(place.places.bronze).exists() and place.bronze().num_rows
    assert int(found) == written


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda broker: {"password": "not-the-password"}, "login was refused"),
        pytest.param(
            lambda broker: {"ca": str(broker.other_ca_pem)},
            "is `ca` the CA",
            marks=pytest.mark.long,
        ),
    ],
    ids=["a wrong password", "another CA"],
)
def test_who_is_not_let_in_is_told_why_by_preflight_and_run_and_no_secret_is(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    changed: Callable[[Broker], dict[str, str]],
    told: str,
) -> None:
    place = topics_place(tmp_path, broker, {"topic": make_topic(broker, new_name("closed"))})
    write(place, broker, "ab")
    succeed(spark, place, "one")
    write(place, broker, "c")
    secure(place, broker, **changed(broker))
    refuses(spark, place, SourceRefused, told, written=2)
    secrets = {"not-the-password", broker.password}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files for one in secrets if one.encode() in file.read_bytes()]
    secure(place, broker)
    succeed(spark, place, "two")
    assert accepted(place) == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.long
def test_a_topic_of_a_pattern_that_may_not_be_read_any_more_is_not_taken_for_deleted(
    spark: SparkSession, own: Broker, tmp_path: Path
) -> None:
    """A listing leaves it out, as it leaves out what is not there."""
    name = new_name("allowed")
    place = topics_place(tmp_path, own, {"pattern": f"{name}-.*"})
    for end in "ab":
        write(place, own, end, make_topic(own, f"{name}-{end}"))
    secure(place, own)
    succeed(spark, place, "one")
    forbid_reading(own, f"{name}-b")
    refuses(spark, place, SourceRefused, "its user may not read or describe the topic", written=2)


@pytest.mark.long
def test_a_broker_that_answers_no_more_is_told_and_the_next_run_reads_all(
    spark: SparkSession, own: Broker, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 4.0)
    monkeypatch.setattr(slices, "PATIENCE_SECONDS", 4.0)
    succeed(spark, place, "one")
    write(place, own, "cd")
    own.pause()
    try:
        refuses(spark, place, SourceUnavailable, "cannot be asked", written=2)
    finally:
        own.resume()
    # It stops while the batch is read.
    original = slices.KafkaSlice.lines

    def paused(self: Any, most_bytes: int) -> Any:
        own.pause()
        return original(self, most_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices.KafkaSlice, "lines", paused)
        error = run_warm(spark, place, "paused").error
    own.resume()
    assert error is not None
    assert (error.type, error.retry_can_help) == ("SourceUnavailable", True)
    assert place.bronze().num_rows == 2
    succeed(spark, place, "two")
    assert accepted(place) == [(n, key) for n, key in enumerate("abcd")]
    is_right(spark, place)


@pytest.mark.long
def test_a_broker_that_dies_in_a_batch_and_comes_back_leaves_each_message_once(
    spark: SparkSession, own: Broker, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = str(place.content["source"]["kafka"]["topic"])
    values = [
        f'{{"at": "2026-07-01T10:00:00Z", "key": "k{n % 3}", "amount": 1}}' for n in range(500)
    ]
    produce(own, topic, values)
    monkeypatch.setattr(slices, "_AT_ONCE", 50)
    original, back = slices.KafkaSlice._messages, threading.Event()

    def dies(self: Any, *given: Any) -> Any:
        for number, messages in enumerate(original(self, *given)):
            yield messages
            if number == 1:
                own.kill()
                threading.Thread(target=lambda: (own.start(), back.set())).start()

    monkeypatch.setattr(slices.KafkaSlice, "_messages", dies)
    result = run_warm(spark, place, "one")
    wait_until(back.is_set, "the broker did not come back")
    monkeypatch.undo()
    if result.error is not None:
        # It was not back when the run asked whether the topic is still the same.
        assert (result.error.type, result.error.retry_can_help) == ("SourceUnavailable", True)
        assert place.bronze().num_rows == 0
        result = succeed(spark, place, "two")
    assert (result.rows.read, result.rows.accepted) == (502, 502)
    assert [offset for offset, _ in accepted(place)] == list(range(502))
    is_right(spark, place)


@pytest.mark.long
def test_one_partition_without_a_leader_stops_the_run_before_it_reads_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    with started_broker(nodes=3) as cluster:
        topic = make_topic(cluster, new_name("led"), 3, nodes=[1, 2, 3])
        place = topics_place(tmp_path, cluster, {"topic": topic})
        for partition in range(3):
            value = f'{{"at": "2026-07-01T10:00:00Z", "key": "{partition}", "amount": 1}}'
            produce(cluster, topic, [value], partition=partition)
        succeed(spark, place, "one")
        for partition in range(3):
            value = f'{{"at": "2026-07-01T10:01:00Z", "key": "{partition}", "amount": 1}}'
            produce(cluster, topic, [value], partition=partition)
        cluster.kill(3)

        def is_missed() -> bool:
            try:
                place.run("look").source.check(place.run("look").ingest_checkpoint())
            except SourceUnavailable as error:
                return "has no leader now" in str(error)
            return False

        wait_until(is_missed, "the third node is not missed")
        refuses(spark, place, SourceUnavailable, "has no leader now", written=3)
        cluster.start(3)
        wait_until(lambda: not is_missed(), "the third node does not lead")
        assert succeed(spark, place, "two").rows.read == 3
        is_right(spark, place)
