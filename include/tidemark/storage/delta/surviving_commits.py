"""Which commits of a table still count: a rewind takes back all between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidemark.storage.delta.notes import RewoundNote, note_of


def surviving_commits(newest_first: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of commits as `DeltaTable.history` has them, those that no later rewind has taken back, and
    the rewinds among them. Their batches have numbers that come again."""
    taken_back_to: int | None = None
    for commit in newest_first:
        if taken_back_to is not None and commit["version"] > taken_back_to:
            continue
        note = note_of(commit)
        if isinstance(note, RewoundNote):
            taken_back_to = note.to_version
        yield commit
