"""`--from kafka:CONNECTION/TOPIC`: the first messages of a topic.

Read without a consumer group, from all partitions in proportion, and put into the order in which
they came: by Kafka's time of the message, those of a partition as they stand there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING

from tidemark.cli.new.sample import MOST_LINES, Row, Sample, SourceSample, row_of
from tidemark.errors import SampleUnusable
from tidemark.pipeline.kafka_columns import KEY, TIME, check_topic
from tidemark.pipeline.model import KafkaTopics
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.settings.connections import client_options, connection_of
from tidemark.pipeline.settings.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tidemark.sources.kafka.client import KafkaCluster

_MOST_SHOWN = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sampled_topic(given: str, settings: Settings, pipeline: str) -> SourceSample:
    """The topic of a connection, with its first messages."""
    # The client takes a tenth of a second to load, which other commands do without.
    from tidemark.sources.kafka.client import KafkaCluster

    kafka = _named(given, settings)
    topic, connection = str(kafka.topic), connection_of(settings.connections, kafka.connection)
    cluster = KafkaCluster(kafka.connection, client_options(connection), kafka.isolation)
    _check_is_there(topic, cluster)
    messages = _first(topic, cluster, kafka.max_message_bytes)
    source = {"kafka": {"topic": topic, "connection": kafka.connection}}
    most_bytes = min(kafka.max_message_bytes, settings.max_line_bytes)
    return SourceSample(source, _sample(topic, messages, most_bytes))


def _named(given: str, settings: Settings) -> KafkaTopics:
    connection, _, topic = given.partition("/")
    if not connection or not topic:
        known = ", ".join(sorted(settings.connections)) or "none yet"
        raise SampleUnusable(
            "A topic is named kafka:CONNECTION/TOPIC, by a connection of the settings' "
            f"`connections` ({known})."
        )
    try:
        check_topic(topic)
    except ValueError as error:
        raise SampleUnusable(f"`{topic}` {error}.") from error
    return KafkaTopics(topic=topic, connection=connection)


def _check_is_there(topic: str, cluster: KafkaCluster) -> None:
    found = cluster.topics(".*")
    if topic in found:
        return
    near = nearest(topic, found)
    hint = f" Did you mean `{near}`?" if near else ""
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    known = f"{', '.join(found[:_MOST_SHOWN])}{more}" if found else "none that its user may see"
    raise SampleUnusable(
        f"There is no topic `{topic}` in the cluster of the connection `{cluster.name}`.{hint} "
        f"It has: {known}."
    )


def _first(topic: str, cluster: KafkaCluster, most_bytes: int) -> list[Message]:
    from tidemark.sources.kafka.first_messages import first_messages
    from tidemark.sources.kafka.messages import AsLines
    from tidemark.sources.kafka.planning import first_offset
    from tidemark.sources.kafka.slices import KafkaSlice

    states = cluster.states([topic])
    planned = first_offset(states, {topic: states[topic].first})
    options = {**cluster.options, "isolation.level": cluster.isolation}
    lines = AsLines((), most_bytes)
    found = first_messages(
        planned, MOST_LINES, lambda *parts: KafkaSlice(parts, cluster.name, options, lines)
    )
    return _as_they_came(found)


def _as_they_came(messages: Iterable[Message]) -> list[Message]:
    def partition(message: Message) -> int:
        return message.partition() or 0

    by_partition = groupby(sorted(messages, key=partition), partition)
    in_order = [list(own) for _, own in by_partition]
    return list(merge(*in_order, key=lambda message: message.timestamp()[1]))


def _sample(topic: str, messages: Sequence[Message], most_bytes: int) -> Sample:
    from tidemark.sources.kafka.messages import as_lines

    if not messages:
        raise SampleUnusable(
            f"The topic `{topic}` has no message that can be read yet. Try again when it has some."
        )
    found: list[tuple[Row, Message]] = []
    for message in messages:
        value = message.value()
        row = None if value is None or len(value) > most_bytes else row_of(value)
        if row is not None:
            found.append((row, message))
    if not found:
        raise SampleUnusable(
            f"None of the first {len(messages):,} messages of `{topic}` has a value that is one "
            "JSON object, which a source of messages needs. Are they Avro or Protobuf? Then put "
            "them into another topic as JSON."
        )
    beside = {TIME: tuple(_time(message) for _, message in found)}
    # Keys that are no text would make their messages malformed.
    with suppress(UnicodeDecodeError):
        beside[KEY] = tuple(_text(message.key()) for _, message in found)
    rows = tuple(row for row, _ in found)
    return Sample(
        rows,
        len(messages),
        lambda pipeline: [as_lines(pipeline, most_bytes).table(messages, most_bytes)],
        row="message",
        beside=beside,
    )


def _text(key: bytes | str | None) -> str | None:
    return key.decode() if isinstance(key, bytes) else key


def _time(message: Message) -> str | None:
    """The message's time as `_kafka_time` has it; None where it has none that a run takes."""
    try:
        time = _EPOCH + timedelta(milliseconds=message.timestamp()[1])
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds")
