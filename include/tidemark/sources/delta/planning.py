"""From what was planned and what the table is now: what the next batch reads, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.checkpoint.log import Checkpoint
from tidemark.sources.delta.log import Version
from tidemark.sources.delta.offsets import Offset, Part
from tidemark.sources.delta.table import SourceTable
from tidemark.sources.notes import AcceptedLoss
from tidemark.storage.files import stat_files

CHANGED, EXPIRED, GONE, REPLACED, SET_BACK = (
    "changed rows", "expired", "gone", "replaced", "set back",
)  # fmt: skip


@dataclass(frozen=True)
class Position:
    """Where an ingest stands: the last batch that was planned (-1: none yet), and its offset;
    `is_pending`: it is not committed, and runs again."""

    batch: int = -1
    offset: Offset | None = None
    is_pending: bool = False


@dataclass(frozen=True)
class Lost:
    """A part of a table that is gone or is no append. `batch`: the one that has the verdict; None:
    the one that reads its version. `what` says it for people."""

    part: Part
    id: str
    reason: str
    what: str
    batch: int | None = None
    was_planned: bool = False


def position_of(ingest: Checkpoint) -> Position:
    """Read from the checkpoint; raises CheckpointUnreadable."""
    last = ingest.last_batch("offsets")
    if last is None:
        return Position()
    committed = ingest.last_batch("commits")
    return Position(last, batch_offset(ingest, last), committed is None or committed < last)


def batch_offset(ingest: Checkpoint, batch: int) -> Offset:
    """The offset of a batch, as it was planned."""
    (text,) = ingest.offsets(batch).sources
    return Offset.of(text or "", f"{ingest.uri}/offsets/{batch}")


def first_offset(table: SourceTable, starting: str | int) -> Offset:
    """Of the first batch. `earliest` reads the log from its beginning, or, where that is gone, what
    the table holds now."""
    after = table.newest + 1
    if starting == "latest":
        return Offset(table.id, after, after)
    if isinstance(starting, int):
        return Offset(table.id, starting, after)
    return _from_the_beginning(table)


def next_offset(position: Position, table: SourceTable, accepted: Sequence[AcceptedLoss]) -> Offset:
    """From where the last batch ended to the newest version; of another table all. Only where
    nothing is lost it is what a batch may read."""
    before = position.offset
    assert before is not None
    if before.id != table.id:
        return _from_the_beginning(table)
    begin = before.next
    for one in accepted:
        if (one.reason, one.id, one.batch) == (SET_BACK, table.id, position.batch + 1):
            begin = min(begin, Part.of(one.part).version)
    return Offset(table.id, begin, max(begin, table.newest + 1))


def lost_parts(
    position: Position, table: SourceTable, accepted: Sequence[AcceptedLoss], skips: bool
) -> tuple[Lost, ...]:
    """What is lost and was not accepted, of the batch that runs again and of the next ones.
    `skips`: versions that change rows are passed over by the pipeline's own word."""
    before = position.offset
    if before is None:
        planned = [first_offset(table, "latest")]
        found: list[Lost] = []
    else:
        planned = [next_offset(position, table, accepted)]
        found = list(_lost_with_the_table(position, before, table, planned[0]))
        if position.is_pending and before.id == table.id:
            planned.append(before)
    for offset in planned:
        found += _lost_of(table, offset, skips)
    known = {(one.id, one.batch): [] for one in accepted}  # type: ignore[var-annotated]
    for entry in accepted:
        known[entry.id, entry.batch].append(Part.of(entry.part))
    return tuple(
        one
        for one in found
        if not any(part.holds(one.part) for part in known.get((one.id, one.batch), ()))
    )


def lost_of_start(table: SourceTable, offset: Offset, skips: bool) -> tuple[Lost, ...]:
    """The same of the first batch, before anything was read."""
    return tuple(_lost_of(table, offset, skips))


def steps(offset: Offset, table: SourceTable, most: int | None) -> list[Offset]:
    """A plan in batches of at most so many files, but for a version (or snapshot) that has more:
    that is read at once."""
    if most is None:
        return [offset]
    found, files = [offset], 0
    for number in range(offset.begin, offset.next):
        version = table.version(number)
        added = 0 if version is None else len(version.added)
        last = found[-1]
        if number > last.begin and files + added > most:
            found[-1:] = [
                replace(last, next=number),
                replace(last, begin=number, next=offset.next, snapshot=None),
            ]
            files = 0
        files += added
    return found


def _from_the_beginning(table: SourceTable) -> Offset:
    after = table.newest + 1
    if table.version(0) is not None:
        return Offset(table.id, 0, after)
    return Offset(table.id, after, after, snapshot=table.newest)


def _lost_with_the_table(
    position: Position, before: Offset, table: SourceTable, planned: Offset
) -> Iterator[Lost]:
    batch = position.batch + 1
    if before.id != table.id:
        what = (
            f"the table of id {before.id} was replaced by another one, of id {table.id}; what came "
            f"to the former from version {before.next} on was not read"
        )
        yield Lost(Part(before.next, is_open=True), before.id, REPLACED, what, batch)
        if position.is_pending:
            versions = Part(before.begin, last=before.next - 1)
            what = f"versions {before.begin} to {before.next - 1}, planned and not read, of it too"
            yield Lost(versions, before.id, REPLACED, what, position.batch, was_planned=True)
    elif table.newest + 1 < planned.begin:
        back = Part(table.newest + 1, last=planned.begin - 1)
        what = (
            f"an older copy was brought back: the table ends with version {table.newest}, and was "
            f"read up to {planned.begin - 1}; what bronze took of those versions stays there"
        )
        yield Lost(back, table.id, SET_BACK, what, batch)


def _lost_of(table: SourceTable, offset: Offset, skips: bool) -> Iterator[Lost]:
    gone: list[int] = []
    for number in range(offset.begin, min(offset.next, table.newest + 1)):
        version = table.version(number)
        if version is None:
            gone.append(number)
        elif version.changes_rows and not skips:
            yield Lost(Part(number), table.id, CHANGED, changed_text(version))
        elif not version.changes_rows:
            yield from _gone_files(table, version)
    if gone:
        what = (
            f"versions {gone[0]} to {gone[-1]} are not in the log any more; what they did is not "
            "known"
        )
        yield Lost(Part(gone[0], last=gone[-1]), table.id, EXPIRED, what)


def changed_text(version: Version) -> str:
    """What a version did that is no append."""
    files = "1 file" if version.removed == 1 else f"{version.removed} files"
    return (
        f"version {version.number} ({version.operation}) changed rows that were there: it removed "
        f"{files} and added {len(version.added)}; of its rows none is read"
    )


def _gone_files(table: SourceTable, version: Version) -> Iterator[Lost]:
    places = {table.uri_of(file): file for file in version.added}
    for uri, facts in stat_files(list(places), table.options).items():
        if facts is None:
            file = places[uri]
            rows = "some" if file.rows is None else f"{file.rows:,}"
            what = (
                f"the file {file.path} of version {version.number}, with {rows} rows, is gone "
                "(VACUUM?), and was not read"
            )
            yield Lost(Part(version.number, file.path), table.id, GONE, what)
