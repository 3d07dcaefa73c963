"""What is told of a row of gold, as frozen data, and as a document for JSON.

Times are in UTC. What a table no longer tells is None, and a sentence in `notes` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from tidemark.recompute.differences import plain

FORMAT = 1
# So many rows of a kind are told.
SAMPLE = 50
LONGEST_TEXT = 200
_BESIDE_MEASURES = ("window_end", "local_date", "status", "revision", "updated_by")


@dataclass(frozen=True)
class RowValue:
    """A value that the row had, in the order in which they came.

    `cause` is that of `changes`, or `rewind` or `retract` where such an act computed it; `run`
    computed it, of the stream in `batch` of the table's query, else after that one. `at` and
    `version` are those of the commit of the history that has it. `rows` 0: the row was gone then,
    and has no `values`; `failure`: a measure could not be computed, and gold had no row.
    `published`: did gold show it, and by which run; of a value that was replaced before the next
    publish: False. `undone`: the rewind that took it back. `late` counts the rows of bronze, still
    there, that came late by the same run. `in_order` is False where nobody knows whether it came
    before or after its neighbours. `by` and `reason`: of an act, who did it and why, where that was
    said.
    """

    values: Mapping[str, Any]
    rows: int
    cause: str
    run: str | None
    batch: int | None
    generation: int
    version: int | None = None
    at: datetime | None = None
    failure: str | None = None
    published: bool | None = None
    published_by: str | None = None
    undone: str | None = None
    late: int | None = None
    in_order: bool = True
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class RowPlace:
    """Where in the source a row comes from: `origin` are the columns that say it.

    Of a file `lines` says the line, from 1, of JSON lines; `record` the number of the record, from
    1, of other formats. Else `unknown` says why not.
    """

    origin: Mapping[str, Any]
    line: int | None = None
    record: int | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class SourceRow:
    """A row that came from the source. `batch` is that of ingest, planned at `read_at`, `run` what
    committed it."""

    event_time: datetime | None
    place: RowPlace
    batch: int | None
    read_at: datetime | None
    run: str | None


@dataclass(frozen=True)
class BronzeRow(SourceRow):
    """A row of bronze. `late`: did it come after its row of gold was closed to it? `values` are its
    columns, texts cut."""

    late: bool | None
    values: Mapping[str, Any]


@dataclass(frozen=True)
class RejectedRow(SourceRow):
    """A rejected row whose event time lies in the row of gold. `of_key`: has its text the keys?
    None where that cannot be told. `raw` is cut."""

    reason: str
    detail: str
    raw: str | None
    of_key: bool | None


@dataclass(frozen=True)
class BatchOfRows:
    """The rows of one batch of ingest, `late` of which came late; None: nobody knows any more."""

    batch: int | None
    run: str | None
    rows: int
    late: int | None


@dataclass(frozen=True)
class RowsOfInput:
    """The rows of an input that the row is made of, as the input is now: `input` is `bronze`, of a
    join's right side `bronze/PIPELINE`.

    `first` and `last` are event times. `parts` are the parts of the source (files, partitions of
    topics) with most of the rows, `other_parts` counts the rows of the others; `batches` the newest
    ones, likewise. `sample` are the first rows by event time, `late_sample` the late ones.
    `replayed` counts rejects that were replayed: their batch is that which rejected them, and no
    run ingested them.
    """

    input: str
    number: int
    first: datetime | None
    last: datetime | None
    late: int | None
    parts: tuple[tuple[str, int], ...]
    other_parts: int
    batches: tuple[BatchOfRows, ...]
    other_batches: int
    sample: tuple[BronzeRow, ...]
    late_sample: tuple[BronzeRow, ...]
    replayed: int = 0


@dataclass(frozen=True)
class Rejected:
    """How many were rejected in the row's time, of whatever key, by reason, and some of them, those
    of its keys first. `without_time` are those of the same batches whose event time nobody could
    read."""

    reasons: Mapping[str, int]
    without_time: int
    sample: tuple[RejectedRow, ...]


@dataclass(frozen=True)
class CheckSaid:
    """What a check said of a run that wrote the row; `table` None: it is of the source.
    `accepted` and `accepted_by`: why and by whom it was overridden."""

    run: str
    time: datetime
    table: str | None
    check: str
    severity: str
    passed: bool
    observed: str
    accepted: str | None = None
    accepted_by: str | None = None


@dataclass(frozen=True)
class AcceptedByHand:
    """A change by hand of bronze or gold that somebody accepted, whenever that was."""

    table: str
    up_to: int
    reason: str
    by: str
    at: datetime | None


@dataclass(frozen=True)
class CheckedRow:
    """Does gold equal what bronze gives now? None: that was not compared, and `said` tells why."""

    equal: bool | None
    said: str


@dataclass(frozen=True)
class Story:
    """The story of one row. `gold` is what gold shows now (None: it has no such row), with
    `status`, `revision` and `updated_by`. `window_end` is None where neither gold, nor its history
    nor the table's window tells it. `notes` are sentences: what cannot be told, and why."""

    pipeline: str
    table: str
    rows_are: str
    window_start: datetime
    window_end: datetime | None
    key: Mapping[str, Any]
    gold: Mapping[str, Any] | None
    gold_version: int
    values: tuple[RowValue, ...]
    bronze: tuple[RowsOfInput, ...]
    rejected: Rejected | None
    checks: tuple[CheckSaid, ...]
    accepted: tuple[AcceptedByHand, ...]
    notes: tuple[str, ...]
    checked: CheckedRow | None = None
    format: int = field(default=FORMAT, kw_only=True)


def story_document(story: Story) -> dict[str, Any]:
    """The story as JSON can hold it: times as ISO 8601, numbers that JSON does not have as text."""
    document: dict[str, Any] = plain(asdict(story))
    return document


def measures_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row of gold or of its history without what it has beside keys and measures."""
    return {name: value for name, value in values.items() if name not in _BESIDE_MEASURES}


def cut(value: Any) -> Any:
    """A value, of text no more than anybody reads."""
    if isinstance(value, bytes):
        return value[: LONGEST_TEXT // 2]
    is_text = isinstance(value, str)
    if is_text or isinstance(value, list | tuple | Mapping):
        text = value if is_text else str(value)
        return value if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return value
