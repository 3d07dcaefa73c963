"""A Delta table taken back with the transaction of the query that writes it, and brought back.

RESTORE alone leaves the transaction as it is, and the sink would pass over the batches that run
again; so both go in one commit, which is delta-rs's.
"""

from __future__ import annotations

from itertools import takewhile

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.rewind.change import TableChange
from tidemark.checkpoint.rewind.plan import SinkPlan
from tidemark.checkpoint.rewind.table_commits import (
    BROUGHT_BACK,
    NOTE,
    TAKEN_BACK,
    TableCommit,
    gone_files,
    newer_commits,
)
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused, StorageUnavailable
from tidemark.storage.delta.place import TablePlace

# A commit of ours is retried by nobody: what was planned is one certain version.
_NO_RETRIES = 0


@commit_point(
    "sink table taken back",
    after_a_kill="before: the table has all batches, and no query starts; after: it has the "
    "earlier ones, and a repetition sees the note in its commit",
)
def take_back_table(change: TableChange, place: TablePlace, backup: str) -> None:
    """Restore the version and lower the transaction, in one commit; once for each backup.

    RewindRefused where anybody committed since the plan.
    """
    table = place.existing()
    for commit in newer_commits(place, table.version()):
        if commit.version <= change.seen:
            break
        if commit.note == f"{TAKEN_BACK} {backup}":
            return
    if table.version() != change.seen:
        raise RewindRefused(
            f"{change.uri} is at version {table.version()}, and was at {change.seen} when this "
            "was planned: somebody writes to it. Neither it nor the checkpoint was changed; the "
            "checkpoint is stopped, so that nobody goes on. Stop who writes, bring the checkpoint "
            f"back (`tidemark checkpoint restore {backup}` says how), and try again."
        )
    note = f"{TAKEN_BACK} {backup}"
    _restore(table, place, change.version, change.query_id, change.batch, note)


def plan_bringing_back(change: TableChange, place: TablePlace, backup: str) -> SinkPlan:
    """Whether the table can be brought back to what it was before; no change where it need not."""
    table = place.existing()
    newer = _since(change, place, table)
    if newer is None:
        why = (
            f"The log of {change.uri} does not reach back to version {change.seen}, so it cannot "
            "be told what bringing the table back would undo."
        )
        return SinkPlan(change, refused=why)
    if not _holds_query(newer, change):
        return SinkPlan()
    foreign = [
        commit
        for commit in newer
        if commit.note not in (f"{TAKEN_BACK} {backup}", f"{BROUGHT_BACK} {backup}")
        and change.query_id not in commit.batches
        and (commit.rows or commit.metadata)
    ]
    if foreign:
        why = (
            f"Others changed {change.uri} since: {shown(map(str, foreign))}. Bringing the table "
            "back would undo that."
        )
        return SinkPlan(change, refused=why)
    if gone := gone_files(place, table, change.seen):
        why = f"{len(gone)} data files of {change.uri} are gone, by VACUUM: {shown(gone)}."
        return SinkPlan(change, refused=why)
    return SinkPlan(change)


def _since(change: TableChange, place: TablePlace, table: DeltaTable) -> list[TableCommit] | None:
    """The commits since the table was seen, newest first; None where the log does not tell all."""
    commits = newer_commits(place, table.version())
    newer = [*takewhile(lambda commit: commit.version > change.seen, commits)]
    return newer if len(newer) == table.version() - change.seen else None


def _holds_query(newer: list[TableCommit], change: TableChange) -> bool:
    """Has the query's transaction been set: by the rewind, which sets it too, or by a batch?"""
    return any(change.query_id in commit.batches for commit in newer)


@commit_point(
    "sink table brought back",
    after_a_kill="before: the table is as the rewind left it, and no query starts; after: it is "
    "as before the rewind, and a repetition finds nothing to do",
)
def bring_back_table(change: TableChange, place: TablePlace, backup: str) -> None:
    """Bring the table and the transaction to what they were when the backup was made."""
    table = place.existing()
    newer = _since(change, place, table)
    if newer is None:
        raise StorageUnavailable(
            f"The log of {change.uri} cannot be read back to version {change.seen} now, so it "
            "cannot be told whether the table was taken back. It was not changed, and no query can "
            "start on the checkpoint. Give the command again."
        )
    if not _holds_query(newer, change):
        # A kill, or another writer, came before the table was taken back.
        return
    for commit in newer:
        if commit.note == f"{BROUGHT_BACK} {backup}":
            return
        if commit.rows or commit.metadata or commit.batches:
            break
    note = f"{BROUGHT_BACK} {backup}"
    _restore(table, place, change.seen, change.query_id, change.batch_seen, note)


def _restore(
    looked_at: DeltaTable, place: TablePlace, version: int, query_id: str, batch: int, note: str
) -> None:
    """Restore a version, unless anybody has committed since the table was looked at."""
    place.fence()
    properties = CommitProperties(
        custom_metadata={NOTE: note},
        max_commit_retries=_NO_RETRIES,
        app_transactions=[Transaction(query_id, batch)],
    )
    try:
        looked_at.restore(version, commit_properties=properties)
    except (DeltaError, OSError) as error:
        raise RewindRefused(
            f"{place.uri} was not restored to version {version}: {str(error).splitlines()[0]}. "
            "Nothing else was changed. `tidemark checkpoint doctor` says whether the checkpoint is "
            "stopped by this; then give the command again, or restore the backup."
        ) from error
