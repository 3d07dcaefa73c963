"""The offset log and the commit log: do they fit, and can their files be used?

A start reads the newest two files of `offsets` and the newest of `commits`, and no other
(MicroBatchExecution.populateStartOffsets, HDFSMetadataLog.getLatest).
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.checkpoint.doctor.findings import (
    Finding,
    FindingKind,
    Severity,
    examples,
    numbered,
    shown,
)
from tidemark.checkpoint.reading.facts import AnyLog, CheckpointFacts, FileProblem, Unreadable
from tidemark.checkpoint.reading.log_formats import STOP_MARK

_RESTORE = "Restore the file from a backup, or the whole checkpoint together with its tables."
_NOT_READ = "It does not read this file at a start."
_NO_REWIND = "None for the next start; a rewind to this batch is not possible."
_SAYS_OF_EMPTY = {
    "offsets": "It stops with `Incomplete log file`.",
    "commits": "It stops with `Incomplete log file in the offset commit log`.",
}


def log_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """Commits without their offsets, and files that cannot be used."""
    yield from _lost_offsets(facts)
    yield from _unusable(facts, facts.offsets)
    yield from _unusable(facts, facts.commits)


def _lost_offsets(facts: CheckpointFacts) -> Iterator[Finding]:
    planned, committed = facts.offsets.newest, facts.commits.newest
    if planned is None and (committed is not None or facts.operators):
        held = f"commits/{committed}" if committed is not None else "state"
        yield Finding(
            FindingKind.COMMIT_WITHOUT_OFFSET,
            Severity.DAMAGE,
            f"The folder `offsets` is empty or gone, but there is {held}.",
            "It begins with batch 0 again and reads the sources from their start, or stops: with a "
            "file source by `assertion failed`, with "
            "`spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart` (Spark 4.2) by refusing.",
            "Rows may be written twice, or skipped by a sink that knows the batches' numbers.",
            "Restore `offsets` from a backup, or start the query in a new folder and decide from "
            "where it reads.",
        )
    elif planned is not None and committed is not None and committed > planned:
        yield Finding(
            FindingKind.COMMIT_WITHOUT_OFFSET,
            Severity.DAMAGE,
            f"commits/{committed} says that batch {committed} is done, but the newest of the "
            f"offsets is offsets/{planned}.",
            # No case of populateStartOffsets fits, so the batch counts as planned and not done.
            f"It runs batch {planned} again, and stops when that is to be committed, with "
            "`CONCURRENT_STREAM_LOG_UPDATE … Multiple streaming jobs detected`, also where there "
            "was only one.",
            f"Each start writes the rows of batch {planned} once more to a sink that does not know "
            f"the batch's number. The place of batch {committed} in the sources is lost.",
            f"Restore the offsets after {planned} up to offsets/{committed} from a backup. Do not "
            f"just remove the commit: a sink may hold the rows of batch {committed}.",
            *numbered("offsets/{}", [range(planned + 1, committed + 1)]),
        )


def _unusable(facts: CheckpointFacts, log: AnyLog) -> Iterator[Finding]:
    for batch, found in log.read.items():
        if isinstance(found, Unreadable):
            yield _unusable_file(facts, log, batch, found)
    if log.empty:
        yield Finding(
            FindingKind.LOG_FILE,
            Severity.WARNING,
            f"Old files of `{log.name}` are empty: {shown(map(str, log.empty))}.",
            "It does not read these files at a start.",
            _NO_REWIND,
            "Nothing has to be done for the next start.",
            *examples(f"{log.name}/{batch}" for batch in log.empty),
        )


def _unusable_file(facts: CheckpointFacts, log: AnyLog, batch: int, found: Unreadable) -> Finding:
    needed = batch in _read_at_start(log)
    if found.held == STOP_MARK:
        return Finding(
            FindingKind.UNFINISHED,
            Severity.DAMAGE,
            f"{found.name} is the mark of a rewind, a repair or a restore that was not finished.",
            "It stops: the file has a log version that no engine knows. That is meant, for "
            "checkpoint and sink may not fit now.",
            "None while nothing runs.",
            "Give the same command again, with `--apply`: it finishes. Or bring back what was: "
            "`tidemark checkpoint restore BACKUP` says how; the backup's place stands in the file.",
            *examples([found.name]),
        )
    if found.problem is FileProblem.UNKNOWN_FORMAT:
        return Finding(
            FindingKind.UNKNOWN_FORMAT,
            Severity.UNKNOWN if needed else Severity.NOTE,
            f"{found.summary}: a newer engine may have written it.",
            "The version that wrote it reads it; an older one refuses it.",
            "None is known.",
            "Look at it with a newer Tidemark. It was not judged.",
            *examples([found.name]),
        )
    if not needed:
        return Finding(
            FindingKind.LOG_FILE,
            Severity.WARNING,
            f"{found.summary}.",
            _NOT_READ,
            _NO_REWIND,
            "Nothing has to be done for the next start.",
            *examples([found.name]),
        )
    if found.problem is FileProblem.UNREADABLE:
        return Finding(
            FindingKind.LOG_FILE,
            Severity.UNKNOWN,
            f"{found.summary}.",
            "It needs this file at a start.",
            "None is known.",
            "Look again: where a query runs, it may have removed the file meanwhile.",
            *examples([found.name]),
        )
    engine = (
        _SAYS_OF_EMPTY[log.name]
        if found.problem is FileProblem.EMPTY
        else "It stops: the text cannot be read as JSON."
    )
    risk, advice = _mending(facts, log, batch)
    return Finding(
        FindingKind.LOG_FILE,
        Severity.DAMAGE,
        f"{found.summary}.",
        engine,
        risk,
        advice,
        *examples([found.name]),
    )


def _mending(facts: CheckpointFacts, log: AnyLog, batch: int) -> tuple[str, str]:
    if log.name == "commits" and batch == facts.offsets.newest:
        return (
            f"None, where the sink takes batch {batch} twice without harm.",
            f"Move commits/{batch} and its checksum file away: the engine then runs batch {batch} "
            "again, with the same offsets.",
        )
    if log.name == "offsets" and batch == facts.offsets.newest and facts.commits.newest != batch:
        risk = f"Rows of batch {batch} that reached the sink: it is planned anew, with other rows."
        if facts.operators:
            return risk, _back_with_state(batch)
        return (
            risk,
            f"Restore the file from a backup. Where there is none: batch {batch} was never "
            f"committed, so with offsets/{batch} and its checksum file moved away the engine plans "
            "it anew. See first whether the sink holds rows of it: a Delta table or a file sink "
            "would pass over the batch, and `tidemark checkpoint repair` with its `--sink` takes "
            "them back (a pipeline's it leaves).",
        )
    return "The batch's place in the sources is lost with the file.", _RESTORE


def _back_with_state(batch: int) -> str:
    """What to do where a batch that may have written state was planned and not committed."""
    way = (
        f"`tidemark checkpoint repair` takes the query back to the end of batch {batch - 1}, with "
        "its `--sink` and the state above (a pipeline's it leaves)"
        if batch
        else "start the query in a new folder, and remove rows of its first batch from the sink"
    )
    return (
        f"Restore the file from a backup. Where there is none: {way}. Do not just move "
        f"offsets/{batch} away: state that the batch has written would be ahead of the log, and be "
        "loaded without an error once the query comes to its version."
    )


def _read_at_start(log: AnyLog) -> tuple[int, ...]:
    if log.newest is None:
        return ()
    return (log.newest, log.newest - 1) if log.name == "offsets" else (log.newest,)
