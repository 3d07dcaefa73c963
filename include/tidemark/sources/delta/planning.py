"""From what was planned and what the table is now: what the next batch reads, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from tidemark.errors import SourceNotFound, TableLost
from tidemark.pipeline.model import Advanced
from tidemark.sources.delta.log import AddedFile, Version
from tidemark.sources.delta.offsets import DeltaPart, Offset
from tidemark.sources.delta.table import SourceTable
from tidemark.sources.notes import AcceptedLoss
from tidemark.sources.position import Position
from tidemark.storage.files import stat_files

CHANGED, EXPIRED, GONE, REPLACED, SET_BACK = (
    "changed rows", "expired", "gone", "replaced", "set back",
)  # fmt: skip


@dataclass(frozen=True)
class DeltaGap:
    """A part of a table that is gone or is no append. `batch`: the one that has the verdict; None:
    the one that reads its version. `what` says it for people."""

    part: DeltaPart
    id: str
    reason: str
    what: str
    batch: int | None = None
    was_planned: bool = False


def first_offset(table: SourceTable, starting: str | int) -> Offset:
    """Of the first batch. `earliest` reads the log from its beginning, or, where that is gone, what
    the table holds now. Raises SourceNotFound where `starting` is beyond the next version."""
    after = table.newest + 1
    if starting == "latest":
        return Offset(table.id, after, after)
    if isinstance(starting, int):
        if starting > after:
            raise SourceNotFound(
                f"source.delta.starting begins with version {starting}, and {table.uri} ends with "
                f"version {table.newest}. Nothing was read. Correct it."
            )
        # What lies before its first version is another table's.
        return Offset(table.id, max(starting, table.first or 0), after)
    return _from_the_beginning(table)


def next_offset(
    position: Position[Offset], table: SourceTable, accepted: Sequence[AcceptedLoss]
) -> Offset:
    """From where the last batch ended to the newest version; of another table all. Only where
    nothing is lost it is what a batch may read."""
    before = position.offset
    assert before is not None
    if before.id != table.id:
        return _from_the_beginning(table)
    begin = before.next
    for one in accepted:
        if (one.reason, one.id, one.batch) == (SET_BACK, table.id, position.batch + 1):
            begin = min(begin, DeltaPart.of(one.part).version)
    return Offset(table.id, begin, max(begin, table.newest + 1))


def lost_parts(
    position: Position[Offset], table: SourceTable, accepted: Sequence[AcceptedLoss], skips: bool
) -> tuple[DeltaGap, ...]:
    """What is lost and was not accepted, of the batch that runs again and of the next ones.
    `skips`: versions that change rows are passed over by the pipeline's own word."""
    before = position.offset
    if before is None:
        planned = [first_offset(table, "latest")]
        found: list[DeltaGap] = []
    else:
        planned = [next_offset(position, table, accepted)]
        found = list(_lost_with_the_table(position, before, table, planned[0]))
        if position.is_pending and before.id == table.id:
            planned.append(before)
    for offset in planned:
        found += _lost_of(table, offset, accepted, skips)
    return tuple(one for one in found if not _is_accepted(one, accepted))


def check_history(table: SourceTable, offset: Offset, accepted: Sequence[AcceptedLoss]) -> None:
    """Raise TableLost where the last version of a batch is not the one that was planned: a copy
    was brought back and written to since, under the same id and with as many versions. What the
    log does not have any more nobody can tell."""
    last = offset.next - 1
    if offset.mark is None or offset.id != table.id or last > table.newest:
        return
    version = table.version(last)
    back = [one for one in accepted if (one.id, one.reason) == (table.id, SET_BACK)]
    if version is None or any(DeltaPart.of(one.part).holds(DeltaPart(last)) for one in back):
        return
    if version.digest != offset.mark:
        raise TableLost(
            f"Version {last} of the table {table.uri} is not the one that was read: an older copy "
            "was brought back and written to since. Which rows of bronze it still has is not "
            "known. Nothing was read. Bring back the table as it was; or let a pipeline of a new "
            "name read this one from its beginning."
        )


def accepted_versions(accepted: Sequence[AcceptedLoss], table: str) -> list[AcceptedLoss]:
    """Of a table (its id), what was accepted of versions that it has or had. What was accepted
    before versions were set back is of others than those that have their numbers now."""
    found: list[AcceptedLoss] = []
    for one in accepted:
        if (one.id, one.reason) == (table, SET_BACK):
            first = DeltaPart.of(one.part).version
            found = [other for other in found if DeltaPart.of(other.part).version < first]
        elif (one.id, one.batch) == (table, None):
            found.append(one)
    return found


def _is_accepted(lost: DeltaGap, accepted: Sequence[AcceptedLoss]) -> bool:
    of_it = (
        accepted_versions(accepted, lost.id)
        if lost.batch is None
        else [one for one in accepted if (one.id, one.batch) == (lost.id, lost.batch)]
    )
    return any(DeltaPart.of(one.part).holds(lost.part) for one in of_it)


def lost_of_start(
    table: SourceTable, offset: Offset, accepted: Sequence[AcceptedLoss], skips: bool
) -> tuple[DeltaGap, ...]:
    """What the first batch cannot read, before anything was read."""
    found = _lost_of(table, offset, accepted, skips)
    return tuple(one for one in found if not _is_accepted(one, accepted))


def moves(position: Position[Offset], planned: Offset) -> bool:
    """Does the plan read something, or take note of another table?"""
    before = position.offset
    if position.batch < 0 or before is None:
        return True
    return (before.id, before.next) != (planned.id, planned.next) or planned.begin < planned.next


def steps(offset: Offset, table: SourceTable, limits: Advanced) -> list[Offset]:
    """A plan in batches of at most so many files and bytes, but for a version (or snapshot) that
    has more: that is read at once."""
    most_files, most_bytes = limits.max_files_per_batch, limits.max_bytes_per_batch
    if most_files is None and most_bytes is None:
        return [offset]
    found, files, size = [offset], 0, 0
    for number, version in table.versions(range(offset.begin, offset.next)):
        added = () if version is None else version.added
        files, size = files + len(added), size + sum(one.bytes for one in added)
        last = found[-1]
        too_many = most_files is not None and files > most_files
        too_large = most_bytes is not None and size > most_bytes
        if number > last.begin and (too_many or too_large):
            found[-1:] = [
                replace(last, next=number),
                replace(last, begin=number, next=offset.next, snapshot=None),
            ]
            files, size = len(added), sum(one.bytes for one in added)
    return found


def _from_the_beginning(table: SourceTable) -> Offset:
    after = table.newest + 1
    if table.first is not None:
        return Offset(table.id, table.first, after)
    return Offset(table.id, after, after, snapshot=table.newest)


def _lost_with_the_table(
    position: Position[Offset], before: Offset, table: SourceTable, planned: Offset
) -> Iterator[DeltaGap]:
    batch = position.batch + 1
    if before.id != table.id:
        what = (
            f"the table of id {before.id} was replaced by another one, of id {table.id}; what came "
            f"to the former from version {before.next} on was not read"
        )
        yield DeltaGap(DeltaPart(before.next, is_open=True), before.id, REPLACED, what, batch)
        if position.is_pending:
            versions = DeltaPart(before.begin, last=before.next - 1)
            what = f"versions {before.begin} to {before.next - 1}, planned and not read, of it too"
            yield DeltaGap(versions, before.id, REPLACED, what, position.batch, was_planned=True)
        return
    first = max(before.begin, table.newest + 1)
    if position.is_pending and first < before.next:
        versions = DeltaPart(first, last=before.next - 1)
        what = (
            f"an older copy was brought back: the table ends with version {table.newest}, and "
            f"versions {first} to {before.next - 1} were planned and not read"
        )
        yield DeltaGap(versions, table.id, SET_BACK, what, position.batch, was_planned=True)
    if table.newest + 1 < planned.begin:
        back = DeltaPart(table.newest + 1, last=planned.begin - 1)
        what = (
            f"an older copy was brought back: the table ends with version {table.newest}, and its "
            f"next batch began with {planned.begin}; what bronze took of those versions stays there"
        )
        yield DeltaGap(back, table.id, SET_BACK, what, batch)


def _lost_of(
    table: SourceTable, offset: Offset, accepted: Sequence[AcceptedLoss], skips: bool
) -> Iterator[DeltaGap]:
    held = () if offset.snapshot is None else table.snapshot(offset.snapshot)
    versions = list(table.versions(range(offset.begin, min(offset.next, table.newest + 1))))
    appends = [one for _, one in versions if one is not None and not one.changes_rows]
    missing = _missing(table, [*held, *(file for one in appends for file in one.added)])
    if offset.snapshot is not None:
        yield from _gone_files(table, offset.snapshot, held, missing)
    known = [DeltaPart.of(one.part) for one in accepted_versions(accepted, table.id)]
    gone: list[int] = []
    for number, version in versions:
        if version is None:
            # More may have expired since somebody accepted it: that alone is told then.
            if not any(part.holds(DeltaPart(number)) for part in known):
                gone.append(number)
        elif not version.changes_rows:
            yield from _gone_files(table, number, version.added, missing)
        elif not skips:
            yield DeltaGap(DeltaPart(number), table.id, CHANGED, changed_text(version))
    if gone:
        what = (
            f"versions {gone[0]} to {gone[-1]} are not in the log any more; what they did is not "
            "known"
        )
        yield DeltaGap(DeltaPart(gone[0], last=gone[-1]), table.id, EXPIRED, what)


def changed_text(version: Version) -> str:
    """What a version did that is no append."""
    files = "1 file" if version.removed == 1 else f"{version.removed} files"
    return (
        f"version {version.number} ({version.operation}) changed rows that were there: it removed "
        f"{files} and added {len(version.added)}; of its rows none is read"
    )


def _missing(table: SourceTable, files: Sequence[AddedFile]) -> set[str]:
    """Where there is none of the files any more."""
    places = map(table.uri_of, files)
    return {uri for uri, facts in stat_files(places, table.options).items() if facts is None}


def _gone_files(
    table: SourceTable, number: int, files: Sequence[AddedFile], missing: Set[str]
) -> Iterator[DeltaGap]:
    for file in files:
        if table.uri_of(file) in missing:
            rows = "some" if file.rows is None else f"{file.rows:,}"
            what = (
                f"the file {file.path} of version {number}, with {rows} rows, is gone "
                "(VACUUM?), and was not read"
            )
            yield DeltaGap(DeltaPart(number, file.path), table.id, GONE, what)
