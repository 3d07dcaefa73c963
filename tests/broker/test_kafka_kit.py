"""What `tests/kit/kafka.py` does to topics can be seen when it returns."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient

from broker.broker import Broker
from tests.kit.kafka import (
    add_partitions,
    begins,
    configure_topic,
    delete_records,
    delete_topic,
    ends,
    forbid_reading,
    make_topic,
    new_name,
    open_transaction,
    produce,
    produce_transaction,
    secure_client_of,
    stored,
    wait_compacted,
    wait_expired,
    wait_until,
)


def offsets_in(broker: Broker, topic: str, *, committed: bool = False) -> list[int | None]:
    return [message.offset() for message in stored(broker, topic, committed=committed)]


@pytest.mark.slow
def test_messages_are_where_it_is_said(broker: Broker) -> None:
    topic = make_topic(broker, new_name(), partitions=2)
    placed = produce(
        broker, topic, ["a", None], partition=1, keys=["k", "l"],
        headers=[("trace", b"1")], timestamps=[1_000, 2_000],
    )  # fmt: skip
    assert placed == [(1, 0), (1, 1)]
    first, second = stored(broker, topic)
    assert (first.partition(), first.key(), first.value()) == (1, b"k", b"a")
    assert first.headers() == [("trace", b"1")]
    assert (second.value(), second.timestamp()[1]) == (None, 2_000)
    assert ends(broker, topic) == {0: 0, 1: 2}


def test_a_topic_that_is_made_again_begins_anew(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, ["a", "b"])
    delete_topic(broker, topic)
    make_topic(broker, topic)
    assert ends(broker, topic) == {0: 0}
    assert produce(broker, topic, ["c"]) == [(0, 0)]


def test_added_partitions_can_be_written_to(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    add_partitions(broker, topic, 3)
    assert produce(broker, topic, ["a"], partition=2) == [(2, 0)]


def test_deleted_records_are_gone(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, [str(n) for n in range(10)])
    delete_records(broker, topic, {0: 4})
    assert begins(broker, topic) == {0: 4}
    assert offsets_in(broker, topic) == [4, 5, 6, 7, 8, 9]


@pytest.mark.slow
def test_retention_deletes_what_is_old(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, ["old"] * 5, timestamps=[1_000] * 5)
    configure_topic(broker, topic, retention_ms=60_000)
    wait_expired(broker, topic, {0: 5})
    assert produce(broker, topic, ["new"]) == [(0, 5)]


@pytest.mark.slow
def test_a_committed_transaction_is_read_and_its_marker_takes_an_offset(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    assert produce_transaction(broker, topic, ["a", "b"]) == [(0, 0), (0, 1)]
    assert produce(broker, topic, ["c"]) == [(0, 3)]
    assert offsets_in(broker, topic, committed=True) == [0, 1, 3]


def test_an_aborted_transaction_is_not_read(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    assert produce_transaction(broker, topic, ["a", "b"], abort=True) == [(0, 0), (0, 1)]
    produce(broker, topic, ["c"])
    assert offsets_in(broker, topic, committed=True) == [3]
    assert offsets_in(broker, topic) == [0, 1, 3]


def test_an_open_transaction_holds_back_what_comes_after_it(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, ["before"])
    opened = open_transaction(broker, topic, ["within"])
    produce(broker, topic, ["after"])
    assert ends(broker, topic) == {0: 3}
    assert ends(broker, topic, committed=True) == {0: 1}
    assert opened.commit() == [(0, 1)]
    assert offsets_in(broker, topic, committed=True) == [0, 1, 2]


@pytest.mark.slow
def test_the_broker_aborts_a_transaction_that_nobody_ends(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    open_transaction(broker, topic, ["within"], timeout_seconds=1)
    wait_until(lambda: ends(broker, topic, committed=True) == {0: 2}, "It is still open")
    assert offsets_in(broker, topic, committed=True) == []


def test_compaction_leaves_the_last_of_each_key(broker: Broker) -> None:
    topic = make_topic(
        broker, new_name(), cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01
    )
    produce(broker, topic, ["1", "2", "3", "4"], keys=["a", "b", "a", "a"])
    time.sleep(0.2)
    produce(broker, topic, ["5"], keys=["c"])
    assert wait_compacted(broker, topic) == [(0, 1), (0, 3), (0, 4)]


def test_a_topic_can_be_closed_to_the_user_who_logs_in(broker: Broker) -> None:
    closed, other = make_topic(broker, new_name()), make_topic(broker, new_name())
    produce(broker, closed, ["a"])
    forbid_reading(broker, closed)
    client = AdminClient(secure_client_of(broker))
    refused = client.list_topics(closed, timeout=10).topics[closed].error
    assert refused is not None
    assert refused.name() == "TOPIC_AUTHORIZATION_FAILED"
    assert client.list_topics(other, timeout=10).topics[other].error is None
    assert offsets_in(broker, closed) == [0]
