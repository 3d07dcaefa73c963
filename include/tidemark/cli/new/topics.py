"""`--from kafka:CONNECTION/TOPIC`: the first messages of a topic.

Read without a consumer group, from all partitions in proportion, and put into the order in which
they came: by Kafka's time of the message, those of a partition as they stand there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tidemark.cli.new.sample import MOST_LINES, Row, Sample, SourceSample, row_of
from tidemark.errors import SampleUnusable
from tidemark.pipeline.kafka_columns import KEY, TIME, check_topic
from tidemark.pipeline.model import KafkaTopics
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.settings.connections import client_options, connection_of, registry_of
from tidemark.pipeline.settings.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tidemark.sources.kafka.client import KafkaCluster
    from tidemark.sources.kafka.values import MessageValues

_MOST_SHOWN = 10
# What is meant to be a JSON object, or is no text in UTF-8.
_NO_TEXT = re.compile(r"\A\s*\{|[\x00-\x08\x0b\x0c\x0e-\x1f\ufffd]")
_AS_TEXT = (
    "The values are text and no JSON objects: each is one text, `value`. Take it apart in `derive`."
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sampled_topic(given: str, settings: Settings, pipeline: str) -> SourceSample:
    """The topic of a connection, with its first messages."""
    from tidemark.sources.kafka.client import KafkaCluster

    kafka = _named(given, settings)
    topic, connection = str(kafka.topic), connection_of(settings.connections, kafka.connection)
    cluster = KafkaCluster(kafka.connection, client_options(connection), kafka.isolation)
    _check_is_there(topic, cluster)
    messages = _first(topic, cluster, kafka.max_message_bytes)
    source: dict[str, Any] = {"kafka": {"topic": topic, "connection": kafka.connection}}
    most_bytes = min(kafka.max_message_bytes, settings.max_line_bytes)
    values = _values(messages, kafka.connection, settings)
    source |= {} if values.format == "json" else {"format": values.format}
    reasons = (_AS_TEXT,) if values.format == "text" else ()
    return SourceSample(source, _sample(topic, messages, values, most_bytes), reasons)


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
    from tidemark.sources.kafka.values import MessageValues

    states = cluster.states([topic])
    planned = first_offset(states, {topic: states[topic].first})
    options = {**cluster.options, "isolation.level": cluster.isolation}
    lines = AsLines((), most_bytes, MessageValues("json"))
    found = first_messages(
        planned, MOST_LINES, lambda *parts: KafkaSlice(parts, cluster.name, options, lines)
    )
    return _as_they_came(found)


def _values(messages: Sequence[Message], connection: str, settings: Settings) -> MessageValues:
    """How nine in ten values are written: by their first bytes, or as text of which hardly any is a
    JSON object. Raises what asking a schema registry raises."""
    from tidemark.sources.kafka.registry import asked_for
    from tidemark.sources.kafka.values import PREFIX, MessageValues

    values = [value for message in messages if (value := message.value())]
    named = [value for value in values if value[0] == 0 and len(value) >= PREFIX]
    if not named or len(named) < 0.9 * len(values):
        texts = sum(not _NO_TEXT.search(value.decode(errors="replace")) for value in values)
        return MessageValues("text" if texts and texts >= 0.9 * len(values) else "json")
    if sum(value[PREFIX:].lstrip().startswith(b"{") for value in named) >= 0.9 * len(named):
        return MessageValues("json_schema")
    found = MessageValues("avro")
    registry = registry_of(settings.connections, connection)
    schemas = asked_for(registry, connection, sorted(found.needed(messages)))
    kinds = Counter(json.loads(text)["kind"] for text in schemas.values() if text)
    protobuf = kinds["PROTOBUF"] > kinds["AVRO"]
    return replace(found, format="protobuf" if protobuf else "avro", schemas=schemas)


def _as_they_came(messages: Iterable[Message]) -> list[Message]:
    def partition(message: Message) -> int:
        return message.partition() or 0

    by_partition = groupby(sorted(messages, key=partition), partition)
    in_order = [list(own) for _, own in by_partition]
    return list(merge(*in_order, key=lambda message: message.timestamp()[1]))


def _sample(
    topic: str, messages: Sequence[Message], values: MessageValues, most_bytes: int
) -> Sample:
    from tidemark.sources.kafka.messages import as_lines
    from tidemark.sources.kafka.values import ValueUnusable

    if not messages:
        raise SampleUnusable(
            f"The topic `{topic}` has no message that can be read yet. Try again when it has some."
        )
    found: list[tuple[Row, Message]] = []
    for message in messages:
        value = message.value()
        with suppress(ValueUnusable):
            if value is not None and len(value) <= most_bytes:
                row = row_of(values.line(value, values.header(message)))
                found += [] if row is None else [(row, message)]
    if not found:
        raise SampleUnusable(
            f"None of the first {len(messages):,} messages of `{topic}` has a value that is one "
            "JSON object, a record of a schema registry's, or text (`format: text`), which a "
            "source of messages needs. Then put them into another topic as JSON."
        )
    beside = {TIME: tuple(_time(message) for _, message in found)}
    # Keys that are no text would make their messages malformed; a registry's begin with a zero.
    with suppress(UnicodeDecodeError):
        keys = tuple(_text(message.key()) for _, message in found)
        beside |= {} if any(key and key[0] == "\0" for key in keys) else {KEY: keys}
    rows = tuple(row for row, _ in found)
    return Sample(
        rows,
        len(messages),
        lambda of: [as_lines(of, most_bytes, values.schemas).table(messages, most_bytes)],
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
