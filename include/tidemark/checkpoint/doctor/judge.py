"""The doctor's judgement: from the facts of a checkpoint to a verdict and findings.

Gaps in a log: the engine removes the oldest files only (HDFSMetadataLog.purge), so it leaves none
between others by itself, unless a query runs with `asyncProgressTrackingEnabled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.checkpoint.doctor.files import file_findings
from tidemark.checkpoint.doctor.findings import (
    CheckpointVerdict,
    Diagnosis,
    Finding,
    FindingKind,
    Severity,
    examples,
    numbered,
    spans,
)
from tidemark.checkpoint.doctor.identity import identity_findings, writer_findings
from tidemark.checkpoint.doctor.logs import log_findings
from tidemark.checkpoint.doctor.sources import source_findings
from tidemark.checkpoint.doctor.state import state_findings
from tidemark.checkpoint.doctor.watermark import (
    no_data_batch,
    waits_for_watermark,
    watermark_findings,
)
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.missing import missing_ranges

_ORDER = tuple(Severity)


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


@dataclass(frozen=True)
class QueryFacts:
    """What is known of a query besides its checkpoint; None where it is not.

    `query_ids`: those that its sink knows, newest last; empty where nobody can tell.
    `newest_event_ms`: the newest event time in what it reads, in milliseconds since 1970.
    `output_mode`: append, update or complete. `keeps_state`: does it have a state at all?
    """

    query_ids: tuple[str, ...] = ()
    newest_event_ms: int | None = None
    output_mode: str | None = None
    keeps_state: bool | None = None


def judge_checkpoint(
    facts: CheckpointFacts, now: datetime, known: QueryFacts | None = None
) -> Diagnosis:
    """The verdict on a checkpoint that no query works on, and what was found, worst first.

    Pure: it looks at nothing but its arguments. `now` (UTC) tells old leftovers from files that
    are being written.
    """
    known = known or QueryFacts()
    repeats = facts.offsets.newest is not None and facts.next_batch == facts.offsets.newest
    findings = [
        *log_findings(facts),
        *gap_findings(facts),
        *identity_findings(facts, known.query_ids),
        *writer_findings(facts),
        *state_findings(facts, known.keeps_state),
        *ahead_findings(facts),
        *source_findings(facts, repeats),
        *watermark_findings(facts, known.newest_event_ms),
        *file_findings(facts, now),
    ]
    verdict = _verdict(facts, findings, known, repeats)
    if verdict is CheckpointVerdict.NO_DATA_BATCH:
        findings.append(no_data_batch(facts, known.output_mode))
    if verdict is CheckpointVerdict.KILLED:
        findings.append(_repeated(facts))
    findings.sort(key=lambda one: _ORDER.index(one.severity))
    unusable = verdict in (CheckpointVerdict.DAMAGED, CheckpointVerdict.UNKNOWN)
    batch = None if unusable else facts.next_batch
    return Diagnosis(verdict, batch, _sentence(verdict, facts, findings), tuple(findings))


def _verdict(
    facts: CheckpointFacts, findings: list[Finding], known: QueryFacts, repeats: bool
) -> CheckpointVerdict:
    severities = {one.severity for one in findings}
    if Severity.DAMAGE in severities:
        return CheckpointVerdict.DAMAGED
    if Severity.UNKNOWN in severities:
        return CheckpointVerdict.UNKNOWN
    if facts.offsets.newest is None:
        return CheckpointVerdict.NEW
    if repeats:
        return CheckpointVerdict.KILLED
    if waits_for_watermark(facts, known.output_mode):
        return CheckpointVerdict.NO_DATA_BATCH
    return CheckpointVerdict.CLEAN_END


def _repeated(facts: CheckpointFacts) -> Finding:
    batch = facts.next_batch
    return Finding(
        FindingKind.REPEATED_BATCH,
        Severity.NOTE,
        f"offsets/{batch} is there and commits/{batch} is not: the last run ended in the middle of "
        f"batch {batch}, or still runs.",
        f"It runs batch {batch} again, with the same offsets, time and watermark.",
        "None with a sink that knows the batch's number (Delta, or files); another one gets its "
        "rows twice.",
        "Start the query again. Change neither the query nor the checkpoint before the batch is "
        "committed.",
        (f"offsets/{batch}",),
        1,
    )


def _sentence(verdict: CheckpointVerdict, facts: CheckpointFacts, findings: list[Finding]) -> str:
    batch = facts.next_batch
    match verdict:
        case CheckpointVerdict.NEW:
            return "No batch has been planned here: a query that starts begins with batch 0."
        case CheckpointVerdict.CLEAN_END:
            return f"Batch {batch - 1} is done; the next one is batch {batch}, with new offsets."
        case CheckpointVerdict.NO_DATA_BATCH:
            return (
                f"Batch {batch - 1} is done, but no batch has applied the watermark that it left: "
                f"batch {batch} will, with the next rows."
            )
        case CheckpointVerdict.KILLED:
            return f"Batch {batch} was planned and not committed: it runs again as it was planned."
        case CheckpointVerdict.UNKNOWN:
            return "What decides is in a format that is not known here: it was not judged."
        case CheckpointVerdict.DAMAGED:
            damage = sum(one.severity is Severity.DAMAGE for one in findings)
            findings_of = "finding" if damage == 1 else "findings"
            return f"It cannot be continued rightly as it is: {damage} {findings_of} of damage."


def ahead_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """Files of versions above the one that the last planned batch leaves.

    A snapshot among them is the most dangerous thing in a checkpoint: it is loaded in silence as
    soon as the query's own versions reach its number.
    """
    for operator in facts.operators:
        yield from _ahead(facts, operator)


def _ahead(facts: CheckpointFacts, operator: StatefulOperator) -> Iterator[Finding]:
    """Files of versions that no batch of this log can have written."""
    newest = max(facts.version_needed, (facts.offsets.newest or 0) + 1)
    ahead = [store for store in operator.stores if store.newest > newest]
    if not ahead:
        return
    files = [
        f"{store.id.folder}/{file.name}"
        for store in ahead
        for version in sorted(store.files)
        if version > newest
        for file in store.files[version]
    ]
    yield Finding(
        FindingKind.STATE_AHEAD,
        Severity.DAMAGE,
        f"Operator {operator.id} has state of version {ahead[0].newest}, but the log can have "
        f"written none above {newest}: {len(files):,} files in {len(ahead):,} stores.",
        "It says nothing. When the query's own versions come to those numbers, it may load a "
        "snapshot among these files instead of its own state.",
        "Wrong sums without an error: these are files of a rewind that was not finished, of "
        "another writer, or of another copy of the checkpoint.",
        f"Move the files of versions above {newest} and their checksum files away while no query "
        "runs. If another query used this folder, give each its own.",
        *examples(files),
    )
