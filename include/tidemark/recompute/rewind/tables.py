"""How a table of a pipeline goes back: to which version, and why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.rewind.table_commits import gone_files
from tidemark.errors import RewindRefused
from tidemark.recompute.rewind.change import TableBack
from tidemark.storage.delta.by_hand import acceptance_of, commits_by_hand
from tidemark.storage.delta.dropped_rejects import dropped_to
from tidemark.storage.delta.fence import PROPERTY
from tidemark.storage.delta.notes import (
    IngestNote,
    PublishedNote,
    ReplayedNote,
    RetractedNote,
    WidenedNote,
    note_of,
)
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.surviving_commits import surviving_commits

_CONSTRAINT = "delta.constraints."


@dataclass(frozen=True)
class PlannedBack:
    """A table's way back, sentences for the plan, and why it is refused."""

    back: TableBack
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def newest_with(place: TablePlace, at: int, batch: int, follows: Callable[[str], bool]) -> int:
    """The newest version from `at` on that holds the rows of ingest batches up to `batch`, and
    nothing that was changed by hand since and not accepted. An act that `follows` what the source
    changed belongs to the batch behind it.

    What maintenance has packed since stays packed: files of `at` itself may be gone.
    """
    table = place.existing()
    later = [
        int(commit["version"])
        for commit in _since(table, at)
        if (isinstance(note := note_of(commit), IngestNote) and note.batch > batch)
        or (isinstance(note, RetractedNote) and follows(note.id))
    ]
    return _before(place, table, at, later)


def newest_published(place: TablePlace, at: int) -> int:
    """The newest version of gold from `at` on that nothing was published to since, nor changed by
    hand."""
    table = place.existing()
    later = [
        int(commit["version"])
        for commit in _since(table, at)
        if isinstance(note_of(commit), PublishedNote)
    ]
    return _before(place, table, at, later)


def published_by(table: DeltaTable, at: int) -> str | None:
    """The run whose publish a version of gold shows; None where its log does not tell."""
    for commit in table.history():
        note = note_of(commit)
        if commit["version"] <= at and isinstance(note, PublishedNote):
            return note.run
    return None


def _before(place: TablePlace, table: DeltaTable, at: int, later: list[int]) -> int:
    by_hand = (commit.version for commit in commits_by_hand(table, place, at))
    return min([*later, *by_hand], default=table.version() + 1) - 1


def _acts_between(table: DeltaTable, version: int) -> list[str]:
    """The retractions behind a version that were not taken back behind it too, and those of before
    that were; the newest first."""
    odd: dict[str, None] = {}
    for commit in _since(table, version):
        note = note_of(commit)
        if isinstance(note, RetractedNote):
            if note.rows_of in odd:
                del odd[note.rows_of]
            else:
                odd[note.rows_of] = None
    return list(odd)


def plan_back(place: TablePlace, version: int, query: str = "") -> PlannedBack:
    """Take a table back to a version. `query`: the ingest's id, of a table that it writes.
    RewindRefused where its log does not reach back to it."""
    table = place.existing()
    seen = table.version()
    try:
        then = place.at_version(version)
    except DeltaError as error:
        raise RewindRefused(
            f"The log of {place.uri} does not reach back to version {version} any more ({error}): "
            "what is older than `maintenance.log_retention` is removed. Nothing was changed. Name "
            "a later run."
        ) from error
    batch = then.transaction_version(query) if query else None
    properties = _set_since(table, then)
    back = TableBack(
        uri=place.uri,
        seen=seen,
        version=version,
        batch=-1 if batch is None else batch,
        properties=properties,
    )
    if version == seen:
        return PlannedBack(back)
    return PlannedBack(
        back,
        tuple(_notes(place, table, then, version)),
        tuple(_refused(place, table, then, version)),
    )


def _since(table: DeltaTable, at: int) -> Iterator[dict[str, Any]]:
    newer = table.version() - at
    commits = table.history(newer) if newer > 0 else []
    return (commit for commit in surviving_commits(commits) if commit["version"] > at)


def _set_since(table: DeltaTable, then: DeltaTable) -> dict[str, str]:
    """Properties that somebody set since; that of the lease is set by its owner."""
    now, before = _properties(table), _properties(then)
    return {
        name: value
        for name, value in now.items()
        if before.get(name) != value and not name.startswith(_CONSTRAINT)
    }


def _properties(table: DeltaTable) -> dict[str, str]:
    found: Mapping[str, str] = table.metadata().configuration
    return {name: str(value) for name, value in found.items() if name != PROPERTY}


def _notes(place: TablePlace, table: DeltaTable, then: DeltaTable, version: int) -> Iterator[str]:
    if (gone := dropped_to(table)) > dropped_to(then):
        yield (
            f"Rejects of the batches up to {gone:,} were dropped since (`keep_rejects`): they are "
            f"in {place.uri} again until maintenance drops them, and no number here has them."
        )
    by_hand = commits_by_hand(table, place, version)
    if by_hand:
        yield f"What was changed by hand in {place.uri} is undone: {shown(map(str, by_hand))}."


def _refused(place: TablePlace, table: DeltaTable, then: DeltaTable, version: int) -> Iterator[str]:
    accepted = [note for one in _since(table, version) if (note := acceptance_of(one)) is not None]
    if accepted and commits_by_hand(table, place, version, accepted=False):
        yield (
            f"What was changed by hand in {place.uri} was accepted since ({accepted[0].reason}, by "
            f"{accepted[0].by}), and going back would undo it: rows that were removed would be "
            "there again."
        )
    if any(isinstance(note_of(one), WidenedNote) for one in _since(table, version)):
        yield (
            f"Columns of {place.uri} have got wider types since, by which its tables are computed; "
            "its version of then has the former ones."
        )
    if acts := _acts_between(table, version):
        yield (
            f"Rows of {place.uri} were retracted since, or brought back ({shown(acts)}), and going "
            "back would undo only half of that: they would be in bronze and in `retracted`, or in "
            "neither. Name a later run; or take back first what was retracted (`tidemark retract`)."
        )
    notes = [note_of(commit) for commit in _since(table, version)]
    if replays := [note.id for note in notes if isinstance(note, ReplayedNote)]:
        yield (
            f"Rejects were replayed since, which {place.uri} tells ({shown(replays)}), and going "
            "back would undo only a part of that: they would be in bronze and in rejects, or in "
            "neither. Name a later run."
        )
    now, before = _properties(table), _properties(then)
    named = {name for name in now.keys() | before.keys() if name.startswith(_CONSTRAINT)}
    constraints = {name for name in named if now.get(name) != before.get(name)}
    unset = sorted(name for name in before.keys() - now.keys())
    if constraints or unset:
        yield (
            f"Properties of {place.uri} were set or unset since, and a restore would undo that: "
            f"{shown(sorted({*constraints, *unset}))}."
        )
    gone = gone_files(place, table, version)
    if gone:
        yield (
            f"{len(gone)} data files of {place.uri} that its version {version} needs are gone, by "
            f"VACUUM: {shown(gone)}."
        )
