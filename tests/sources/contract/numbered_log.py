"""A second kind of source, for tests: a log of numbered messages in partitions, which expire.

A folder holds a folder for each partition, in it a file for each message, named by its offset, and
`ends.json`: the offset of the next message of each partition. Messages expire from the oldest on,
so what a batch planned may be gone when it is read. An offset of the engine's is `{"0": 12}`: by
partition, the next one to be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import SourceNotFound
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.model import SOURCE_KINDS, Pipeline, Source
from tidemark.pipeline.places import INGEST
from tidemark.sources import kinds
from tidemark.sources.large_lines import bounded
from tidemark.sources.source import (
    FirstRows,
    OriginColumn,
    PartUnreadable,
    PartVerdict,
    Reading,
    Slice,
    SourceHandle,
)

EXPIRED = "expired"
ENDS = "ends.json"


class LogSource(Source):
    """A folder below the root."""

    log: str

    @property
    def label(self) -> str:
        return self.log


@dataclass(frozen=True)
class Span:
    """Messages of a partition from one offset to another, the last one included."""

    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.partition}/{self.first}-{self.last}"

    @classmethod
    def of(cls, part: str) -> Span:
        partition, _, offsets = part.partition("/")
        first, _, last = offsets.partition("-")
        return cls(int(partition), int(first), int(last))


@dataclass(frozen=True)
class LogSlice(Slice):
    """The messages of a part."""

    part: str
    folder: str

    @property
    def label(self) -> str:
        return self.part

    @property
    def estimated_bytes(self) -> int:
        span = Span.of(self.part)
        return 100 * (span.last - span.first + 1)

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        span = Span.of(self.part)
        offsets = range(span.first, span.last + 1)
        files = [Path(self.folder, str(span.partition), f"{offset:012}") for offset in offsets]
        try:
            messages = [file.read_bytes() for file in files]
        except FileNotFoundError as error:
            raise PartUnreadable(self.part, "expired") from error
        yield pa.table(
            {
                **bounded(pa.array(messages, pa.binary()), most_bytes, lambda _: "The message"),
                "_partition": pa.repeat(pa.scalar(span.partition, pa.int32()), len(messages)),
                "_offset": pa.array(offsets, pa.int64()),
            }
        )


@dataclass(frozen=True)
class PlacedLog(SourceHandle):
    """A part is a span of one partition."""

    origin = (
        OriginColumn("_partition", "integer", "The partition of the log"),
        OriginColumn("_offset", "long", "The message's offset in it"),
    )

    @property
    def folder(self) -> Path:
        return Path(self.places.source(log_of(self.pipeline)))

    def check(self, ingest: Checkpoint) -> None:
        if not (self.folder / ENDS).exists():
            raise SourceNotFound(f"There is no log {self.folder}. Nothing was read.")
        ends, read = self.ends(), planned_up_to(ingest)
        if back := [p for p, offset in read.items() if ends.get(p, 0) < offset]:
            raise SourceNotFound(
                f"The log {self.folder} ends before what was read of its partitions {back}: it is "
                "another one. Nothing was read."
            )

    def unread(self, ingest: Checkpoint) -> str | None:
        new = sum(span.last - span.first + 1 for span in self._unread(ingest))
        return f"{new:,} messages are new" if new else None

    def unread_bytes(self, ingest: Checkpoint) -> int:
        files = (file for span in self._unread(ingest) for file in self.there(span).values())
        return sum(file.stat().st_size for file in files)

    def reading(self, ingest: Checkpoint, batch: int, committed: Reading | None) -> Reading:
        if committed is None:
            return self._readable(_slice(ingest, batch), (), "They were never read")
        gone = [Span.of(verdict.part) for verdict in committed.verdicts]
        # What expired is the beginning of what was planned.
        begin = {span.partition: span.last + 1 for span in gone}
        left = [
            Span(one.partition, max(one.first, begin.get(one.partition, 0)), one.last)
            for one in _slice(ingest, batch)
        ]
        detail = "Bronze keeps what it took; which of them were rejected is unknown"
        return self._readable(left, committed.verdicts, detail)

    def slices(self, ingest: Checkpoint, batch: int, reading: Reading) -> Sequence[Slice]:
        return [LogSlice(part, str(self.folder)) for part in reading.read]

    def left_out(
        self,
        ingest: Checkpoint,
        batch: int,
        reading: Reading,
        unreadable: Mapping[str, str],
        repeated: bool,
    ) -> Reading:
        return self.reading(ingest, batch, reading if repeated else None)

    def origin_of(self, part: str) -> Mapping[str, Any]:
        span = Span.of(part)
        return {"_partition": span.partition, "_offset": span.first}

    def first_rows(self, most: int, copies: Path) -> FirstRows:
        begin = dict.fromkeys(self.ends(), 0)
        spans = _between(begin, self.ends())
        files = [file for span in spans for _, file in sorted(self.there(span).items())][:most]
        for number, file in enumerate(files):
            (copies / str(number)).parent.mkdir(parents=True, exist_ok=True)
            (copies / str(number)).write_bytes(file.read_bytes() + b"\n")
        source = {"files": f"{copies.name}/*"}
        return FirstRows(source, len(files), len(spans), "message", "partition")

    @classmethod
    def changes(cls, old: Pipeline, new: Pipeline) -> Iterator[Difference]:
        before, after = log_of(old), log_of(new)
        if before != after:
            reason = "Offsets of one log say nothing of another"
            verdict = ChangeVerdict.NOT_ALLOWED
            yield Difference(INGEST, "source.log", before, after, verdict, reason)

    def ends(self) -> dict[str, int]:
        ends: dict[str, int] = json.loads((self.folder / ENDS).read_text())
        return ends

    def there(self, span: Span) -> dict[int, Path]:
        """The files of its messages that have not expired, by offset."""
        files = (self.folder / str(span.partition)).glob("*")
        return {n: file for file in files if span.first <= (n := int(file.name)) <= span.last}

    def _unread(self, ingest: Checkpoint) -> list[Span]:
        return _between(planned_up_to(ingest), self.ends())

    def _readable(
        self, spans: list[Span], verdicts: tuple[PartVerdict, ...], detail: str
    ) -> Reading:
        read, found = [], list(verdicts)
        for span in spans:
            first = min(self.there(span), default=span.last + 1)
            if first > span.first:
                gone = Span(span.partition, span.first, first - 1)
                found.append(PartVerdict(str(gone), EXPIRED, f"Messages {gone}. {detail}"))
            if first <= span.last:
                read.append(str(Span(span.partition, first, span.last)))
        return Reading(tuple(read), tuple(found), {})


def log_of(pipeline: Pipeline) -> str:
    assert isinstance(pipeline.source, LogSource)
    return pipeline.source.log


def planned_up_to(ingest: Checkpoint) -> dict[str, int]:
    """By partition, the offset that the next batch begins with."""
    last = ingest.last_batch("offsets")
    return {} if last is None else _end_of(ingest, last)


def _slice(ingest: Checkpoint, batch: int) -> list[Span]:
    begin = _end_of(ingest, batch - 1) if batch else {}
    return _between(begin, _end_of(ingest, batch))


def _end_of(ingest: Checkpoint, batch: int) -> dict[str, int]:
    (text,) = ingest.offsets(batch).sources
    assert text is not None
    end: dict[str, int] = json.loads(text)
    return end


def _between(begin: Mapping[str, int], end: Mapping[str, int]) -> list[Span]:
    spans = [Span(int(p), begin.get(p, 0), offset - 1) for p, offset in end.items()]
    return sorted((span for span in spans if span.first <= span.last), key=lambda s: s.partition)


SOURCE_KINDS["log"] = LogSource
kinds.KINDS[LogSource] = PlacedLog
