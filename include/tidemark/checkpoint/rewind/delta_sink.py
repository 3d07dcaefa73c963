"""A Delta table that a query writes: which version holds its batches up to one.

Spark's sink writes the transaction (query id, batch) with each batch, one without rows too, and
passes over a batch whose number is at or below it (class DeltaSink).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.rewind.change import TableChange
from tidemark.checkpoint.rewind.table_commits import (
    TableCommit,
    gone_files,
    newer_commits,
    query_batches,
)
from tidemark.errors import RewindRefused
from tidemark.storage.delta.place import TablePlace


@dataclass(frozen=True)
class DeltaSinkFacts:
    """The sink as a rewind to a batch finds it.

    `batch_seen`: the query's transaction, None where the table knows none of it. `undone`: the
    versions from the first on that has a later batch, newest first, without those that a rewind or
    its undoing has undone already; `whole`: does the log reach back to it? `gone`: data files that
    going back needs and that are not there any more. `known`: the ids that the newest commits name.
    """

    uri: str
    query_id: str
    seen: int
    batch_seen: int | None
    undone: tuple[TableCommit, ...] = ()
    whole: bool = True
    gone: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


def read_delta_sink(place: TablePlace, query_id: str, batch: int) -> DeltaSinkFacts:
    """Read the table's log back to where the query's `batch` stands. RewindRefused where there is
    no table; DataDamaged and StorageUnavailable as opening a table raises them."""
    table = place.open()
    if table is None:
        raise RewindRefused(f"There is no Delta table {place.uri}. Nothing was changed.")
    seen, batch_seen = table.version(), table.transaction_version(query_id)
    if batch_seen is None or batch_seen <= batch:
        known = tuple(query_batches(place, table)) if batch_seen is None else ()
        return DeltaSinkFacts(place.uri, query_id, seen, batch_seen, known=known)
    undone: list[TableCommit] = []
    later = 0
    for commit in newer_commits(place, seen):
        if undone and commit.version > undone[-1].before:
            continue
        own = commit.batches.get(query_id)
        if own is not None and own <= batch:
            gone = gone_files(place, table, undone[later - 1].before) if later else ()
            return DeltaSinkFacts(
                place.uri, query_id, seen, batch_seen, tuple(undone[:later]), True, gone
            )
        undone.append(commit)
        if own is not None:
            later = len(undone)
    return DeltaSinkFacts(place.uri, query_id, seen, batch_seen, tuple(undone), whole=False)


def plan_delta_sink(facts: DeltaSinkFacts, batch: int) -> tuple[TableChange | None, str | None]:
    """The table's change, None where it stands at the batch; and why there is none. Pure."""
    seen = facts.batch_seen
    if seen is None:
        named = f"its log names {shown(facts.known)}" if facts.known else "its log names none"
        return None, (
            f"The table {facts.uri} has no transaction of the query {facts.query_id}: {named}. "
            "Is it another query's sink, or written by foreachBatch? Then it is not what "
            "`--sink delta:` means."
        )
    if seen < batch:
        return None, (
            f"The table {facts.uri} has the query's batches up to {seen} only, and the checkpoint "
            f"says that batch {batch} is done: rows of batches {seen + 1} to {batch} would be "
            f"missing. Go back to batch {seen}, or to one before."
        )
    if seen == batch:
        return None, None
    if refused := _refused(facts, batch):
        return None, refused
    to = facts.undone[-1].before
    return TableChange(facts.uri, facts.query_id, facts.seen, to, seen, batch), None


def _refused(facts: DeltaSinkFacts, batch: int) -> str | None:
    if not facts.whole:
        return (
            f"The log of {facts.uri} does not reach back to the query's batch {batch}: its oldest "
            "entries are gone (`delta.logRetentionDuration`)."
        )
    others = [one for one in facts.undone if facts.query_id not in one.batches]
    if rows := [one for one in others if one.rows]:
        return (
            f"Others changed rows of {facts.uri} after batch {batch}, and going back would undo "
            f"that: {shown(map(str, rows))}."
        )
    if changed := [one for one in others if one.metadata]:
        return (
            f"The columns, properties or features of {facts.uri} were changed after batch "
            f"{batch}, and going back would undo that in part: {shown(map(str, changed))}."
        )
    if facts.gone:
        return (
            f"{len(facts.gone)} data files of {facts.uri} that version "
            f"{facts.undone[-1].before} needs are gone, by VACUUM: {shown(facts.gone)}."
        )
    return None
