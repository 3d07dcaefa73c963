"""Messages as lines, read from a real broker without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_INVALID
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kafka import (
    client_of,
    configure_topic,
    delete_records,
    ends,
    forbid_reading,
    make_topic,
    new_name,
    open_transaction,
    produce,
    produce_transaction,
    secure_client_of,
    started_broker,
    wait_compacted,
)
from tidemark.errors import DataDamaged, SourceRefused, SourceUnavailable
from tidemark.pipeline.settings.connections import Connection, client_options
from tidemark.sources.kafka import slices
from tidemark.sources.kafka.client import KafkaCluster
from tidemark.sources.kafka.messages import AsLines, spliced
from tidemark.sources.kafka.offsets import OffsetRange
from tidemark.sources.kafka.slices import KafkaSlice, in_slices
from tidemark.sources.kafka.values import MessageValues
from tidemark.sources.source import PartUnreadable

if TYPE_CHECKING:
    from broker.broker import Broker

ALL = ("_key", "_kafka_time", "_headers", "_topic", "_partition", "_offset")
AT = 1_782_900_000_123
JSON = MessageValues("json")
SHOWN = f"here are the first 101. SHA-256 of all: {sha256(b'x' * 101).hexdigest()}"


def read(
    broker: Broker,
    topic: str,
    fields: tuple[str, ...] = (),
    most: int = 100,
    last: int | None = None,
) -> list[dict[str, Any]]:
    """The lines of all offsets of partition 0, or of those up to `last`."""
    end = ends(broker, topic)[0] - 1 if last is None else last
    options = {**client_of(broker), "isolation.level": "read_committed"}
    part = OffsetRange(topic, 0, 0, end)
    pieces = KafkaSlice((part,), "broker", options, AsLines(fields, 100, JSON)).lines(10**9)
    return [line for piece in pieces for line in piece.to_pylist()]


def test_what_a_message_says_of_itself_stands_before_the_fields_of_its_value(
    broker: Broker,
) -> None:
    topic = make_topic(broker, new_name(), retention_ms=-1)
    values = [b'{"a": 1}', b" {}", b"[1]", b"not JSON"]
    headers = [("h", b"1"), ("h", None)]
    produce(broker, topic, values, keys=["k"] * 4, headers=headers, timestamps=[AT] * 4)
    lines = read(broker, topic, ALL)
    assert json.loads(lines[0]["_as_read"]) == {
        "_key": "k",
        "_kafka_time": "2026-07-01T10:00:00.123+00:00",
        "_headers": [{"key": "h", "value": "1"}, {"key": "h", "value": None}],
        "_topic": topic,
        "_partition": 0,
        "_offset": 0,
        "a": 1,
    }
    assert lines[0]["_value"] == values[0]
    assert (lines[0]["_topic"], lines[0]["_partition"], lines[0]["_offset"]) == (topic, 0, 0)
    assert list(json.loads(lines[1]["_as_read"])) == list(ALL)
    assert [line["_as_read"] for line in lines[2:]] == values[2:]
    assert [line["_as_read"] for line in read(broker, topic)] == values
    assert {line["_reason"] for line in lines} == {None}


def test_a_message_that_cannot_be_a_row_is_rejected_with_the_reason(broker: Broker) -> None:
    any_time = {"retention_ms": -1, "message_timestamp_after_max_ms": 2**63 - 1}
    topic = make_topic(broker, new_name(), **any_time)
    produce(broker, topic, [None, b"x" * 101], keys=["k", "k"])
    produce(broker, topic, [b"{}"], keys=[b"\xff"])
    produce(broker, topic, [b"{}"], headers=[("h", b"\xff")])
    produce(broker, topic, [b"{}"], timestamps=[AT * 1_000_000])
    lines = read(broker, topic, ALL)
    assert lines[1]["_value"] == b"x" * 101
    assert [(one["_reason"], one["_detail"]) for one in lines] == [
        ("no value", "The message has no value (a tombstone)"),
        ("too large", f"The value has 101 bytes, at most 100 are taken; {SHOWN}"),
        ("malformed", "The message's key is not UTF-8"),
        ("malformed", "The message's header `h` is not UTF-8"),
        ("malformed", f"Kafka's time of the message, {AT * 1_000_000} ms, is beyond the year 9999"),
    ]
    # Who does not ask for them does not mind.
    assert [one["_reason"] for one in read(broker, topic)] == ["no value", "too large", *[None] * 3]


def test_a_line_with_what_is_declared_of_the_message_is_held_to_the_settings_bound(
    broker: Broker,
) -> None:
    topic = make_topic(broker, new_name(), retention_ms=-1)
    produce(broker, topic, [b"{}", b"{}"], keys=["k", "k" * 5_000])
    options = {**client_of(broker), "isolation.level": "read_committed"}
    for fields, reasons in (((), [None, None]), (("_key",), [None, "too large"])):
        one = KafkaSlice((OffsetRange(topic, 0, 0, 1),), "c", options, AsLines(fields, 10**6, JSON))
        lines = [line for piece in one.lines(5_000) for line in piece.to_pylist()]
        assert [line["_reason"] for line in lines] == reasons
    assert lines[1]["_detail"].startswith("The value with what is declared of the message has 5,0")


@given(
    st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans())),
    st.sampled_from(["", " ", "\r\n\t"]),
)
def test_fields_are_added_to_any_object(value: dict[str, Any], blank: str) -> None:
    text = (blank + json.dumps(value, indent=1 if blank else None) + blank).encode()
    assert json.loads(spliced(text, b'"_key": "k"')) == {"_key": "k", **value}


@pytest.mark.slow
def test_a_slice_ends_with_its_last_offset_whether_a_message_has_it_or_not(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, [b"1"])
    produce_transaction(broker, topic, [b"2", b"3"], partition=0)
    produce_transaction(broker, topic, [b"4"], partition=0, abort=True)
    # Markers have offsets of their own: 3 and 5.
    assert ends(broker, topic) == {0: 6}
    assert [one["_value"] for one in read(broker, topic)] == [b"1", b"2", b"3"]
    assert [one["_value"] for one in read(broker, topic, last=3)] == [b"1", b"2", b"3"]
    assert [one["_value"] for one in read(broker, topic, last=1)] == [b"1", b"2"]
    opened = open_transaction(broker, topic, [b"5"], partition=0)
    committed = ends(broker, topic, committed=True)
    assert committed == {0: 6}
    connection = Connection(servers=(broker.servers,), security_protocol="PLAINTEXT")
    for isolation, end in (("read_committed", 6), ("read_uncommitted", 7)):
        state = KafkaCluster("broker", client_options(connection), isolation).states([topic])[topic]
        assert state.end == {0: end}
    opened.commit()
    assert [one["_value"] for one in read(broker, topic)] == [b"1", b"2", b"3", b"5"]


@pytest.mark.slow
def test_of_a_compacted_topic_what_is_left_is_read(broker: Broker) -> None:
    small = {"cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": 0.01}
    topic = make_topic(broker, new_name(), **small)
    for number in range(3):
        produce(broker, topic, [str(number).encode()], keys=["same"])
    time.sleep(0.3)
    produce(broker, topic, [b"last"], keys=["other"])
    left = wait_compacted(broker, topic)
    assert len(left) < 4
    configure_topic(broker, topic, cleanup_policy="delete")
    assert [one["_offset"] for one in read(broker, topic)] == [offset for _, offset in left]


def test_slices_of_a_range_have_each_offset_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_OFFSETS", 4)
    monkeypatch.setattr(slices, "TOGETHER", 0)
    found = [part for (part,) in in_slices([OffsetRange("t", 1, 3, 12)])]
    assert [(one.first, one.last) for one in found] == [(3, 6), (7, 10), (11, 12)]
    assert {(one.topic, one.partition) for one in found} == {("t", 1)}


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 30)), max_size=9)
)
def test_small_ranges_are_together_in_a_slice_those_of_one_partition_are_not(
    given_parts: list[tuple[str, int, int]],
) -> None:
    parts = [
        OffsetRange(topic, partition, 100 * n, 100 * n + number - 1)
        for n, (topic, partition, number) in enumerate(given_parts)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_OFFSETS", 20)
        patch.setattr(slices, "TOGETHER", 12)
        found = list(in_slices(parts))
    offsets = [(p.topic, p.partition, n) for one in found for p in one for n in _offsets(p)]
    assert offsets == [(p.topic, p.partition, n) for p in parts for n in _offsets(p)]
    for one in found:
        assert len({(p.topic, p.partition) for p in one}) == len(one)
        assert len(one) == 1 or sum(p.number for p in one) <= 12


def _offsets(part: OffsetRange) -> range:
    assert part.last is not None
    return range(part.first, part.last + 1)


@pytest.mark.slow
def test_one_slice_reads_ranges_of_many_partitions_each_to_its_own_end(broker: Broker) -> None:
    """Some end in the middle of what is there, some where offsets have no message."""
    topic = make_topic(broker, new_name(), 40)
    other = make_topic(broker, new_name(), 2)
    for partition in range(40):
        produce(broker, topic, [b"%d" % n for n in range(5)], partition=partition)
    produce_transaction(broker, other, [b"6", b"7"], partition=1)
    of_topic = [
        OffsetRange(topic, partition, partition % 3, 4 - partition % 2) for partition in range(40)
    ]
    parts = (*of_topic, OffsetRange(other, 1, 0, 2))
    options = {**client_of(broker), "isolation.level": "read_committed"}
    pieces = KafkaSlice(parts, "broker", options, AsLines((), 100, JSON)).lines(10**9)
    lines = [line for piece in pieces for line in piece.to_pylist()]
    found = [(one["_topic"], one["_partition"], one["_offset"]) for one in lines]
    for one in of_topic:
        own = [offset for *place, offset in found if place == [one.topic, one.partition]]
        assert own == list(_offsets(one))
    assert found.count((other, 1, 0)) == found.count((other, 1, 1)) == 1
    assert len(found) == sum(one.number for one in of_topic) + 2


def test_offsets_that_expired_are_no_empty_slice(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, [b"1", b"2", b"3"])
    delete_records(broker, topic, {0: 2})
    with pytest.raises(PartUnreadable, match="not kept any more"):
        read(broker, topic)


@pytest.mark.long
@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_messages_that_a_disk_has_changed_are_no_rows_and_are_told_by_their_offset(
    codec: str,
) -> None:
    with started_broker() as broker:
        topic = make_topic(broker, new_name(), compression_type=codec)
        for number in range(3):
            produce(broker, topic, [b"%d" % number * 50])
        broker.stop()
        file = broker.data() / f"{topic}-0" / f"{0:020}.log"
        data = bytearray(file.read_bytes())
        data[len(data) * 2 // 3 - 20] ^= 0x55
        file.write_bytes(data)
        broker.start()
        with pytest.raises(DataDamaged, match="partition 0, from offset 1 on are damaged"):
            read(broker, topic)
        delete_records(broker, topic, {0: 2})
        options = client_of(broker)
        one = KafkaSlice((OffsetRange(topic, 0, 2, 2),), "broker", options, AsLines((), 100, JSON))
        assert [len(piece) for piece in one.lines(10**9)] == [1]


def secure(broker: Broker, **changed: Any) -> Connection:
    told = {
        "servers": broker.secure_servers,
        "mechanism": "SCRAM-SHA-512",
        "user": broker.user,
        "password": broker.password,
        "ca": str(broker.ca_pem),
    }
    return Connection.model_validate({**told, **changed})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_over_tls_reads(broker: Broker, mechanism: str) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, [b"1"])
    options = client_options(secure(broker, mechanism=mechanism))
    assert "BEGIN CERTIFICATE" in options["ssl.ca.pem"]
    assert KafkaCluster("c", options, "read_committed").states([topic])[topic].end == {0: 1}
    one = KafkaSlice((OffsetRange(topic, 0, 0, 0),), "c", options, AsLines((), 100, JSON))
    assert [len(piece) for piece in one.lines(10**9)] == [1]
    assert broker.password not in repr(one)
    assert secure_client_of(broker)["sasl.username"] == broker.user


@pytest.mark.slow
def test_who_is_not_let_in_is_told_so_and_need_not_try_again(broker: Broker) -> None:
    topic = make_topic(broker, new_name())
    produce(broker, topic, [b"1"])
    for connection, why in (
        (secure(broker, password="wrong"), "login was refused"),
        (secure(broker, user="nobody"), "login was refused"),
        (secure(broker, ca=str(broker.other_ca_pem)), "could not be encrypted"),
    ):
        with pytest.raises(SourceRefused, match=why):
            KafkaCluster("c", client_options(connection), "read_committed").states([topic])
    assert not SourceRefused.retry_can_help
    forbid_reading(broker, topic)
    one = KafkaSlice(
        (OffsetRange(topic, 0, 0, 0),), "c", client_options(secure(broker)), AsLines((), 100, JSON)
    )
    with pytest.raises(SourceRefused, match="may not read"):
        list(one.lines(10**9))


@pytest.mark.slow
def test_a_broker_that_stops_answering_is_waited_for_and_then_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidemark.sources.kafka.client.ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(slices, "PATIENCE_SECONDS", 2.0)
    with started_broker() as broker:
        topic = make_topic(broker, new_name())
        produce(broker, topic, [b"1"])
        options = client_options(secure(broker))
        one = KafkaSlice((OffsetRange(topic, 0, 0, 0),), "c", options, AsLines((), 100, JSON))
        broker.pause()
        with pytest.raises(SourceUnavailable, match="cannot be asked"):
            KafkaCluster("c", options, "read_committed").states([topic])
        with pytest.raises(SourceUnavailable, match="gave no message"):
            list(one.lines(10**9))
        broker.resume()
        assert KafkaCluster("c", options, "read_committed").states([topic])[topic].end == {0: 1}
        assert [len(piece) for piece in one.lines(10**9)] == [1]
        broker.kill()
        with pytest.raises(SourceUnavailable, match="cannot be asked"):
            KafkaCluster("c", options, "read_committed").states([topic])


@pytest.mark.long
def test_a_broker_that_dies_within_a_slice_and_comes_back_leaves_it_whole() -> None:
    with started_broker() as broker:
        topic = make_topic(broker, new_name())
        values = [str(number).encode() * 20 for number in range(60_000)]
        produce(broker, topic, values)
        options = {**client_options(secure(broker)), "fetch.max.bytes": "200000"}
        options |= {"message.max.bytes": "100000"}
        options |= {"queued.max.messages.kbytes": "200", "max.partition.fetch.bytes": "100000"}
        one = KafkaSlice((OffsetRange(topic, 0, 0, 59999),), "c", options, AsLines((), 10**6, JSON))
        pieces = one.lines(10**9)
        found = next(pieces)["_value"].to_pylist()
        broker.kill()
        broker.start()
        found += [line for piece in pieces for line in piece["_value"].to_pylist()]
        assert found == values


@pytest.mark.long
def test_a_partition_without_a_leader_is_named() -> None:
    with started_broker(nodes=3) as broker:
        topic = make_topic(broker, new_name(), 3, nodes=[1, 2, 3])
        options = client_options(
            Connection(servers=tuple(broker.servers.split(",")), security_protocol="PLAINTEXT")
        )
        assert len(KafkaCluster("c", options, "read_committed").states([topic])[topic].end) == 3
        broker.kill(3)
        with pytest.raises(SourceUnavailable, match=r"Partition \d of topic .* has no leader now"):
            _ask_until_it_is_known(options, topic)


def test_an_offset_that_is_none_is_not_taken_for_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a partition's leader changes, librdkafka may answer -1001, and no error: seen when a
    node was killed. It would be the end of the partition, and what was read cut off."""
    topic = make_topic(broker, new_name())
    produce(broker, topic, [b"1"])
    cluster = KafkaCluster("c", client_of(broker), "read_committed")
    answered = cluster._answer

    def none(answer: Any) -> Any:
        found = answered(answer)
        return SimpleNamespace(offset=OFFSET_INVALID) if hasattr(found, "offset") else found

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "_answer", none)
        with pytest.raises(SourceUnavailable, match="has no leader now"):
            cluster.states([topic])
        with pytest.raises(SourceUnavailable, match="has no leader now"):
            cluster.since([(topic, 0)], AT)
    assert cluster.states([topic])[topic].end == {0: 1}
    # Of a time that is still to come there is none yet.
    assert cluster.since([(topic, 0)], AT * 2) == {(topic, 0): None}


def _ask_until_it_is_known(options: Mapping[str, str], topic: str) -> None:
    """The other nodes miss it after a while; until then its own answer is waited for. Each time by
    a client of its own, as a run asks: an older one tells errors that it has heard before."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            KafkaCluster("c", options, "read_committed").states([topic])
        except SourceUnavailable as error:
            if "no leader" in str(error):
                raise
        time.sleep(0.1)
