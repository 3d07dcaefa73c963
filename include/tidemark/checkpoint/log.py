"""Read a query's checkpoint: identity, offsets, commits, and the files of a batch.

Pure Python, no JVM. Formats are those of the engine's classes StreamMetadata (`metadata`),
OffsetSeqLog (`offsets/N`), CommitLog (`commits/N`) and FileStreamSourceLog (`sources/0/N`,
`sources/0/N.compact`), version `v1`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.errors import CheckpointUnreadable
from tidemark.storage.files import FileMissing, list_files, read_bytes

# What a Delta source's offset holds as its index when it stands before a version's first file.
_BEFORE_FIRST_FILE = 0


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
class Checkpoint:
    """The folder of one query, with the storage options that reach it."""

    uri: str
    options: Mapping[str, str]

    def query_id(self) -> str | None:
        """The query's identity; None where no query has started here yet."""
        data = self._read("metadata")
        if data is None:
            return None
        return str(self._json("metadata", data.decode())["id"])

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
        lines = self._lines(name)
        metadata = self._json(name, lines[0]) if lines else None
        if not metadata or not {"batchWatermarkMs", "batchTimestampMs"} <= metadata.keys():
            raise self._cut_off(name, f"no batch time or no watermark: {lines[:1]}")
        sources = tuple(None if line == "-" else line for line in lines[1:])
        return Offsets(batch, metadata["batchWatermarkMs"], metadata["batchTimestampMs"], sources)

    def next_watermark_ms(self, batch: int) -> int:
        """The watermark that the commit of `batch` left for the next one; 0 for none."""
        name = f"commits/{batch}"
        lines = self._lines(name)
        return int(self._json(name, lines[0])["nextBatchWatermarkMs"]) if lines else 0

    def has_new_input(self, batch: int) -> bool:
        """False for a no-data batch, which only moves state by the newer watermark."""
        ends = self.offsets(batch).sources
        return batch == 0 or ends != self.offsets(batch - 1).sources

    def source_files(self, batch: int) -> tuple[SourceFile, ...]:
        """The files that `batch` reads, in the order of their URIs."""
        end = self._log_offset(batch)
        start = self._log_offset(batch - 1) if batch > 0 else -1
        entries = [
            entry for number in range(start + 1, end + 1) for entry in self._file_log(number)
        ]
        return tuple(sorted(entries, key=lambda entry: entry.uri))

    def batches(self, log: str) -> tuple[int, ...]:
        """The batches whose `offsets` or `commits` are kept, in order: the engine removes old
        ones."""
        names = [
            place.rpartition("/")[2] for place in list_files(f"{self.uri}/{log}", self.options)
        ]
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def delta_version(self, batch: int) -> int:
        """The version of the Delta table that the batch after this one begins with.

        A batch reads whole versions (class DeltaSourceOffset, JSON: `reservoirVersion`, and an
        `index` below 0 for "before its first file"). CheckpointUnreadable where it does not.
        """
        name, sources = f"offsets/{batch}", self.offsets(batch).sources
        offset = self._json(name, sources[0]) if sources and sources[0] else None
        if offset is None or offset["index"] >= _BEFORE_FIRST_FILE:
            raise CheckpointUnreadable(
                f"{self.uri}/{name} does not stand between two versions of a Delta table: it "
                f"holds {sources[:1]}. Was the query started with a limit of files for each "
                "batch? Nothing was changed by this."
            )
        return int(offset["reservoirVersion"])

    def _log_offset(self, batch: int) -> int:
        name, sources = f"offsets/{batch}", self.offsets(batch).sources
        if not sources:
            raise self._cut_off(name, "no source's offset")
        offset = sources[0]
        return -1 if offset is None else int(self._json(name, offset)["logOffset"])

    def _file_log(self, number: int) -> list[SourceFile]:
        plain, compact = f"sources/0/{number}", f"sources/0/{number}.compact"
        name = plain if self._read(plain) is not None else compact
        entries = [self._json(name, line) for line in self._lines(name)]
        files = [
            SourceFile(entry["path"], entry["timestamp"])
            for entry in entries
            if entry["batchId"] == number
        ]
        if not files:
            # The engine writes no batch of no files.
            raise self._cut_off(name, "no file")
        return files

    def _lines(self, name: str) -> list[str]:
        data = self._read(name)
        if not data:
            state = "missing" if data is None else "empty"
            raise CheckpointUnreadable(
                f"{self.uri}/{name} is {state}; the checkpoint cannot be continued as it is. "
                "Restore the file from a backup, or the whole checkpoint with its tables."
            )
        version, *lines = data.decode(errors="replace").splitlines()
        if version != "v1":
            raise CheckpointUnreadable(
                f"{self.uri}/{name} has the log format {version!r}; v1 is known"
            )
        return lines

    def _read(self, name: str) -> bytes | None:
        try:
            return read_bytes(f"{self.uri}/{name}", self.options)
        except FileMissing:
            return None

    def _json(self, name: str, text: str) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise self._cut_off(name, repr(text[:80])) from error
        return dict(value)

    def _cut_off(self, name: str, held: str) -> CheckpointUnreadable:
        return CheckpointUnreadable(
            f"{self.uri}/{name} is cut off or not what the engine writes: it holds {held}. "
            "Restore the file from a backup, or the whole checkpoint with its tables."
        )
