"""The first messages of topics, for a look at them, from all partitions in proportion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from tidemark.sources.kafka.offsets import Offset, ranges
from tidemark.sources.kafka.planning import first_step
from tidemark.sources.kafka.slices import KafkaSlice, in_slices

if TYPE_CHECKING:
    from confluent_kafka import Message

# Where compaction left few messages, they are looked for among so many times as many offsets.
_FURTHER = 10


def first_messages(
    planned: Offset, most: int, slice_of: Callable[..., KafkaSlice]
) -> list[Message]:
    """At most so many of the messages of a plan; those of a partition in their order. Raises what
    reading them raises. `slice_of`: of the ranges that it is given."""
    found: list[Message] = []
    left, offsets = planned, most
    while len(found) < most and ranges(left):
        step, left = first_step(left, offsets)
        # All of the first step are taken, in whatever order they come.
        parts = [*in_slices(ranges(step))] if offsets == most else [(one,) for one in ranges(step)]
        for together in parts:
            messages = chain.from_iterable(slice_of(*together).messages())
            found += islice(messages, most - len(found))
        offsets *= _FURTHER
    return found


def ends_behind(planned: Offset, messages: Sequence[Message]) -> dict[str, dict[int, int]]:
    """By topic and partition, the offset behind the last of these messages of a plan; where there
    is none, where the plan begins."""
    ends = {name: dict(one.begin) for name, one in planned.items()}
    for one in messages:
        topic, partition, offset = str(one.topic()), one.partition(), one.offset()
        assert partition is not None
        assert offset is not None
        ends[topic][partition] = max(ends[topic][partition], offset + 1)
    return ends
