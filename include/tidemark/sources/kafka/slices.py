"""Messages of ranges of offsets, read by one process: the driver, or a task.

Each slice has a consumer of its own, which is assigned to its first offsets, joins no group and
commits nothing. A range ends where a message, or the end of the partition, lies behind its last
offset: transactions and compaction leave offsets that no message has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.errors import DataDamaged, InputNeeded, SourceUnavailable
from tidemark.sources.kafka.client import consumer_of, refusal
from tidemark.sources.kafka.messages import AsLines
from tidemark.sources.kafka.offsets import OffsetRange
from tidemark.sources.source import PartUnreadable, Slice, TypedRows

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, TopicPartition

# What one task reads; below that a batch is read by few.
SLICE_OFFSETS = 250_000
# So many offsets of several partitions are read by one consumer: to begin one takes as long as to
# read thousands of messages.
TOGETHER = 25_000
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
    """`ranges` are of different partitions; `connection` is the name for people."""

    ranges: tuple[OffsetRange, ...]
    connection: str
    options: Mapping[str, str] = field(repr=False)
    as_lines: AsLines

    @property
    def label(self) -> str:
        return ", ".join(map(str, self.ranges))

    @property
    def estimated_bytes(self) -> int:
        return sum(one.number for one in self.ranges) * _BYTES_OF_A_MESSAGE

    def typed(self, most_bytes: int) -> Iterator[TypedRows] | None:
        lines = self.as_lines
        if lines.values.format != "avro" or lines.fields or lines.row_keys is not None:
            return None
        return (self.as_lines.typed(one, most_bytes) for one in self._readable())

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        return (self.as_lines.table(one, most_bytes) for one in self._readable())

    def _readable(self) -> Iterator[Sequence[Message]]:
        """The messages, up to those for which more is needed."""
        needed: set[str] = set()
        for messages in self.messages():
            needed |= self.as_lines.needed(messages)
            if not needed:
                yield messages
        if needed:
            raise InputNeeded(tuple(sorted(needed)))

    def messages(self) -> Iterator[Sequence[Message]]:
        """The messages, those of a partition in their order, several at a time. Raises as
        `lines`."""
        heard: list[KafkaError] = []
        consumer = consumer_of(self.options, heard.append)
        try:
            consumer.assign(_partitions(self.ranges))
            yield from self._messages(consumer, heard)
        finally:
            consumer.close()

    def _messages(self, consumer: Any, heard: list[KafkaError]) -> Iterator[Sequence[Message]]:
        # By topic and partition, of the ranges that are not read to their end.
        left = {(one.topic, one.partition): one for one in self.ranges}
        following = {place: one.first for place, one in left.items()}
        last_seen = asked = monotonic()
        while True:
            found, ended = [], []
            # No more than there can be: the client waits until it has so many.
            most = sum(_last(one) + 1 - following[place] for place, one in left.items())
            for message in consumer.consume(min(_AT_ONCE, most), timeout=0.1):
                error, place = message.error(), (message.topic(), message.partition())
                if error is not None and self._may_pass(message, error):
                    continue
                if (own := left.get(place)) is None:
                    continue
                offset, last = message.offset(), _last(own)
                if error is None and offset <= last:
                    found.append(message)
                    following[place] = offset + 1
                # Also true of the end of the partition, whose event has its offset.
                if offset > last or following[place] > last:
                    ended.append(left.pop(place))
            if found:
                last_seen = monotonic()
                yield found
            if not left:
                return
            if ended:
                consumer.pause(_partitions(ended))
            for error in heard:
                if refused := refusal(self.connection, error):
                    raise refused
            if monotonic() - max(last_seen, asked) > _ASK_SECONDS:
                self._check_let_in(consumer, {topic for topic, _ in left})
                asked = monotonic()
            if monotonic() - last_seen > PATIENCE_SECONDS:
                raise self._silent(list(left.values()), heard)

    def _may_pass(self, message: Message, error: KafkaError) -> bool:
        """Is it one that librdkafka tries again by itself, until patience ends, and not the event
        of a partition's end? Raises what others mean."""
        from confluent_kafka import KafkaError as Codes

        if error.code() == Codes._PARTITION_EOF:
            return False
        if error.code() in (Codes._AUTO_OFFSET_RESET, Codes.OFFSET_OUT_OF_RANGE):
            why = "Its first offsets are not kept any more"
            raise PartUnreadable(str(self._range_of(message)), why)
        if refused := refusal(self.connection, error):
            raise refused
        if error.code() in (Codes.UNKNOWN_TOPIC_OR_PART, Codes._UNKNOWN_PARTITION):
            why = "The topic or the partition is gone"
            raise PartUnreadable(str(self._range_of(message)), why)
        if error.code() in (Codes._BAD_MSG, Codes._BAD_COMPRESSION):
            raise self._damaged(message)
        return True

    def _range_of(self, message: Message) -> OffsetRange:
        """The range that an error is of; where it names no partition, one of the topic's."""
        of_topic = [one for one in self.ranges if one.topic == message.topic()]
        of_it = [one for one in of_topic if one.partition == message.partition()]
        return (of_it or of_topic or self.ranges)[0]

    def _check_let_in(self, consumer: Any, topics: Iterable[str]) -> None:
        """A consumer hears nothing of a topic that its user may not know of."""
        from confluent_kafka import KafkaException

        for topic in topics:
            try:
                error = consumer.list_topics(topic, timeout=1).topics[topic].error
            except KafkaException:
                return
            if error and (refused := refusal(self.connection, error)):
                raise refused

    def _damaged(self, message: Message) -> DataDamaged:
        error, own = message.error(), self._range_of(message)
        assert error is not None
        return DataDamaged(
            f"Messages of topic {own.topic}, partition {own.partition}, from offset "
            f"{message.offset()} on are damaged where the broker keeps them: {error.str()}. "
            "Nothing of the batch was committed. Have another replica lead the partition. Where "
            "none is whole, delete the records up to behind them (kafka-delete-records): the next "
            "run says what was lost, and goes on when that is accepted."
        )

    def _silent(self, left: Sequence[OffsetRange], heard: list[KafkaError]) -> SourceUnavailable:
        cause = f": {heard[-1].str()}" if heard else ""
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return SourceUnavailable(
            f"Kafka gave no message of {left[0]}{more} for {PATIENCE_SECONDS:.0f} seconds "
            f"(connection `{self.connection}`){cause}. Nothing of the batch was committed in this "
            "try. Is each broker running? The next try reads the batch again."
        )


def in_slices(parts: Iterable[OffsetRange]) -> Iterator[tuple[OffsetRange, ...]]:
    """Ranges as one process each reads them, in order: large ones in pieces, small ones of
    different partitions together."""
    together: dict[tuple[str, int], OffsetRange] = {}
    offsets = 0
    for one in (piece for whole in parts for piece in _pieces(whole)):
        place = one.topic, one.partition
        if together and (place in together or offsets + one.number > TOGETHER):
            yield tuple(together.values())
            together, offsets = {}, 0
        together[place] = one
        offsets += one.number
    if together:
        yield tuple(together.values())


def _pieces(whole: OffsetRange) -> Iterator[OffsetRange]:
    last = _last(whole)
    for first in range(whole.first, last + 1, SLICE_OFFSETS):
        yield replace(whole, first=first, last=min(last, first + SLICE_OFFSETS - 1))


def _last(one: OffsetRange) -> int:
    assert one.last is not None
    return one.last


def _partitions(ranges: Sequence[OffsetRange]) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(one.topic, one.partition, one.first) for one in ranges]
