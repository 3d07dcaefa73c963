"""A Delta table that a query writes: which version holds its batches up to one, and the way back.

Spark's sink writes the transaction (query id, batch) with each batch, one without rows too, and
passes over a batch whose number is at or below it (class DeltaSink). RESTORE alone leaves the
transaction as it is; so both go back in one commit, which is delta-rs's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from tidemark.checkpoint.doctor.findings import shown
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused, StorageUnavailable
from tidemark.storage.delta.appended import commit_actions
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import stat_files
from tidemark.upkeep.rewind.change import TableChange

# Entry of a commit's own information, and what it holds there: the act and the backup.
_NOTE = "tidemark.rewind"
TAKEN_BACK, BROUGHT_BACK = "taken back", "brought back"
# A commit of ours is retried by nobody: what was planned is one certain version.
_NO_RETRIES = 0


@dataclass(frozen=True)
class TableCommit:
    """A version: the batches by query that it holds, whether it changes rows, whether it changes
    what the table says of itself, and what a rewind noted in it."""

    version: int
    operation: str
    batches: dict[str, int]
    rows: bool
    metadata: bool
    note: str | None

    def __str__(self) -> str:
        return f"version {self.version} ({self.operation})"


def newer_commits(place: TablePlace, newest: int) -> Iterator[TableCommit]:
    """The versions from `newest` down to the oldest that the log still has as an entry."""
    for version in range(newest, -1, -1):
        try:
            actions = commit_actions(place, version)
        except StorageUnavailable:
            return
        yield _commit(version, actions)


@dataclass(frozen=True)
class DeltaSinkFacts:
    """The sink as a rewind to a batch finds it.

    `batch_seen`: the query's transaction, None where the table knows none of it. `undone`: the
    versions from the first on that has a later batch, newest first; `whole`: does the log reach
    back to it? `gone`: data files that going back needs and that are not there any more. `known`:
    the ids that the newest commits name.
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
        own = commit.batches.get(query_id)
        if own is not None and own <= batch:
            gone = _gone(place, table, undone[later - 1].version - 1) if later else ()
            return DeltaSinkFacts(
                place.uri, query_id, seen, batch_seen, tuple(undone[:later]), True, gone
            )
        undone.append(commit)
        if own is not None:
            later = len(undone)
    return DeltaSinkFacts(place.uri, query_id, seen, batch_seen, tuple(undone), whole=False)


def query_batches(place: TablePlace, table: DeltaTable) -> dict[str, int]:
    """By query id, the newest batch that the log's entries name, the newest entry first."""
    found: dict[str, int] = {}
    for commit in newer_commits(place, table.version()):
        for query, batch in commit.batches.items():
            found.setdefault(query, batch)
    return found


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
    first = facts.undone[-1].version
    change = TableChange(facts.uri, facts.query_id, facts.seen, first - 1, seen, batch)
    return change, None


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
            f"{facts.undone[-1].version - 1} needs are gone, by VACUUM: {shown(facts.gone)}."
        )
    return None


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
            f"back (`tidemark checkpoint restore {backup} --apply`), and try again."
        )
    _restore(place, change.version, change.query_id, change.batch, f"{TAKEN_BACK} {backup}")


def plan_bringing_back(change: TableChange, place: TablePlace, backup: str) -> str | None:
    """Why the table cannot be brought back to what it was before; None where it can, or has not to
    be."""
    table = place.existing()
    newer = [c for c in newer_commits(place, table.version()) if c.version > change.seen]
    if len(newer) != table.version() - change.seen:
        return (
            f"The log of {change.uri} does not reach back to version {change.seen}, so it cannot "
            "be told what bringing the table back would undo."
        )
    foreign = [
        commit
        for commit in newer
        if commit.note not in (f"{TAKEN_BACK} {backup}", f"{BROUGHT_BACK} {backup}")
        and change.query_id not in commit.batches
        and (commit.rows or commit.metadata)
    ]
    if foreign:
        return (
            f"Others changed {change.uri} since: {shown(map(str, foreign))}. Bringing the table "
            "back would undo that."
        )
    gone = _gone(place, table, change.seen)
    if gone:
        return f"{len(gone)} data files of {change.uri} are gone, by VACUUM: {shown(gone)}."
    return None


@commit_point(
    "sink table brought back",
    after_a_kill="before: the table is as the rewind left it, and no query starts; after: it is "
    "as before the rewind, and a repetition finds nothing to do",
)
def bring_back_table(change: TableChange, place: TablePlace, backup: str) -> None:
    """Bring the table and the transaction to what they were when the backup was made."""
    table = place.existing()
    for commit in newer_commits(place, table.version()):
        if commit.version <= change.seen or commit.note == f"{BROUGHT_BACK} {backup}":
            return
        if commit.rows or commit.metadata or commit.batches:
            break
    _restore(place, change.seen, change.query_id, change.batch_seen, f"{BROUGHT_BACK} {backup}")


def _restore(place: TablePlace, version: int, query_id: str, batch: int, note: str) -> None:
    place.fence()
    properties = CommitProperties(
        custom_metadata={_NOTE: note},
        max_commit_retries=_NO_RETRIES,
        app_transactions=[Transaction(query_id, batch)],
    )
    try:
        place.existing().restore(version, commit_properties=properties)
    except (DeltaError, OSError) as error:
        raise RewindRefused(
            f"{place.uri} was not restored to version {version}: {str(error).splitlines()[0]}. "
            "Nothing else was changed. `tidemark checkpoint doctor` says whether the checkpoint is "
            "stopped by this; then give the command again, or restore the backup."
        ) from error


def _gone(place: TablePlace, table: DeltaTable, version: int) -> tuple[str, ...]:
    """Data files of a version that are not part of the newest one, and not in the store."""
    newest = set(table.file_uris())
    needed = [uri for uri in place.at_version(version).file_uris() if uri not in newest]
    found = stat_files(needed, place.options)
    return tuple(uri for uri, facts in found.items() if facts is None)


def _commit(version: int, actions: list[dict[str, Any]]) -> TableCommit:
    info: dict[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    changes = [one.get("add") or one.get("remove") for one in actions]
    return TableCommit(
        version,
        str(info.get("operation")),
        {str(one["txn"]["appId"]): int(one["txn"]["version"]) for one in actions if "txn" in one},
        any(one["dataChange"] for one in changes if one),
        any("metaData" in one or "protocol" in one for one in actions),
        info.get(_NOTE),
    )
