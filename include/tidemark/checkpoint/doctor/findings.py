"""What the doctor says: a verdict, and findings that each tell what is known and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tidemark.checkpoint.reading.missing import count_of, numbers_of

# The files that a finding names; it counts the others.
EXAMPLES = 5


class CheckpointVerdict(StrEnum):
    """In what state a checkpoint is: how a query that starts on it begins."""

    NEW = "new"
    CLEAN_END = "clean end"
    NO_DATA_BATCH = "no-data batch due"
    KILLED = "killed in batch"
    UNKNOWN = "unknown"
    DAMAGED = "damaged"


class FindingKind(StrEnum):
    """What a finding is about."""

    LOG_FILE = "log file"
    UNFINISHED = "unfinished rewind"
    GAP = "gap"
    COMMIT_WITHOUT_OFFSET = "commit without offset"
    TWO_WRITERS = "two writers"
    METADATA = "metadata"
    OTHER_QUERY = "other query"
    STATE = "state cannot be rebuilt"
    STATE_AHEAD = "state ahead of the log"
    STATE_METADATA = "state metadata"
    CHECKSUM = "checksum"
    LEFTOVERS = "leftovers"
    WATERMARK = "watermark ahead"
    SOURCE_LIST = "source list"
    SOURCE_FILES = "source files"
    NO_DATA_BATCH = "no-data batch"
    REPEATED_BATCH = "repeated batch"
    UNKNOWN_FORMAT = "unknown format"
    UNKNOWN_FILES = "unknown files"


class Severity(StrEnum):
    """What a finding does to the verdict: damage makes it `damaged`, and what is not known here
    `unknown`; a warning and a note change nothing."""

    DAMAGE = "damage"
    UNKNOWN = "unknown"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    `known`: what the files say, with their names. `engine`: what a query says or does that starts
    here. `at_risk`: which data, or none. `advice`: what to do. `files`: at most EXAMPLES names,
    from the checkpoint's folder on, of `count`.
    """

    kind: FindingKind
    severity: Severity
    known: str
    engine: str
    at_risk: str
    advice: str
    files: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a checkpoint, in a word and in a sentence, and what was found, worst first.

    `batch` is the batch that the next start runs; None where that cannot be told.
    """

    verdict: CheckpointVerdict
    batch: int | None
    sentence: str
    findings: tuple[Finding, ...]

    @property
    def damage(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.severity is Severity.DAMAGE)


def examples(names: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """The first names and how many there are, as a finding holds them."""
    every = tuple(names)
    return every[:EXAMPLES], len(every)


def shown(names: Iterable[str]) -> str:
    """The first names in a sentence, and how many more there are."""
    every = tuple(names)
    more = len(every) - EXAMPLES
    return ", ".join(every[:EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")


def numbered(form: str, ranges: Iterable[range]) -> tuple[tuple[str, ...], int]:
    """Examples of files that `form` names by their numbers (`offsets/{}`), and how many there
    are."""
    every = tuple(ranges)
    return tuple(form.format(one) for one in numbers_of(every, EXAMPLES)), count_of(every)


def spans(ranges: Iterable[range]) -> str:
    """Ranges of numbers in a sentence: `3, 7–9`."""
    return shown(str(r.start) if len(r) == 1 else f"{r.start}–{r.stop - 1}" for r in ranges)
