"""Messages of a range of offsets, read by one process: the driver, or a task.

Each slice has a consumer of its own, which is assigned to its first offset, joins no group and
commits nothing. It ends where a message, or the end of the partition, lies behind its last offset:
transactions and compaction leave offsets that no message has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.errors import DataDamaged, SourceUnavailable
from tidemark.sources.kafka.client import consumer_of, refusal
from tidemark.sources.kafka.messages import AsLines
from tidemark.sources.kafka.offsets import Range
from tidemark.sources.source import PartUnreadable, Slice

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

# What one task reads; below that a batch is read by few.
SLICE_OFFSETS = 250_000
# Messages that are turned into lines at a time.
_AT_ONCE = 10_000
# A guess, which only decides whether the driver or tasks judge.
_BYTES_OF_A_MESSAGE = 500
# Without any message for so long, it is asked whether we may read.
_ASK_SECONDS = 3.0
# Without any message for so long, a broker is taken to be gone.
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class KafkaSlice(Slice):
    """`part` is the range (`Range`); `connection` is the name for people."""

    part: str
    connection: str
    options: Mapping[str, str] = field(repr=False)
    as_lines: AsLines

    @property
    def estimated_bytes(self) -> int:
        return Range.of(self.part).number * _BYTES_OF_A_MESSAGE

    def lines(self) -> Iterator[pa.Table]:
        for messages in self.messages():
            yield self.as_lines.table(messages)

    def messages(self) -> Iterator[Sequence[Message]]:
        """The messages in their order, several at a time. Raises as `lines`."""
        from confluent_kafka import TopicPartition

        own, heard = Range.of(self.part), []  # type: ignore[var-annotated]
        consumer = consumer_of(self.options, heard.append)
        try:
            consumer.assign([TopicPartition(own.topic, own.partition, own.first)])
            yield from self._messages(consumer, own, heard)
        finally:
            consumer.close()

    def _messages(
        self, consumer: Any, own: Range, heard: list[KafkaError]
    ) -> Iterator[Sequence[Message]]:
        assert own.last is not None
        last_seen, following = monotonic(), own.first
        asked = last_seen
        while True:
            found, ended = [], False
            # No more than there can be: the client waits until it has so many.
            most = min(_AT_ONCE, own.last + 1 - following)
            for message in consumer.consume(most, timeout=0.1):
                # Also true of the end of the partition, whose event has its offset.
                ended = ended or self._is_behind(message, own.last)
                if message.error() is None and message.offset() <= own.last:
                    found.append(message)
                    ended = ended or message.offset() == own.last
            if found:
                last_seen, following = monotonic(), found[-1].offset() + 1
                yield found
            if ended:
                return
            for error in heard:
                if refused := refusal(self.connection, error):
                    raise refused
            if monotonic() - max(last_seen, asked) > _ASK_SECONDS:
                self._check_let_in(consumer, own)
                asked = monotonic()
            if monotonic() - last_seen > PATIENCE_SECONDS:
                raise self._silent(own, heard)

    def _is_behind(self, message: Message, last: int) -> bool:
        """Does the message, or the end of the partition, lie behind the slice?"""
        from confluent_kafka import KafkaError

        error, offset = message.error(), message.offset()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return offset is not None and offset > last
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise PartUnreadable(self.part, "Its first offsets are not kept any more")
        if refused := refusal(self.connection, error):
            raise refused
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            raise PartUnreadable(self.part, "The topic or the partition is gone")
        if error.code() in (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION):
            raise self._damaged(message)
        # Anything else may pass: librdkafka tries again by itself, until patience ends.
        return False

    def _check_let_in(self, consumer: Any, own: Range) -> None:
        """A consumer hears nothing of a topic that its user may not know of."""
        from confluent_kafka import KafkaException

        try:
            told = consumer.list_topics(own.topic, timeout=1).topics[own.topic].error
        except KafkaException:
            return
        if told and (refused := refusal(self.connection, told)):
            raise refused

    def _damaged(self, message: Message) -> DataDamaged:
        error, own = message.error(), Range.of(self.part)
        assert error is not None
        return DataDamaged(
            f"Messages of topic {own.topic}, partition {own.partition}, from offset "
            f"{message.offset()} on are damaged where the broker keeps them: {error.str()}. "
            "Nothing of the batch was committed. Have another replica lead the partition. Where "
            "none is whole, delete the records up to behind them (kafka-delete-records): the next "
            "run says what was lost, and goes on when that is accepted."
        )

    def _silent(self, own: Range, heard: list[KafkaError]) -> SourceUnavailable:
        told = f": {heard[-1].str()}" if heard else ""
        return SourceUnavailable(
            f"Kafka gave no message of {own} for {PATIENCE_SECONDS:.0f} seconds (connection "
            f"`{self.connection}`){told}. Nothing of the batch was committed in this try. Is each "
            "broker running? The next try reads the batch again."
        )


def in_slices(whole: Range) -> Iterator[Range]:
    """A range in pieces that one process reads, in order."""
    assert whole.last is not None
    for first in range(whole.first, whole.last + 1, SLICE_OFFSETS):
        yield replace(whole, first=first, last=min(whole.last, first + SLICE_OFFSETS - 1))
