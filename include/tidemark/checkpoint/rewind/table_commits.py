"""The commits of a Delta table that a query writes, as the entries of its log tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from tidemark.errors import StorageUnavailable
from tidemark.storage.delta.appended import commit_actions
from tidemark.storage.delta.dataset import data_files
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import stat_files
from tidemark.storage.json_text import number_of

# Entry of a commit's own information, and what it holds there: the act and the backup.
NOTE = "tidemark.rewind"
TAKEN_BACK, BROUGHT_BACK = "taken back", "brought back"


@dataclass(frozen=True)
class TableCommit:
    """A version: the batches by query that it holds, whether it changes rows, whether it changes
    what the table says of itself, and what a rewind noted in it.

    `before`: the version that it goes on from: the one before it, or the one that a rewind or its
    undoing restored; -1 where such a commit does not tell it.
    """

    version: int
    before: int
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


def query_batches(place: TablePlace, table: DeltaTable) -> dict[str, int]:
    """By query id, the newest batch that the log's entries name, the newest entry first."""
    found: dict[str, int] = {}
    for commit in newer_commits(place, table.version()):
        for query, batch in commit.batches.items():
            found.setdefault(query, batch)
    return found


def gone_files(place: TablePlace, table: DeltaTable, version: int) -> tuple[str, ...]:
    """Data files of a version that are not part of the newest one, and not in the store."""
    newest = set(data_files(place, table))
    needed = [uri for uri in data_files(place, place.at_version(version)) if uri not in newest]
    found = stat_files(needed, place.options)
    return tuple(uri for uri, facts in found.items() if facts is None)


def _commit(version: int, actions: list[dict[str, Any]]) -> TableCommit:
    info: dict[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    changes = [one.get("add") or one.get("remove") for one in actions]
    before = version - 1
    if NOTE in info:
        restored = number_of(str(info.get("operationParameters", {}).get("version")))
        before = -1 if restored is None else restored
    return TableCommit(
        version,
        before,
        str(info.get("operation")),
        {str(one["txn"]["appId"]): int(one["txn"]["version"]) for one in actions if "txn" in one},
        any(one["dataChange"] for one in changes if one),
        any("metaData" in one or "protocol" in one for one in actions),
        info.get(NOTE),
    )
