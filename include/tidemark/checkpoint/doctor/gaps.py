"""Gaps in the offset log and the commit log: which files are missing between others?

The engine removes the oldest files only (HDFSMetadataLog.purge), so it leaves no gap by itself,
unless a query runs with `asyncProgressTrackingEnabled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidemark.checkpoint.doctor.findings import Finding, FindingKind, Severity, numbered, spans
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.missing import missing_ranges


def gap_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """Missing files of the two logs: damage only where a start reads the file."""
    yield from _offset_gaps(facts)
    yield from _commit_gaps(facts)


def _offset_gaps(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = facts.offsets.newest
    if newest and newest - 1 not in facts.offsets.batches:
        yield Finding(
            FindingKind.GAP,
            Severity.DAMAGE,
            f"offsets/{newest - 1} is missing, the file before the newest one.",
            f"It stops with `batch {newest - 1} doesn't exist`, unless the query runs with "
            "`asyncProgressTrackingEnabled`, which leaves such gaps by itself.",
            "None yet: nothing runs.",
            "Restore the file from a backup, or the whole checkpoint together with its tables.",
            (f"offsets/{newest - 1}",),
            1,
        )
    # The file before the newest one has its own finding.
    known = {*facts.offsets.batches, *([newest - 1] if newest else [])}
    yield from _old_gap("offsets", sorted(known))


def _commit_gaps(facts: CheckpointFacts) -> Iterator[Finding]:
    planned, committed = facts.offsets.newest, facts.commits.newest
    if planned is None:
        return
    first = facts.offsets.batches[0] if committed is None else committed + 1
    lost = range(first, planned)
    if lost:
        yield Finding(
            FindingKind.GAP,
            Severity.WARNING,
            f"The newest of the commits is {committed if committed is not None else 'missing'}, "
            f"but offsets are there up to {planned}: the commits of batches {spans([lost])} are "
            "missing.",
            f"It warns that the commit log does `not trail by one`, and runs batch {planned} "
            "again.",
            f"Rows of batch {planned} in a sink that does not know the batch's number: they would "
            "be written twice.",
            "Find out who removed them. A query with `asyncProgressTrackingEnabled` leaves such "
            "gaps by itself.",
            *numbered("commits/{}", [lost]),
        )
    yield from _old_gap("commits", facts.commits.batches)


def _old_gap(log: str, batches: Sequence[int]) -> Iterator[Finding]:
    missing = missing_ranges(batches, batches[0], batches[-1]) if batches else ()
    if missing:
        yield Finding(
            FindingKind.GAP,
            Severity.WARNING,
            f"`{log}` has a gap: {spans(missing)} are missing, and older batches are there.",
            "It does not read these files at a start. It removes the oldest files only, so "
            "something else removed these.",
            "None for the next start; a rewind to such a batch is not possible.",
            "Nothing has to be done for the next start; find out who removed them.",
            *numbered(f"{log}/{{}}", missing),
        )
