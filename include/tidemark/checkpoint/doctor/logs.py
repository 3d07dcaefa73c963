"""The offset log and the commit log: are the files that a start reads there, and whole?

A start reads the newest two files of `offsets` and the newest of `commits`, and no other
(MicroBatchExecution.populateStartOffsets, HDFSMetadataLog.getLatest).
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.checkpoint.doctor.findings import (
    Finding,
    Kind,
    Severity,
    examples,
    ranges,
)
from tidemark.checkpoint.reading.facts import AnyLog, CheckpointFacts, Problem, Unreadable

_RESTORE = "Restore the file from a backup, or the whole checkpoint together with its tables."
_NOT_READ = "It does not read this file at a start."
_NO_REWIND = "None for the next start; a rewind to such a batch is not possible."
_SAYS_OF_EMPTY = {
    "offsets": "It stops with `Incomplete log file`.",
    "commits": "It stops with `Incomplete log file in the offset commit log`.",
}


def log_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """What is wrong with the files of the two logs."""
    yield from _lost_offsets(facts)
    yield from _unusable(facts, facts.offsets)
    yield from _unusable(facts, facts.commits)
    yield from _offset_gaps(facts)
    yield from _commit_gaps(facts)


def _lost_offsets(facts: CheckpointFacts) -> Iterator[Finding]:
    planned, committed = facts.offsets.newest, facts.commits.newest
    if planned is None and (committed is not None or facts.operators):
        held = f"commits/{committed}" if committed is not None else "state"
        yield Finding(
            Kind.COMMIT_WITHOUT_OFFSET,
            Severity.DAMAGE,
            f"The folder `offsets` is empty or gone, but there is {held}.",
            "It begins with batch 0 again and reads the sources from their start; with "
            "`spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart` (Spark 4.2) it refuses.",
            "Rows may be written twice, or skipped by a sink that knows the batches' numbers.",
            "Restore `offsets` from a backup, or start the query in a new folder and decide from "
            "where it reads.",
        )
    elif planned is not None and committed is not None and committed > planned:
        yield Finding(
            Kind.COMMIT_WITHOUT_OFFSET,
            Severity.DAMAGE,
            f"commits/{committed} says that batch {committed} is done, but the newest of the "
            f"offsets is offsets/{planned}.",
            f"It plans a batch {planned + 1} with new offsets and stops with "
            "`CONCURRENT_STREAM_LOG_UPDATE … Multiple streaming jobs detected`, also where there "
            "was only one.",
            f"Rows between the end of batch {planned} and that of batch {committed}: a sink that "
            "knows the batch's number skips them, another one writes them twice.",
            f"Restore offsets/{planned + 1} to offsets/{committed} from a backup. Do not just "
            "remove the commit.",
            *examples(f"offsets/{batch}" for batch in range(planned + 1, committed + 1)),
        )


def _unusable(facts: CheckpointFacts, log: AnyLog) -> Iterator[Finding]:
    for batch, found in log.read.items():
        if isinstance(found, Unreadable):
            yield _unusable_file(facts, log, batch, found)
    if log.empty:
        files = [f"{log.name}/{batch}" for batch in log.empty]
        yield Finding(
            Kind.LOG_FILE,
            Severity.WARNING,
            f"Old files of `{log.name}` are empty: batches {ranges(log.empty)}.",
            "It does not read these files at a start.",
            _NO_REWIND,
            "Nothing has to be done for the next start.",
            *examples(files),
        )


def _unusable_file(facts: CheckpointFacts, log: AnyLog, batch: int, found: Unreadable) -> Finding:
    needed = batch in _read_at_start(log)
    if found.problem is Problem.UNKNOWN_FORMAT:
        return Finding(
            Kind.UNKNOWN_FORMAT,
            Severity.UNKNOWN if needed else Severity.NOTE,
            f"{found.told}: a newer engine may have written it.",
            "The version that wrote it reads it; an older one refuses it.",
            "None is known.",
            "Look at it with a newer Tidemark. It was not judged.",
            (found.name,),
            1,
        )
    if not needed:
        return Finding(
            Kind.LOG_FILE,
            Severity.WARNING,
            f"{found.told}.",
            _NOT_READ,
            _NO_REWIND,
            "Nothing has to be done for the next start.",
            (found.name,),
            1,
        )
    engine = (
        _SAYS_OF_EMPTY[log.name]
        if found.problem is Problem.EMPTY
        else "It stops: the text cannot be read as JSON."
    )
    risk, advice = _mending(facts, log, batch)
    return Finding(
        Kind.LOG_FILE, Severity.DAMAGE, f"{found.told}.", engine, risk, advice, (found.name,), 1
    )


def _mending(facts: CheckpointFacts, log: AnyLog, batch: int) -> tuple[str, str]:
    if log.name == "commits" and batch == facts.offsets.newest:
        return (
            f"None, where the sink takes batch {batch} twice without harm.",
            f"Move commits/{batch} and its checksum file away: the engine then runs batch {batch} "
            "again, with the same offsets.",
        )
    if log.name == "offsets" and batch == facts.offsets.newest and facts.commits.newest != batch:
        return (
            f"Rows of batch {batch} that reached the sink: it is planned anew, with other rows.",
            f"Restore the file from a backup. Where there is none: batch {batch} was never "
            f"committed, so with offsets/{batch} and its checksum file moved away the engine plans "
            "it anew. See first whether the sink holds rows of it.",
        )
    return "The batch's place in the sources is lost with the file.", _RESTORE


def _read_at_start(log: AnyLog) -> tuple[int, ...]:
    if log.newest is None:
        return ()
    return (log.newest, log.newest - 1) if log.name == "offsets" else (log.newest,)


def _offset_gaps(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = facts.offsets.newest
    missing = _missing(facts.offsets)
    if newest and newest - 1 not in facts.offsets.batches:
        yield Finding(
            Kind.GAP,
            Severity.DAMAGE,
            f"offsets/{newest - 1} is missing, the file before the newest one.",
            f"It stops with `batch {newest - 1} doesn't exist`, unless the query runs with "
            "`asyncProgressTrackingEnabled`, which leaves such gaps by itself.",
            "None yet: nothing runs.",
            _RESTORE,
            (f"offsets/{newest - 1}",),
            1,
        )
    yield from _old_gap("offsets", [batch for batch in missing if batch + 1 != newest])


def _commit_gaps(facts: CheckpointFacts) -> Iterator[Finding]:
    planned, committed = facts.offsets.newest, facts.commits.newest
    if planned is None:
        return
    first = facts.offsets.batches[0] if committed is None else committed + 1
    lost = list(range(first, planned))
    if lost:
        yield Finding(
            Kind.GAP,
            Severity.WARNING,
            f"The newest of the commits is {committed if committed is not None else 'missing'}, "
            f"but offsets are there up to {planned}: the commits of batches {ranges(lost)} are "
            "missing.",
            f"It warns that the commit log does `not trail by one`, and runs batch {planned} "
            "again.",
            f"Rows of batch {planned} in a sink that does not know the batch's number: they would "
            "be written twice.",
            "Find out who removed them. A query with `asyncProgressTrackingEnabled` leaves such "
            "gaps by itself.",
            *examples(f"commits/{batch}" for batch in lost),
        )
    yield from _old_gap("commits", _missing(facts.commits))


def _old_gap(log: str, missing: list[int]) -> Iterator[Finding]:
    if missing:
        yield Finding(
            Kind.GAP,
            Severity.WARNING,
            f"`{log}` has a gap: {ranges(missing)} are missing, and older batches are there.",
            "It does not read these files at a start. It removes the oldest files only, so "
            "something else removed these.",
            _NO_REWIND,
            "Nothing has to be done for the next start; find out who removed them.",
            *examples(f"{log}/{batch}" for batch in missing),
        )


def _missing(log: AnyLog) -> list[int]:
    """The batches between the oldest and the newest that have no file."""
    if not log.batches:
        return []
    return sorted(set(range(log.batches[0], log.batches[-1])) - set(log.batches))
