"""The offset of a source, told by its shape: the engine writes no kind beside it (but in v2).

The shapes are those of the classes FileStreamSourceOffset, DeltaSourceOffset, KafkaSourceOffset,
LongOffset (rate, socket and memory sources), RatePerMicroBatchStreamOffset and RateStreamOffset;
and those of batches that our own ingest plans (`sources/kafka/offsets.py`,
`sources/delta/offsets.py`). Any other is unknown, with its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.storage.json_text import json_value, long

# Delta's index for "before this version's first file" is below this one.
_FIRST_FILE = 0
# Of more partitions only their sum is told.
_MOST_SHOWN = 6


@dataclass(frozen=True)
class FileOffset:
    """The newest list in `sources/M` that is part of the batch."""

    log_offset: int

    @property
    def summary(self) -> str:
        return f"file list {self.log_offset}"


@dataclass(frozen=True)
class DeltaOffset:
    """A place in a Delta table's log: before file `index` of `version`, or, with an index below
    0, before the version's first file. `snapshot`: the query still reads the table as it was when
    the query began."""

    table_id: str
    version: int
    index: int
    snapshot: bool

    @property
    def before_version(self) -> bool:
        """Does the offset stand between two versions?"""
        return self.index < _FIRST_FILE

    @property
    def summary(self) -> str:
        if self.before_version:
            return f"before version {self.version} of table {self.table_id}"
        first = " (first snapshot)" if self.snapshot else ""
        return f"file {self.index} of version {self.version}{first} of table {self.table_id}"


@dataclass(frozen=True)
class KafkaOffset:
    """By topic and partition, the offset of the next record: one more than the last one read."""

    topics: Mapping[str, Mapping[int, int]]

    @property
    def summary(self) -> str:
        return "; ".join(
            f"{topic}: {_partitions_told(partitions)}" for topic, partitions in self.topics.items()
        )


@dataclass(frozen=True)
class PlannedTopics:
    """Offsets of topics that our ingest reads, by topic and partition, and each topic's id
    (empty: the broker gave none)."""

    ids: Mapping[str, str]
    topics: Mapping[str, Mapping[int, int]]

    @property
    def summary(self) -> str:
        return "; ".join(
            f"{topic} (id {self.ids[topic] or 'not known'}): {_partitions_told(partitions)}"
            for topic, partitions in self.topics.items()
        )


@dataclass(frozen=True)
class PlannedVersions:
    """Before a version of somebody's Delta table that our ingest reads."""

    table_id: str
    next: int

    @property
    def summary(self) -> str:
        return f"before version {self.next} of table {self.table_id}"


@dataclass(frozen=True)
class CountOffset:
    """A number: seconds of a rate source, records of a socket or memory source."""

    value: int

    @property
    def summary(self) -> str:
        return f"{self.value:,}"


@dataclass(frozen=True)
class _OffsetText:
    text: str

    @property
    def summary(self) -> str:
        return self.text


class RateOffset(_OffsetText):
    """Of a rate source that writes JSON (rate-micro-batch; the rate source in continuous mode)."""


class UnknownOffset(_OffsetText):
    """Of a source that this code does not know; its text."""


SourceOffset = (
    FileOffset
    | DeltaOffset
    | KafkaOffset
    | PlannedTopics
    | PlannedVersions
    | CountOffset
    | RateOffset
    | UnknownOffset
)


def source_offset(text: str) -> SourceOffset:
    """What an offset says, by its shape; UnknownOffset where no shape fits."""
    try:
        value = json_value(text)
    except ValueError:
        return UnknownOffset(text)
    if isinstance(value, int) and not isinstance(value, bool):
        return CountOffset(value)
    if not isinstance(value, dict):
        return UnknownOffset(text)
    try:
        return _of_object(value, text)
    except (KeyError, TypeError, ValueError, AttributeError):
        return UnknownOffset(text)


def _of_object(value: dict[str, Any], text: str) -> SourceOffset:
    if value.keys() == {"logOffset"}:
        return FileOffset(long(value["logOffset"]))
    if {"reservoirVersion", "index"} <= value.keys():
        # Older versions of Delta write the second name, newer ones either.
        snapshot = value.get("isInitialSnapshot", value.get("isStartingVersion", False))
        return DeltaOffset(
            str(value.get("reservoirId", "")),
            long(value["reservoirVersion"]),
            long(value["index"]),
            snapshot,
        )
    # Behind these stands what only some batches have.
    if {"id", "snapshot", "from", "next"} <= value.keys():
        return PlannedVersions(str(value["id"]), long(value["next"]))
    if value.keys() == {"offset", "timestamp"}:
        return RateOffset(text)
    if value and all(part.keys() == {"value", "runTimeMs"} for part in value.values()):
        return RateOffset(text)
    if value and all(part and _all_numbers(part) for part in value.values()):
        return KafkaOffset(
            {
                topic: {long(partition): offset for partition, offset in part.items()}
                for topic, part in value.items()
            }
        )
    if value and all({"id", "from", "next"} <= part.keys() for part in value.values()):
        return PlannedTopics(
            {topic: str(part["id"]) for topic, part in value.items()},
            {
                topic: {long(partition): long(offset) for partition, offset in part["next"].items()}
                for topic, part in value.items()
            },
        )
    return UnknownOffset(text)


def _partitions_told(partitions: Mapping[int, int]) -> str:
    if len(partitions) > _MOST_SHOWN:
        return f"{len(partitions)} partitions, sum of offsets {sum(partitions.values()):,}"
    return ", ".join(
        f"partition {number} before offset {offset:,}"
        for number, offset in sorted(partitions.items())
    )


def _all_numbers(partitions: dict[str, Any]) -> bool:
    return all(name.isdecimal() and isinstance(offset, int) for name, offset in partitions.items())
