"""When the oldest message that was not read came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from tidemark.sources.kafka.client import consumer_of
from tidemark.sources.kafka.offsets import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_SECONDS = 5.0


def oldest_message_ms(options: Mapping[str, str], unread: Sequence[OffsetRange]) -> int | None:
    """The earliest of the partitions' first messages, in milliseconds since 1970, UTC; None where
    there is none, or none came in five seconds."""
    from confluent_kafka import TopicPartition

    if not unread:
        return None
    heard: list[KafkaError] = []
    consumer = consumer_of({**options, "queued.min.messages": "1"}, heard.append)
    waiting = {(one.topic, one.partition) for one in unread}
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(one.topic, one.partition, one.first) for one in unread])
        began = monotonic()
        while waiting and monotonic() - began < _SECONDS:
            message = consumer.poll(0.2)
            if message is None or (message.topic(), message.partition()) not in waiting:
                continue
            waiting.discard((message.topic(), message.partition()))
            consumer.pause([TopicPartition(message.topic(), message.partition())])
            if message.error() is None and message.timestamp()[0]:
                found.append(message.timestamp()[1])
    finally:
        consumer.close()
    return min(found, default=None)
