"""The part of a repair for which no batch is planned anew: files that only disturb, a last
commit that cannot be used, a lost id."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tidemark.checkpoint.doctor.files import old_leftovers
from tidemark.checkpoint.reading.checksums import after_checksums
from tidemark.checkpoint.reading.facts import CheckpointFacts, FileProblem, Unreadable
from tidemark.checkpoint.rewind.read import CheckpointSnapshot
from tidemark.checkpoint.rewind.sinks import Sink
from tidemark.errors import RewindRefused

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
    """`metadata` written anew, where it is lost, or is none that the Delta sink knows."""
    facts = found.facts
    held = facts.query_id
    started = bool(facts.offsets.batches or facts.commits.batches)
    if isinstance(held, Unreadable) and held.problem in (
        FileProblem.UNKNOWN_FORMAT,
        FileProblem.UNREADABLE,
    ):
        return Mending()
    lost = not isinstance(held, str) or METADATA in facts.wrong_checksums
    if isinstance(held, str) and not lost and sink is not None:
        lost = not sink.knows(held)
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
