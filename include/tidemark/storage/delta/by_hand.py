"""Commits that changed a table's rows and are none of ours: DELETE, UPDATE, RESTORE, an overwrite,
rows that were added.

The streams pass over what such a commit removes (`skipChangeCommits`), and take what it only adds
for new rows. Ours carry a note. A commit that only moves rows (OPTIMIZE: `dataChange` is false) or
changes what the table says of itself is nothing to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.appended import commit_actions
from tidemark.storage.delta.notes import AcceptedNote, PublishedNote, note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.place import TablePlace

# The property of a table up to which version its changes by hand were accepted.
ACCEPTED = "tidemark.accepted"


@dataclass(frozen=True)
class HandCommit:
    """A commit that changed rows by hand: Delta's word for it, when (by its writer's clock, in
    UTC), and the `add` and `remove` actions that changed rows."""

    version: int
    operation: str
    time: datetime
    added: Sequence[dict[str, Any]]
    removed: Sequence[dict[str, Any]]

    def __str__(self) -> str:
        return (
            f"version {self.version} ({self.operation}, {self.time:%Y-%m-%dT%H:%M:%SZ}: "
            f"{len(self.removed)} files removed, {len(self.added)} added)"
        )


def commits_by_hand(
    table: DeltaTable,
    place: TablePlace,
    after: int,
    accepted: bool = True,
    of: str | None = None,
) -> list[HandCommit]:
    """Those of the versions behind `after`, oldest first, that nobody has accepted, `of` that table
    of the pipeline where it is given; all of them where `accepted` is False. Entries that the log
    no longer has are not told."""
    found: list[HandCommit] = []
    for commit in newest_first(table):
        if commit["version"] <= after:
            break
        if (acceptance := acceptance_of(commit)) is not None:
            named = acceptance.tables
            holds = accepted and (of is None or named is None or of in named)
            after = max(after, acceptance.up_to) if holds else after
        elif note_of(commit) is None and (by_hand := _by_hand(commit, place)) is not None:
            found.append(by_hand)
    return found[::-1]


def acceptance_of(commit: dict[str, Any]) -> AcceptedNote | None:
    """What a commit accepts of its own table's changes by hand; None where it accepts none of them.
    None reaches its own commit: a note that does is of another table's versions."""
    note = note_of(commit)
    if isinstance(note, AcceptedNote) and 0 <= note.up_to < commit["version"]:
        return note
    return None


def accepted_to(table: DeltaTable) -> int:
    """The version up to which somebody accepted what was changed by hand; -1: nothing was. Known
    also where the log has no note of it any more."""
    return int(table.metadata().configuration.get(ACCEPTED) or -1)


def last_publish(gold: DeltaTable) -> int:
    """The version of gold's newest publish; -1 where the log knows of none."""
    publishes = (one for one in newest_first(gold) if isinstance(note_of(one), PublishedNote))
    return next((int(one["version"]) for one in publishes), -1)


def _by_hand(commit: dict[str, Any], place: TablePlace) -> HandCommit | None:
    version = int(commit["version"])
    actions = commit_actions(place, version)
    added = [a["add"] for a in actions if "add" in a and a["add"]["dataChange"]]
    removed = [a["remove"] for a in actions if "remove" in a and a["remove"]["dataChange"]]
    if not added and not removed:
        return None
    time = instant_of(int(commit.get("timestamp") or 0))
    return HandCommit(version, str(commit.get("operation")), time, added, removed)
