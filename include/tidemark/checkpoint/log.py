"""Read one query's checkpoint while a run works on it: identity, offsets, commits, files.

Pure Python, no JVM. Unlike `reading`, which takes stock of a whole checkpoint and says what it
found, this reads single files and raises CheckpointUnreadable where one cannot be used: a run
cannot go on then. Only what our own queries write is taken: offsets of version `v1`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tidemark.checkpoint.reading.log_formats import (
    ListedFile,
    NotTheFormat,
    UnknownFormat,
    json_object,
    parse_commit,
    parse_listed_files,
    parse_metadata,
    parse_offsets,
    repartitions,
)
from tidemark.checkpoint.reading.source_offsets import DeltaOffset, FileOffset, source_offset
from tidemark.errors import CheckpointUnreadable
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing
from tidemark.storage.json_text import number_of

T = TypeVar("T")


@dataclass(frozen=True)
class Offsets:
    """`offsets/N`: written before batch N runs, and read again when it is repeated.

    `batch_time_ms` is the batch's own time (UTC), the same on replay. `watermark_ms` is 0
    before any event. `sources` holds each source's end offset as the engine wrote it; None
    where a source has none yet.
    """

    batch: int
    watermark_ms: int
    batch_time_ms: int
    sources: tuple[str | None, ...]


@dataclass(frozen=True)
class SourceFile:
    """A file as the engine's file source listed it: its URI (percent-encoded), and its
    modification time in that listing."""

    uri: str
    modified_ms: int


@dataclass(frozen=True)
class Checkpoint(FilePlace):
    """The folder of one query."""

    def query_id(self) -> str | None:
        """The query's identity; None where no query has started here yet."""
        data = self._read("metadata")
        return None if data is None else self._parsed("metadata", lambda: parse_metadata(data))

    def last_batch(self, log: str) -> int | None:
        """The newest batch of `offsets` or `commits`; None where there is none."""
        return max(self.batches(log), default=None)

    def restart_case(self) -> str:
        """How a query that starts now finds its checkpoint: `new`, `clean end`, or `repeats
        batch N`, which an earlier run planned and did not commit (class MicroBatchExecution)."""
        planned, committed = self.last_batch("offsets"), self.last_batch("commits")
        if planned is None:
            return "new"
        return "clean end" if planned == committed else f"repeats batch {planned}"

    def offsets(self, batch: int) -> Offsets:
        """The offsets of a batch. Raises CheckpointUnreadable where they are missing."""
        name = f"offsets/{batch}"
        data = self._content(name)
        entry = self._parsed(name, lambda: parse_offsets(batch, data))
        if entry.version != 1:
            raise self._unknown(name, f"v{entry.version}")
        if entry.watermark_ms is None or entry.batch_time_ms is None:
            raise self._cut_off(name, "no batch time or no watermark")
        return Offsets(
            batch, entry.watermark_ms, entry.batch_time_ms, tuple(entry.sources.values())
        )

    def next_watermark_ms(self, batch: int) -> int:
        """The watermark that the commit of `batch` left for the next one; 0 for none."""
        name = f"commits/{batch}"
        data = self._content(name)
        return self._parsed(name, lambda: parse_commit(batch, data)).next_watermark_ms

    def has_new_input(self, batch: int) -> bool:
        """False for a no-data batch, which only moves state by the newer watermark."""
        ends = self.offsets(batch).sources
        return batch == 0 or ends != self.offsets(batch - 1).sources

    def is_repartition(self, batch: int) -> bool:
        """Is it the batch of an offline repartition, which reads nothing and emits nothing?"""
        if batch not in self.batches("offsets") or batch - 1 not in self.batches("offsets"):
            return False
        before, after = (
            parse_offsets(one, self._content(f"offsets/{one}")) for one in (batch - 1, batch)
        )
        return repartitions(before, after)

    def source_files(self, batch: int) -> tuple[SourceFile, ...]:
        """The files that `batch` reads, in the order of their URIs."""
        end = self.log_offset(batch)
        start = self.log_offset(batch - 1) if batch > 0 else -1
        entries = [
            entry for number in range(start + 1, end + 1) for entry in self._file_log(number)
        ]
        return tuple(sorted(entries, key=lambda entry: entry.uri))

    def batches(self, log: str, ending: str = "") -> tuple[int, ...]:
        """The batches whose `offsets` or `commits` are kept, in order: the engine removes old
        ones. With an ending (`.compact`), those of files that end so."""
        names = [place.rpartition("/")[2] for place in self.files(log) if place.endswith(ending)]
        numbers = (number_of(name.removesuffix(ending)) for name in names)
        return tuple(sorted(number for number in numbers if number is not None))

    def delta_version(self, batch: int) -> int:
        """The version of the Delta table that the batch after this one begins with.

        A batch reads whole versions (class DeltaSourceOffset, JSON: `reservoirVersion`, and an
        `index` below 0 for "before its first file"). CheckpointUnreadable where it does not.
        """
        name, sources = f"offsets/{batch}", self.offsets(batch).sources
        text = sources[0] if sources and sources[0] else "{}"
        self._parsed(name, lambda: json_object(text))
        offset = source_offset(text)
        if not isinstance(offset, DeltaOffset) or not offset.before_version:
            raise CheckpointUnreadable(
                f"{self.uri}/{name} does not stand between two versions of a Delta table: it "
                f"holds {sources[:1]}. Was the query started with a limit of files for each "
                "batch? Nothing was changed by this."
            )
        return offset.version

    def delta_versions(self, batch: int) -> dict[str, int]:
        """The version that the batch after this one begins with, of each Delta table that the
        query reads, by the tables' ids; not of one that it has not looked at yet.
        CheckpointUnreadable where an id stands there twice."""
        found: dict[str, int] = {}
        for text in self.offsets(batch).sources:
            offset = None if text is None else source_offset(text)
            if offset is None:
                continue
            if not isinstance(offset, DeltaOffset) or not offset.before_version:
                raise CheckpointUnreadable(
                    f"{self.uri}/offsets/{batch} does not stand between two versions of a Delta "
                    f"table: it holds {text}. Nothing was changed by this."
                )
            if offset.table_id in found:
                raise CheckpointUnreadable(
                    f"{self.uri}/offsets/{batch} has the table {offset.table_id} twice: was a "
                    "table's folder copied to where another one belongs? Nothing was changed."
                )
            found[offset.table_id] = offset.version
        return found

    def log_offset(self, batch: int) -> int:
        """The entry of the file source's log that `batch` reads up to; -1 before the first."""
        name, sources = f"offsets/{batch}", self.offsets(batch).sources
        if not sources:
            raise self._cut_off(name, "no source's offset")
        if sources[0] is None:
            return -1
        offset = source_offset(sources[0])
        if not isinstance(offset, FileOffset):
            raise self._cut_off(name, repr(sources[0][:80]))
        return offset.log_offset

    def listed_files(self, name: str) -> tuple[ListedFile, ...]:
        """The entries of a list of the file source, `N` or `N.compact`."""
        place = f"sources/0/{name}"
        data = self._content(place)
        return self._parsed(place, lambda: parse_listed_files(data))

    def _file_log(self, number: int) -> list[SourceFile]:
        plain, compact = f"{number}", f"{number}.compact"
        name = plain if self._read(f"sources/0/{plain}") is not None else compact
        entries = self.listed_files(name)
        files = [SourceFile(one.uri, one.modified_ms) for one in entries if one.batch == number]
        if not files:
            # The engine writes no batch of no files.
            raise self._cut_off(f"sources/0/{name}", "no file")
        return files

    def _content(self, name: str) -> bytes:
        data = self._read(name)
        if not data:
            state = "missing" if data is None else "empty"
            raise CheckpointUnreadable(
                f"{self.uri}/{name} is {state}; the checkpoint cannot be continued as it is. "
                "Restore the file from a backup, or the whole checkpoint with its tables."
            )
        return data

    def _read(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except FileMissing:
            return None

    def _parsed(self, name: str, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except UnknownFormat as error:
            raise self._unknown(name, str(error)) from error
        except NotTheFormat as error:
            raise self._cut_off(name, str(error)) from error

    def _unknown(self, name: str, version: str) -> CheckpointUnreadable:
        return CheckpointUnreadable(
            f"{self.uri}/{name} has the log format {version!r}; v1 is known"
        )

    def _cut_off(self, name: str, held: str) -> CheckpointUnreadable:
        return CheckpointUnreadable(
            f"{self.uri}/{name} is cut off or not what the engine writes: it holds {held}. "
            "Restore the file from a backup, or the whole checkpoint with its tables."
        )
