"""What a table's commits say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from tidemark.storage.delta.notes import EmittedNote, IngestNote, Note, note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.rows import Rows
from tidemark.storage.delta.surviving_commits import surviving_commits

# Entry of a commit's metadata: the rows in files that were written before and added by it.
ROWS_ADDED = "rowsAdded"


@dataclass(frozen=True)
class IngestCommit:
    """A commit of ingest: its batch, what its note says, and the rows that it really appended.

    `scheduled_ms` is the scheduled time of the run that made it, `parts` how many parts of the
    source were rejected as a whole. `run` made it; None: its note is older than that entry.
    """

    version: int
    query: str
    batch: int
    rows: Rows
    parts: int
    appended: int
    scheduled_ms: int
    run: str | None = None


def rows_appended(table: DeltaTable, after_version: int) -> int:
    """Rows appended in the commits after a version, by the commits' own metrics."""
    return sum(rows_of(commit) for commit in commits_after(table, after_version))


def rows_between(table: DeltaTable, first: int, last: int) -> int | None:
    """Rows appended in the versions first..last, both included; None where the log no longer
    reaches back to the first."""
    commits = _commits_from(table, first)
    if commits is None:
        return None
    return sum(rows_of(commit) for commit in commits if commit["version"] <= last)


def commit_noting(table: DeltaTable, note: Note, after: int) -> dict[str, Any] | None:
    """The commit behind a version that has this note; None where there is none."""
    return next((one for one in commits_after(table, after) if note_of(one) == note), None)


def commits_after(table: DeltaTable, version: int) -> list[dict[str, Any]]:
    """Those behind a version that the log still has, newest first."""
    newer = table.version() - version
    return table.history(newer) if newer > 0 else []


def reaches_back(table: DeltaTable, first: int) -> bool:
    """Does the log have each commit from a version on?"""
    return _commits_from(table, first) is not None


def last_append(table: DeltaTable, up_to: int) -> int | None:
    """The newest version at or below one that appended rows; None where the log knows of none."""
    for commit in surviving_commits(newest_first(table)):
        if commit["version"] <= up_to and rows_of(commit):
            return int(commit["version"])
    return None


def ingest_commits(table: DeltaTable, query: str, after_batch: int) -> dict[int, IngestCommit]:
    """The commits of an ingest query's batches after one, by batch; -1 is before the first. Those
    that a rewind has taken back are none."""
    found: dict[int, IngestCommit] = {}
    for commit in surviving_commits(newest_first(table)):
        for one in _of_ingest(commit):
            if one.query == query and one.batch <= after_batch:
                return found
            if one.query == query:
                found[one.batch] = one
    return found


def last_ingest(table: DeltaTable) -> tuple[int, int] | None:
    """The batch that last appended to bronze or rejects, and the scheduled time of its run, in
    milliseconds.

    None where the log knows of none: nothing was ever appended, or longer ago than the log goes.
    """
    for commit in surviving_commits(newest_first(table)):
        for found in _of_ingest(commit):
            # Records of other pipelines bring no row.
            if found.rows.judged or not found.rows.read:
                return found.batch, found.scheduled_ms
    return None


def close_frontiers(table: DeltaTable, query: str, after_version: int) -> dict[int, int]:
    """The close frontiers that a query's batches noted in the commits after a version, by batch."""
    notes = [note_of(commit) for commit in commits_after(table, after_version)]
    return {
        note.batch: note.close_ms
        for note in notes
        if isinstance(note, EmittedNote) and note.query == query and note.close_ms is not None
    }


def emitted_rows(table: DeltaTable, query: str, after_version: int) -> dict[int, int]:
    """The sums that a query's batches noted, by batch: those of the commits after a version, and
    the last one before."""
    found: dict[int, int] = {}
    for commit in newest_first(table):
        note = note_of(commit)
        if not isinstance(note, EmittedNote) or note.query != query:
            continue
        if note.emitted_rows is not None:
            found[note.batch] = note.emitted_rows
            if commit["version"] <= after_version:
                return found
    return found


def _commits_from(table: DeltaTable, first: int) -> list[dict[str, Any]] | None:
    """The commits from a version on, newest first; None where the log no longer has them all."""
    number = table.version() - first + 1
    newest_first = table.history(number) if number > 0 else []
    return newest_first if len(newest_first) >= number else None


def _of_ingest(commit: dict[str, Any]) -> Iterator[IngestCommit]:
    note = note_of(commit)
    if isinstance(note, IngestNote):
        yield IngestCommit(
            version=commit["version"],
            query=note.query,
            batch=note.batch,
            rows=note.rows,
            parts=len(note.verdicts),
            appended=rows_of(commit),
            scheduled_ms=note.scheduled_ms or 0,
            run=note.run,
        )


def rows_of(commit: dict[str, Any]) -> int:
    """How many rows a commit appended, as our own commits say it, or Spark's writer, or
    delta-rs."""
    metrics = commit.get("operationMetrics", {})
    by_engine = metrics.get("numOutputRows", metrics.get("num_added_rows", 0))
    return int(commit.get(ROWS_ADDED, by_engine))
