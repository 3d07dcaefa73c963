"""The doctor's judgement: from the facts of a checkpoint to a verdict and findings.

Gaps in a log: the engine removes the oldest files only (HDFSMetadataLog.purge), so it leaves none
between others by itself, unless a query runs with `asyncProgressTrackingEnabled`. One is
damage only where a start reads the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tidemark.checkpoint.doctor.files import file_findings
from tidemark.checkpoint.doctor.findings import (
    CheckpointVerdict,
    Diagnosis,
    Finding,
    FindingKind,
    Severity,
    examples,
    numbered,
    shown,
    spans,
)
from tidemark.checkpoint.doctor.logs import log_findings
from tidemark.checkpoint.doctor.sources import source_findings
from tidemark.checkpoint.doctor.state import state_findings
from tidemark.checkpoint.doctor.watermark import (
    no_data_batch,
    waits_for_watermark,
    watermark_findings,
)
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator, Unreadable
from tidemark.checkpoint.reading.log_formats import OffsetEntry, repartitions
from tidemark.checkpoint.reading.missing import missing_ranges
from tidemark.checkpoint.reading.source_offsets import (
    CountOffset,
    DeltaOffset,
    FileOffset,
    source_offset,
)

_ORDER = tuple(Severity)


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
            *examples([f"offsets/{newest - 1}"]),
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
        *_offset_gaps(facts),
        *_commit_gaps(facts),
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
    if (partitions := facts.repartitioning) is not None:
        return Finding(
            FindingKind.REPEATED_BATCH,
            Severity.NOTE,
            f"Batch {batch} was to bring the state to {partitions} partitions, and did not end.",
            "It stops until that is repeated: `STREAMING_UNFINISHED_REPARTITION_DETECTED`.",
            f"None: the state that batch {batch - 1} left is there.",
            "Repeat the repartition with the same number; of a pipeline by `tidemark state "
            "repartition`. Or go back to the batch before it: of a query that is no pipeline's by "
            "`tidemark checkpoint rewind`.",
            *examples([f"offsets/{batch}"]),
        )
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
        *examples([f"offsets/{batch}"]),
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
        case CheckpointVerdict.KILLED if facts.repartitioning is not None:
            return f"Batch {batch} repartitions the state, and did not end: no query starts."
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
        "See first whether the sink has later batches than the log, as where these were removed by "
        "hand: a Delta table or a file sink would pass over the next ones of their numbers. "
        "`tidemark checkpoint repair` with its `--sink` looks, and takes both back together (a "
        "pipeline's it leaves). Where the sink has none, move the files of versions above "
        f"{newest} and their checksum files away while no query runs. If another query used this "
        "folder, give each its own.",
        *examples(files),
    )


_OTHER_ROWS = "Rows that one writer took and the other one did not write, and rows written twice."
_ONE_WRITER = (
    "Stop all queries that use this folder; keep one of them. Compare its tables with the source."
)


def identity_findings(facts: CheckpointFacts, query_ids: Sequence[str]) -> Iterator[Finding]:
    """The metadata file: missing, unusable, or of another query than one of `query_ids`."""
    found = facts.query_id
    started = bool(facts.offsets.batches or facts.commits.batches or facts.operators)
    if found is None and started:
        yield Finding(
            FindingKind.METADATA,
            Severity.DAMAGE,
            "The file `metadata`, which holds the query's id, is missing.",
            "Spark 4.2 stops with `STREAMING_CHECKPOINT_MISSING_METADATA_FILE`; a version without "
            "that check gives the query a new id and goes on.",
            "With a new id, a Delta sink takes batches again that it has already.",
            "Restore the file from a backup. A Delta sink's log tells the id: the `appId` of its "
            "transactions.",
            *examples(["metadata"]),
        )
    elif isinstance(found, Unreadable):
        yield Finding(
            FindingKind.METADATA,
            Severity.UNKNOWN if found.undecided else Severity.DAMAGE,
            f"{found.summary}.",
            "It reads this file at a start, and stops where it cannot.",
            "None yet: nothing runs.",
            "Restore the file from a backup. A Delta sink's log tells the id: the `appId` of its "
            "transactions.",
            *examples(["metadata"]),
        )
    elif found is not None and query_ids and found not in query_ids:
        yield Finding(
            FindingKind.OTHER_QUERY,
            Severity.DAMAGE,
            f"`metadata` holds the id {found}, but the query that was asked for is "
            f"{query_ids[-1]}.",
            "It does not compare: it runs as the query of the id in the file.",
            "A Delta sink knows batches by that id: it skips or repeats them wrongly.",
            "Give each query its own folder, and restore the one that belongs to this query.",
            *examples(["metadata"]),
        )


def writer_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """What one writer never does: time, watermark, offsets or fixed configuration that go back."""
    entries = [entry for batch in facts.offsets.batches if (entry := facts.offsets.entry(batch))]
    for before, after in pairwise(entries):
        if after.batch == before.batch + 1 and (broken := _broken(facts, before, after)):
            # A start asks each source for the last batch once more; a file source refuses.
            stops = after.batch == facts.offsets.newest and _file_source_goes_back(before, after)
            yield Finding(
                FindingKind.TWO_WRITERS,
                Severity.DAMAGE if stops else Severity.WARNING,
                f"offsets/{after.batch} does not follow from batch {before.batch}: "
                f"{'; '.join(broken)}.",
                "It stops: `assertion failed` (FileStreamSource.getBatch)."
                if stops
                else "It does not compare them, and goes on.",
                _OTHER_ROWS,
                f"Two queries wrote here, or files of two copies were mixed, or the clock was set "
                f"back. {_ONE_WRITER}",
                *examples([f"offsets/{before.batch}", f"offsets/{after.batch}"]),
            )


def _broken(facts: CheckpointFacts, before: OffsetEntry, after: OffsetEntry) -> list[str]:
    if repartitions(before, after):
        # By design it runs by the watermark of the batch before, and not by the one that that left.
        return []
    broken = []
    if (after.batch_time_ms or 0) < (before.batch_time_ms or 0):
        broken.append("its time is before that batch's")
    commit = facts.commits.entry(before.batch)
    known = max(before.watermark_ms or 0, commit.next_watermark_ms if commit else 0)
    if after.watermark_ms is not None and after.watermark_ms < known:
        broken.append("its watermark is below the one that this batch left")
    back = [
        name for name, text in after.sources.items() if _goes_back(before.sources.get(name), text)
    ]
    if back:
        broken.append(f"source {shown(back)} goes back")
    changed = [key for key, value in after.conf.items() if before.conf.get(key, value) != value]
    if changed:
        broken.append(f"the fixed configuration changes: {shown(changed)}")
    return broken


def _file_source_goes_back(before: OffsetEntry, after: OffsetEntry) -> bool:
    return any(
        text is not None
        and isinstance(source_offset(text), FileOffset)
        and _goes_back(before.sources.get(name), text)
        for name, text in after.sources.items()
    )


def _goes_back(before: str | None, after: str | None) -> bool:
    if before is None:
        return False
    if after is None:
        return True
    match source_offset(before), source_offset(after):
        case FileOffset(one), FileOffset(other):
            return other < one
        case CountOffset(one), CountOffset(other):
            return other < one
        case DeltaOffset() as one, DeltaOffset() as other if one.table_id == other.table_id:
            return (other.version, other.index) < (one.version, one.index)
    return False
