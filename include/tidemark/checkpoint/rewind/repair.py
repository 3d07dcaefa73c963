"""The plan of a repair: the smallest change after which a query goes on rightly, without loss.

First what needs no batch to run again: files that only disturb, a last commit that cannot be read,
a lost id. Where the doctor would not let a query start even so, the checkpoint goes back to the
newest batch from which one can, and what came after is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from tidemark.checkpoint.doctor.files import old_leftovers
from tidemark.checkpoint.doctor.findings import Diagnosis, FindingKind, Severity
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.doctor.watermark import watermark_ms
from tidemark.checkpoint.reading.checksums import after_checksums
from tidemark.checkpoint.reading.facts import CheckpointFacts, FileProblem, Unreadable
from tidemark.checkpoint.reading.layout import possible_batches
from tidemark.checkpoint.reading.log_formats import CommitEntry, OffsetEntry
from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.plan import (
    NO_SINK,
    ChangePlan,
    SinkPlan,
    damage_of,
    plan_rewind,
    seems_to_run,
)
from tidemark.checkpoint.rewind.read import CheckpointSnapshot, read_for_rewind
from tidemark.checkpoint.rewind.sinks import Sink
from tidemark.errors import RewindRefused
from tidemark.pipeline.instants import instant_text

# As far ahead of its batch's time as the doctor lets a watermark be.
_FAR = timedelta(hours=1)
# So many batches are tried, from the newest on; each is one look at the checkpoint.
_TRIED = 50
_ANEW = (
    "What can be lost then is what the findings say is at risk. Restore the files from a backup; "
    "or start the query anew: in a new folder, from where its source still has what the open "
    "windows and keys need, and into a new table, or one from which their rows were removed first."
)


def plan_repair(
    found: CheckpointSnapshot, sink: Sink | None, now: datetime, stopped: bool = False
) -> ChangePlan:
    """Plan the repair of a checkpoint. `now` is in UTC. Reads the sink, and the checkpoint again
    for each batch that is tried; RewindRefused where the sink does not tell what it has to."""
    mending = plan_mending(found, sink, now)
    repair = _Repair(found, found.without(mending.removed), mending, sink, now, stopped)
    facts = with_id(repair.mended.facts, mending)
    diagnosis = judge_checkpoint(facts, now)
    poisoned = any(one.kind is FindingKind.WATERMARK for one in diagnosis.findings)
    apart = _apart(facts, sink)
    if not [*damage_of(diagnosis)] and not poisoned and not apart:
        return repair.in_place(facts, diagnosis)
    unknown = any(one.severity is Severity.UNKNOWN for one in diagnosis.findings)
    # What a newer engine wrote may be right: nobody can tell what would be thrown away.
    back = None if unknown else repair.back(poisoned)
    return back or _refused(found, diagnosis, facts, apart)


def _apart(facts: CheckpointFacts, sink: Sink | None) -> str | None:
    """Why a sink that was said has other batches than the logs."""
    query_id = _id(facts)
    if sink is None or query_id is None:
        return None
    return sink.apart((query_id,), facts.offsets.newest, facts.commits.newest)


@dataclass(frozen=True)
class _Repair:
    """A checkpoint as it was found and as it is once mended, and what was said with it."""

    found: CheckpointSnapshot
    mended: CheckpointSnapshot
    mending: Mending
    sink: Sink | None
    now: datetime
    stopped: bool

    def in_place(self, facts: CheckpointFacts, diagnosis: Diagnosis) -> ChangePlan:
        change = replace(
            _change(self.found, self.mending, facts.commits.newest),
            sink=self.sink.said if self.sink is not None else None,
        )
        idle = not change.removed and not change.written
        running = None if self.stopped or idle else seems_to_run(self.found, self.now)
        # What wrote that state may have written to the sink as well, and the log does not know.
        unsaid = NO_SINK if self.sink is None and _state_ahead(self.found)[0] else None
        return ChangePlan(
            change,
            diagnosis,
            watermark_ms(facts),
            self.mending.notes,
            tuple(reason for reason in (unsaid, running) if reason),
        )

    def back(self, poisoned: bool) -> ChangePlan | None:
        """The newest batch to which it can go back; None where there is none."""
        mended, newest_first = self.mended, reversed(possible_batches(self.mended.layout))
        tried = (batch for batch in newest_first if not (poisoned and _ahead(mended, batch)))
        refused: ChangePlan | None = None
        for batch in islice(tried, _TRIED):
            plan = self._to(batch)
            if plan is None:
                continue
            plan = _poison_told(plan, mended, batch) if poisoned else plan
            if not plan.refused:
                return plan
            # What hinders the newest one (a file that is gone, a sink that was not told) is told.
            refused = refused or plan
        return refused

    def _to(self, batch: int) -> ChangePlan | None:
        """The plan of going back to a batch; None where the state or the logs do not allow it."""
        try:
            facts = read_for_rewind(self.mended, batch)
        except RewindRefused:
            return None
        after = replace(facts.after, facts=with_id(facts.after.facts, self.mending))
        if [*damage_of(judge_checkpoint(after.facts, self.now))]:
            return None
        query_id = self.mending.query_id or _id(self.mended.facts)
        planned: SinkPlan | None = None
        if self.sink is not None and query_id is not None:
            planned = self.sink.plan(query_id, batch)
        plan = plan_rewind(replace(facts, after=after), planned, self.now, self.stopped)
        change = _change(self.found, self.mending, batch)
        whole = replace(
            plan.change,
            title=f"repaired, and taken back to the end of batch {batch}",
            listed=change.listed,
            removed=(*change.removed, *plan.change.removed),
            written=change.written,
        )
        return replace(plan, change=whole, notes=(*self.mending.notes, *plan.notes))


def _refused(
    found: CheckpointSnapshot, diagnosis: Diagnosis, facts: CheckpointFacts, apart: str | None
) -> ChangePlan:
    change = _change(found, Mending(), facts.commits.newest)
    ahead = (
        f"{one.known} No batch in the logs from which a query could go on is older than that."
        for one in diagnosis.findings
        if one.kind is FindingKind.WATERMARK
    )
    refused = (*damage_of(diagnosis), *ahead, *([apart] if apart else ()))
    return ChangePlan(change, diagnosis, watermark_ms(facts), (_ANEW,), refused)


def _change(found: CheckpointSnapshot, mending: Mending, last: int | None) -> CheckpointChange:
    return CheckpointChange(
        found.place.uri,
        "repaired",
        {name: file.size for name, file in found.files.items()},
        mending.removed,
        last,
        {} if mending.written is None else {METADATA: mending.written},
    )


def _id(facts: CheckpointFacts) -> str | None:
    return facts.query_id if isinstance(facts.query_id, str) else None


def _ahead(found: CheckpointSnapshot, batch: int) -> bool:
    """Did a batch leave a watermark far beyond its time, or not say what it left?"""
    offsets, commit = found.entry(batch), found.commit(batch)
    if not isinstance(offsets, OffsetEntry) or not isinstance(commit, CommitEntry):
        return True
    far = (offsets.batch_time_ms or 0) + _FAR // timedelta(milliseconds=1)
    return max(offsets.watermark_ms or 0, commit.next_watermark_ms) > far


def _poison_told(plan: ChangePlan, found: CheckpointSnapshot, batch: int) -> ChangePlan:
    commit = found.commit(batch + 1)
    moved = (
        f" to {instant_text(commit.next_watermark_ms)}" if isinstance(commit, CommitEntry) else ""
    )
    note = (
        f"Batch {batch + 1} moved the watermark{moved}, far beyond its own time. Its rows are read "
        "again: keep the row that is far in the future out before the watermark (in the query, "
        "or in the source), or it moves the watermark again."
    )
    return replace(plan, notes=(note, *plan.notes))


METADATA = "metadata"


@dataclass(frozen=True)
class Mending:
    """What needs no batch to run again: files that go, a `metadata` that is written, and why."""

    removed: tuple[str, ...] = ()
    written: str | None = None
    query_id: str | None = None
    notes: tuple[str, ...] = ()


def plan_mending(found: CheckpointSnapshot, sink: Sink | None, now: datetime) -> Mending:
    """What can be mended of a checkpoint without a batch that runs again. Reads the sink;
    RewindRefused where it does not tell the query's id. `now` is in UTC."""
    removed: list[str] = []
    notes: list[str] = []
    for names, note in (
        _commit(found),
        _snapshots(found),
        _state_ahead(found),
        _leftovers(found, now),
    ):
        if names:
            removed += after_checksums(names, found.layout.checksums)
            notes.append(note)
    identity = _identity(found, sink)
    if identity.written is not None:
        # Its checksum would be that of another file.
        removed += [*after_checksums([METADATA], found.layout.checksums)][:-1]
    if identity.written is not None and METADATA in found.files:
        removed.append(METADATA)
    return replace(
        identity,
        removed=tuple(dict.fromkeys(removed)),
        notes=(*notes, *identity.notes),
    )


def _commit(found: CheckpointSnapshot) -> tuple[list[str], str]:
    """The last commit, where it cannot be used and its offsets can: the batch runs again."""
    facts = found.facts
    newest = facts.commits.newest
    if newest is None or newest != facts.offsets.newest or facts.offsets.entry(newest) is None:
        return [], ""
    name = f"commits/{newest}"
    bad = facts.commits.read.get(newest)
    unusable = isinstance(bad, Unreadable) and not bad.undecided
    if not unusable and name not in facts.wrong_checksums:
        return [], ""
    return [name], (
        f"{name} cannot be used and goes: batch {newest} runs again, with the same offsets, time "
        "and watermark. A Delta or file sink that has it passes over it; any other gets its rows "
        "once more, as after a kill."
    )


def _snapshots(found: CheckpointSnapshot) -> tuple[list[str], str]:
    """Empty or cut snapshots; that an older one is cut is seen once nothing newer does."""
    names: list[str] = []
    left = found
    while broken := _broken_snapshots(left):
        names += broken
        left = left.without(broken)
    return names, (
        f"{len(names)} snapshots of the state are empty or cut and go: each version is built from "
        "older files."
    )


def _broken_snapshots(found: CheckpointSnapshot) -> list[str]:
    return [
        f"{store.id.folder}/{file.name}"
        for operator in found.facts.operators
        for store in operator.stores
        for files in store.files.values()
        for file in files
        if file.full
        and not file.rocksdb
        and (file.size == 0 or f"{store.id.folder}/{file.name}" in operator.cut)
    ]


def _state_ahead(found: CheckpointSnapshot) -> tuple[list[str], str]:
    facts = found.facts
    newest = max(facts.version_needed, (facts.offsets.newest or 0) + 1)
    names = [
        f"{store.id.folder}/{file.name}"
        for operator in facts.operators
        for store in operator.stores
        for version, files in store.files.items()
        if version > newest
        for file in files
    ]
    return names, (
        f"{len(names)} files of state of versions above {newest} go: no batch of this log has "
        "written them."
    )


def _leftovers(found: CheckpointSnapshot, now: datetime) -> tuple[list[str], str]:
    names = list(old_leftovers(found.layout.leftovers, now))
    return names, f"{len(names)} files that dead runs left go."


def _identity(found: CheckpointSnapshot, sink: Sink | None) -> Mending:
    """`metadata` written anew, where it is lost. RewindRefused where a Delta sink knows another."""
    facts = found.facts
    held = facts.query_id
    started = bool(facts.offsets.batches or facts.commits.batches)
    if isinstance(held, Unreadable) and held.problem in (
        FileProblem.UNKNOWN_FORMAT,
        FileProblem.UNREADABLE,
    ):
        return Mending()
    lost = not isinstance(held, str) or METADATA in facts.wrong_checksums
    if isinstance(held, str) and not lost and sink is not None and facts.commits.batches:
        sink.check_knows(held)
    if not started or not lost:
        return Mending()
    if sink is None:
        raise RewindRefused(
            "`metadata`, which holds the query's id, is lost or cannot be trusted. A Delta sink's "
            "log tells the id: give the table by `--sink delta:URI`. Nothing was changed."
        )
    logs = (facts.offsets.newest, facts.commits.newest)
    query_id = sink.query_id_at(frozenset(batch for batch in logs if batch is not None))
    return Mending(
        written=f'{{"id":"{query_id}"}}',
        query_id=query_id,
        notes=(f"`metadata` is written anew, with the id that the sink knows: {query_id}.",),
    )


def with_id(facts: CheckpointFacts, mending: Mending) -> CheckpointFacts:
    """The facts as they are once `metadata` is written."""
    if mending.query_id is None:
        return facts
    return replace(
        facts,
        query_id=mending.query_id,
        wrong_checksums=tuple(one for one in facts.wrong_checksums if one != METADATA),
    )
