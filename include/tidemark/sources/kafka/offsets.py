"""The offset of a batch as our stream of Kafka plans it: plain JSON, whole by itself.

    {"clicks": {"id": "yUq…", "from": {"0": 100, "1": 80}, "next": {"0": 150, "1": 80}}}

By topic its id, and by partition where the batch begins and where the next one does. So the
checkpoint of an ingest tells of each batch which offsets it reads, of which topic of that name:
a topic that was made anew has another id. `"again": true` of a topic tells an offset from the one
before it, of the same numbers: messages were cut off, and written anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.errors import CheckpointUnreadable
from tidemark.storage.json_text import json_value


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition, the last one included; a `last` of None is not known."""

    topic: str
    partition: int
    first: int
    last: int | None

    def __str__(self) -> str:
        last = "" if self.last is None else self.last
        return f"{self.topic}/{self.partition}/{self.first}-{last}"

    @property
    def number(self) -> int:
        """How many offsets; 0 where that is not known."""
        return 0 if self.last is None else self.last - self.first + 1

    @classmethod
    def of(cls, part: str) -> OffsetRange:
        """Of the text that a range has as a part. No topic's name has a slash."""
        topic, partition, offsets = part.split("/")
        first, _, last = offsets.partition("-")
        return cls(topic, int(partition), int(first), int(last) if last else None)


@dataclass(frozen=True)
class TopicOffset:
    """What a batch reads of a topic: by partition, from which offset on, and where the next batch
    begins. `id` is empty where the broker gives none. `again` tells it from the one before it, of
    the same numbers."""

    id: str
    begin: Mapping[int, int]
    next: Mapping[int, int]
    again: bool = False


Offset = Mapping[str, TopicOffset]


def offset_text(offset: Offset) -> str:
    """An offset as the checkpoint has it."""
    return json.dumps(
        {
            name: {"id": one.id, "from": _by_text(one.begin), "next": _by_text(one.next)}
            | ({"again": True} if one.again else {})
            for name, one in sorted(offset.items())
        }
    )


def offset_of(text: str, place: str) -> Offset:
    """What an offset says; CheckpointUnreadable where it is none of ours. `place`: its file."""
    try:
        return {
            name: TopicOffset(
                str(one["id"]),
                _by_number(one["from"]),
                _by_number(one["next"]),
                bool(one.get("again", False)),
            )
            for name, one in json_value(text).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointUnreadable(
            f"{place} does not tell which offsets of Kafka a batch reads: {text[:200]!r}. Nothing "
            "was read. Restore it from a backup, or move the pipeline's whole folder away to start "
            "from the topic again."
        ) from error


def ranges(offset: Offset) -> list[OffsetRange]:
    """What a batch reads, in order; partitions without a new offset are left out."""
    return [
        OffsetRange(name, partition, one.begin[partition], end - 1)
        for name, one in sorted(offset.items())
        for partition, end in sorted(one.next.items())
        if one.begin[partition] < end
    ]


def without(whole: OffsetRange, gone: OffsetRange) -> list[OffsetRange]:
    """What is left of a range without another one of the same partition; both are known."""
    if (whole.topic, whole.partition) != (gone.topic, gone.partition):
        return [whole]
    assert whole.last is not None
    gone_last = whole.last if gone.last is None else gone.last
    before = OffsetRange(whole.topic, whole.partition, whole.first, min(whole.last, gone.first - 1))
    after = OffsetRange(whole.topic, whole.partition, max(whole.first, gone_last + 1), whole.last)
    return [one for one in (before, after) if one.number > 0]


def _by_text(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _by_number(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}
