"""The plan of a rewind to a batch: pure, from what was read of the checkpoint and its sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark.checkpoint.doctor.findings import CheckpointVerdict, Diagnosis, Severity, shown
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.doctor.watermark import watermark_ms
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.source_offsets import FileOffset
from tidemark.checkpoint.rewind.change import CheckpointChange, SinkLogChange, TableChange
from tidemark.checkpoint.rewind.read import CheckpointSnapshot, RewindFacts, youngest

# A query that works on a batch writes, or is killed by its watchers, within this time.
_QUIET = timedelta(minutes=10)
NO_SINK = (
    "What the query writes to decides what becomes of the batches that run again. Say it: "
    "`--sink delta:URI` for a Delta table that the query writes itself, `--sink files:URI` for "
    "a file sink (parquet, json, csv …), `--sink other` for any other (Kafka, foreachBatch, "
    "console, memory …)."
)
_GOES_ON = (
    CheckpointVerdict.CLEAN_END,
    CheckpointVerdict.NO_DATA_BATCH,
    CheckpointVerdict.KILLED,
)


@dataclass(frozen=True)
class SinkPlan:
    """What becomes of the sink: changes, sentences for the plan, and why it is refused. `said`: as
    `--sink` named it."""

    table: TableChange | None = None
    log: SinkLogChange | None = None
    notes: tuple[str, ...] = ()
    refused: str | None = None
    said: str | None = None


@dataclass(frozen=True)
class ChangePlan:
    """What would be done to a checkpoint, and what has to be known before it is.

    `diagnosis`: the doctor's judgement of the checkpoint afterwards. `notes`: one sentence each.
    `refused`: why it is not done; empty where it may be. `watermark_ms`: by which the next batch
    will run. No diagnosis: of a change that was begun, it is made in the end.
    """

    change: CheckpointChange
    diagnosis: Diagnosis | None
    watermark_ms: int
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Is the checkpoint as it should be already?"""
        change = self.change
        parts = (change.removed, change.written, change.table, change.sink_log)
        return not any(parts) and not self.refused


def plan_rewind(
    facts: RewindFacts, sink: SinkPlan | None, now: datetime, stopped: bool = False
) -> ChangePlan:
    """Take a checkpoint back to the end of a batch. `sink` is None where nobody said what it is.
    `stopped`: somebody says that no query works on it. `now` is in UTC."""
    sink = sink or SinkPlan(refused=NO_SINK)
    batch = facts.point.batch
    change = CheckpointChange(
        facts.before.place.uri,
        f"taken back to the end of batch {batch}",
        {name: file.size for name, file in facts.before.files.items()},
        facts.going,
        batch,
        table=sink.table,
        sink_log=sink.log,
        sink=sink.said,
    )
    diagnosis = judge_checkpoint(facts.after.facts, now)
    running = None if stopped else seems_to_run(facts.before, now)
    reasons = (*damage_of(diagnosis), *unfit(facts), sink.refused, running)
    return ChangePlan(
        change,
        diagnosis,
        watermark_ms(facts.after.facts),
        (*_notes(facts), *sink.notes),
        tuple(reason for reason in reasons if reason),
    )


def seems_to_run(now_listed: CheckpointSnapshot, now: datetime) -> str | None:
    """Why a query may be working on a checkpoint; None where nothing shows one.

    After a clean end nothing has to be known: a query that waits there stops at the stop mark.
    """
    facts = now_listed.facts
    newest = youngest(now_listed.files)
    planned, committed = facts.offsets.newest, facts.commits.newest
    open_batch = planned is not None and (committed is None or committed < planned)
    if not open_batch or newest is None or now - newest >= _QUIET:
        return None
    return (
        f"Batch {facts.next_batch} is planned and not committed, and a file was written at "
        f"{newest:%Y-%m-%dT%H:%M:%SZ}, less than {_QUIET.seconds // 60} minutes ago: a query may "
        "be working on it. Stop it, and try again then, or say by --stopped that none runs."
    )


def damage_of(diagnosis: Diagnosis) -> Iterator[str]:
    """Why a query could not go on rightly from a checkpoint that is judged so."""
    if diagnosis.verdict in _GOES_ON:
        return
    decisive = [f for f in diagnosis.findings if f.severity in (Severity.DAMAGE, Severity.UNKNOWN)]
    for finding in decisive:
        yield f"It could not go on from there: {finding.known} At risk: {finding.at_risk}"
    if not decisive:
        yield f"It could not go on from there: {diagnosis.sentence}"


def unfit(facts: RewindFacts) -> Iterator[str]:
    """Why batches cannot run again from there."""
    again = facts.read_again
    if again.gone:
        yield (
            f"{len(again.gone):,} of the {again.files:,} files that have to be read again are "
            f"gone: {shown(again.gone)}. Their rows would be missing, without an error. Bring them "
            "back to the same paths."
        )
    if facts.unclear_folders:
        yield (
            f"Which source the lists in sources/{shown(facts.unclear_folders)} belong to is not "
            "known here, so it cannot be told which of them stay."
        )
    if unsure := _unsure_versions(facts.after.facts, facts.point.batch + 1):
        yield (
            "In checkpoint format 2, a version of the state may have several files, and which one "
            f"counts stands in a compressed header that is not read here: {shown(unsure)}."
        )


def _unsure_versions(after: CheckpointFacts, version: int) -> list[str]:
    """Versions before the one that is needed, of which several files are there. The needed one's
    own file is named by its commit."""
    return [
        f"{store.id.folder}, version {number}"
        for operator in after.operators
        for store in operator.stores
        for number, files in store.files.items()
        if number < version and len({file.unique_id for file in files}) > 1
    ]


def _notes(facts: RewindFacts) -> Iterator[str]:
    before, batch = facts.before.facts, facts.point.batch
    if facts.point.next_planned:
        yield (
            f"Batch {batch + 1} only applied the watermark of batch {batch}: it stays planned and "
            "runs again as it was."
        )
    last = max(before.offsets.newest or 0, before.commits.newest or 0)
    first = batch + 2 if facts.point.next_planned else batch + 1
    if last >= first:
        yield (
            f"What batch{_numbers(first, last)} read is read again, with what is new, from batch "
            f"{first} on. They may begin and end elsewhere, unless the query has the limits that "
            "it had: rows that were late may be in time then, and others late."
        )
    again = facts.read_again
    if again.not_checked:
        yield (
            f"{again.files:,} files of the sources are read again, and could not be looked for: "
            f"{again.not_checked} Rows of files that are gone would be missing: look first."
        )
    elif again.files and not again.gone:
        yield f"{again.files:,} files of the sources are read again; all are there."
    if again.changed:
        yield (
            f"{len(again.changed):,} of them have changed since they were read, and are read as "
            f"they are now: {shown(again.changed)}."
        )
    if again.not_known:
        yield (
            f"{shown(again.not_known)} cannot be read: whether the files that they name are still "
            "there is not known. Compare the source with what should be there."
        )
    yield from _other_sources(facts)
    if not all(operator.opened for operator in facts.after.facts.operators):
        yield "Of files of state that were not opened, only names and sizes are known."


def _numbers(first: int, last: int) -> str:
    return f" {first}" if first == last else f"es {first} to {last}"


def _other_sources(facts: RewindFacts) -> Iterator[str]:
    for source in facts.after.facts.sources:
        if source.offset is None or isinstance(source.offset, FileOffset):
            continue
        yield (
            f"Source {source.id} ({source.kind}) is read again from: {source.offset.summary}. "
            "Whether it still has that cannot be seen from the checkpoint: look first."
        )
