"""The text of a query's logs: bytes in, frozen values out.

The formats are those of the engine's classes StreamMetadata (`metadata`), OffsetSeqLog
(`offsets/N`, v1 by position and v2 by source id), CommitLog (`commits/N`, v1, v2 with the unique
ids of state files, v3 with sinks besides) and FileStreamSourceLog (`sources/M/N`). A parser
raises NotTheFormat where a file is not what the engine writes, UnknownFormat where a newer engine
wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tidemark.pipeline.instants import in_calendar
from tidemark.storage.json_text import json_value, long, number_of

# What the engine writes for a source that has no offset yet.
_NO_OFFSET = "-"
_SHOWN = 80
_PARTITIONS = "spark.sql.shuffle.partitions"
# Each partition is a task in each batch: a query with more of them would never end one.
MOST_PARTITIONS = 100_000
_DIGITS = 10
# The version of a file that no engine reads: a rewind puts it where no query may start meanwhile.
STOP_MARK = "v999999"
# How the name of a list ends that repeats all before it (CompactibleFileStreamLog).
COMPACT = ".compact"


class NotTheFormat(ValueError):
    """A file is cut off, or is not what the engine writes; the message says what it holds."""


class UnknownFormat(ValueError):
    """A file has a version that this code does not know; the message is its first line."""


@dataclass(frozen=True)
class OffsetEntry:
    """`offsets/N`, written before batch N runs: where it ends in each source.

    Times are milliseconds since 1970, UTC; None where the file has none (Spark before 2.2).
    `sources` holds each source's offset as the engine wrote it, by the source's id (its position
    in v1), None where it has none yet. `providers` names the sources' kinds, in v2 only.
    """

    batch: int
    version: int
    watermark_ms: int | None
    batch_time_ms: int | None
    conf: Mapping[str, str]
    sources: Mapping[str, str | None]
    providers: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int | None:
        """How many partitions each stateful operator has; None where that is not recorded."""
        return partitions_of(self.conf)


def partitions_of(conf: Mapping[str, str]) -> int | None:
    """How many partitions each stateful operator has, by what offsets record."""
    recorded = conf.get(_PARTITIONS, "")
    return min(int(recorded[:_DIGITS]), MOST_PARTITIONS) or None if recorded.isdecimal() else None


def repartitions(before: OffsetEntry, after: OffsetEntry) -> bool:
    """Is `after` the batch of an offline repartition? It reads nothing and runs by the watermark of
    the batch before it: its offsets are that one's, with another number of partitions (class
    OfflineStateRepartitionRunner, createNewBatchFromLastCommitted)."""
    numbers = before.partitions, after.partitions
    if None in numbers or numbers[0] == numbers[1]:
        return False
    conf = {**before.conf, _PARTITIONS: after.conf[_PARTITIONS]}
    return replace(before, batch=before.batch + 1, conf=conf) == after


@dataclass(frozen=True)
class CommitEntry:
    """`commits/N`, written when batch N is done. `next_watermark_ms` is 0 for none.

    `state_ids`: by operator and partition, the unique ids in the names of the state files that
    batch N wrote; empty where the files have none (v1, and v3 of a query in checkpoint format 1).
    """

    batch: int
    version: int
    next_watermark_ms: int
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ListedFile:
    """A file in the list of a file source: its URI (percent-encoded), the time of its last change
    as it was listed (milliseconds since 1970, `in_calendar`), and the source's own batch that took
    it."""

    uri: str
    modified_ms: int
    batch: int


def parse_metadata(data: bytes) -> str:
    """The query's id."""
    text = _text(data)
    with in_format(repr(text[:_SHOWN])):
        return str(json_object(text)["id"])


def parse_offsets(batch: int, data: bytes) -> OffsetEntry:
    """The offsets of a batch; no metadata is no error here, as it is none for the engine."""
    version, lines = versioned_lines(data, newest=2)
    if not lines:
        raise NotTheFormat("no metadata")
    metadata = json_object(lines[0]) if lines[0].strip() else {}
    sources = _by_id(lines[1:]) if version > 1 else _by_position(lines[1:])
    with in_format(repr(lines[0][:_SHOWN])):
        infos = metadata.get("sourceMetadataInfo", {})
        return OffsetEntry(
            batch,
            version,
            _whole(metadata.get("batchWatermarkMs")),
            _whole(metadata.get("batchTimestampMs")),
            {str(name): str(value) for name, value in metadata.get("conf", {}).items()},
            sources,
            {str(name): str(info["providerName"]) for name, info in infos.items()},
        )


def parse_commit(batch: int, data: bytes) -> CommitEntry:
    """The commit of a batch; one without a line after its version is empty, as for the engine."""
    version, lines = versioned_lines(data, newest=3)
    text = lines[0] if lines else "{}"
    metadata = json_object(text)
    with in_format(repr(text[:_SHOWN])):
        ids = metadata.get("stateUniqueIds") or {}
        return CommitEntry(
            batch,
            version,
            long(metadata.get("nextBatchWatermarkMs", 0)),
            {long(name): tuple(tuple(one) for one in parts) for name, parts in ids.items()},
        )


def parse_listed_files(data: bytes) -> tuple[ListedFile, ...]:
    """The files that a file source lists, in their order in the list."""
    _, lines = versioned_lines(data, newest=1)
    return tuple(_listed_file(line) for line in lines)


def list_numbers(names: Iterable[str]) -> dict[str, int]:
    """Those of some names that are of lists of files, `N` and `N.compact`, with their numbers."""
    numbers = {name: number_of(name.removesuffix(COMPACT)) for name in names}
    return {name: number for name, number in numbers.items() if number is not None}


def versioned_lines(data: bytes, newest: int) -> tuple[int, list[str]]:
    """The version in the first line, and the other lines (class MetadataVersionUtil)."""
    # Not splitlines: a file's name may hold other characters that end a line for Python.
    first, *lines = _text(data).removesuffix("\n").split("\n")
    number = number_of(first.strip().removeprefix("v"))
    if not first.startswith("v") or not number or number > newest:
        raise UnknownFormat(first.strip()[:_SHOWN])
    return number, lines


def json_object(text: str) -> dict[str, Any]:
    """A JSON object; NotTheFormat where the text is not one."""
    try:
        value = json_value(text)
    except ValueError as error:
        raise NotTheFormat(repr(text[:_SHOWN])) from error
    if not isinstance(value, dict):
        raise NotTheFormat(repr(text[:_SHOWN]))
    return value


def _by_position(lines: list[str]) -> dict[str, str | None]:
    return {str(at): None if line == _NO_OFFSET else line for at, line in enumerate(lines)}


def _by_id(lines: list[str]) -> dict[str, str | None]:
    sources: dict[str, str | None] = {}
    for line in lines:
        name, colon, offset = line.partition(":")
        if not colon:
            raise NotTheFormat(repr(line[:_SHOWN]))
        sources[name] = None if offset == _NO_OFFSET else offset
    return sources


def _listed_file(line: str) -> ListedFile:
    entry = json_object(line)
    with in_format(repr(line[:_SHOWN])):
        modified_ms = in_calendar(long(entry["timestamp"]))
        return ListedFile(str(entry["path"]), modified_ms, long(entry["batchId"]))


@contextmanager
def in_format(held: str) -> Iterator[None]:
    """NotTheFormat, which says what a file holds, where a field is missing or of another type."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotTheFormat(held) from error


def _whole(value: Any) -> int | None:
    return None if value is None else long(value)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
