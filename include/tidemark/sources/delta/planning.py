"""From what was planned and what the table is now: what the next batch reads, and what is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.errors import SourceNotFound, SourceRefused, TableLost
from tidemark.pipeline.model import Advanced
from tidemark.pipeline.reasons import CHANGED_ROWS, EXPIRED, GONE, REPLACED, SET_BACK
from tidemark.sources.delta.files import files_of
from tidemark.sources.delta.log import AddedFile, Version
from tidemark.sources.delta.offsets import DeltaPart, Offset
from tidemark.sources.delta.table import SourceTable
from tidemark.sources.notes import AcceptedLoss, Followed, FollowedVersions
from tidemark.sources.planned_source import Position
from tidemark.storage.files import stat_files


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


def first_offset(table: SourceTable, starting: str | int, follows: bool = False) -> Offset:
    """Of the first batch. `earliest` reads the log from its beginning, or, where that is gone, what
    the table holds now; so where it `follows` and rows were changed. Raises SourceNotFound where
    `starting` is beyond the next version."""
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
    begin = _from_the_beginning(table)
    if follows and has_changes(table, begin):
        return Offset(table.id, after, after, snapshot=table.newest)
    return begin


def has_changes(table: SourceTable, offset: Offset) -> bool:
    """Does a version of an offset delete or change rows?"""
    found = table.versions(offset.versions)
    return any(version is not None and version.changes_rows for _, version in found)


def unless_changed(table: SourceTable, offset: Offset) -> Offset:
    """An offset of a source that is followed: where rows were changed an act reads all of it, and a
    batch only what one before it left of a snapshot or version."""
    if not has_changes(table, offset):
        return offset
    is_begun = offset.snapshot is None and offset.skip > 0
    return replace(offset, next=offset.begin + (1 if is_begun else 0))


def followed_offset(position: Position[Offset], act: Followed | None) -> Offset | None:
    """What an act follows, where the last batch ended before it."""
    before = position.offset
    if not isinstance(act, FollowedVersions) or before is None or before.stop is not None:
        return None
    if (before.id, before.next) != (act.id, act.begin):
        return None
    # Versions that were set back have these numbers again, once a batch has read what it follows.
    if act.after is not None and position.batch != act.after:
        return None
    return Offset(act.id, act.begin, act.next, mark=act.mark, follows=act.act)


def next_offset(
    position: Position[Offset],
    table: SourceTable,
    accepted: Sequence[AcceptedLoss],
    follows: bool = False,
) -> Offset:
    """From where the last batch ended to the newest version; of another table all, as
    `first_offset`. Only where nothing is lost it is what a batch may read."""
    before = position.offset
    assert before is not None
    begin = before.next
    has_read = before.begin < begin or before.snapshot is not None or before.stop is not None
    # A former version took note of another table whose rows had changed, and read nothing of it.
    if before.id != table.id or (not has_read and begin == table.first):
        return first_offset(table, "earliest", follows)
    set_back = [
        DeltaPart.of(one.part).version
        for one in accepted
        if (one.reason, one.id, one.batch) == (SET_BACK, table.id, position.batch + 1)
    ]
    was_read = not any(one.was_planned and one.batch == position.batch for one in accepted)
    # The table may be there again as it was read.
    is_back = was_read and before.mark is not None and table.mark(before.last) == before.mark
    if set_back and not is_back:
        begin = min([begin, *set_back])
        return Offset(table.id, begin, max(begin, table.newest + 1))
    if before.stop is None:
        return Offset(table.id, begin, max(begin, table.newest + 1))
    following = max(begin, table.newest + 1)
    return Offset(table.id, begin, following, before.snapshot, skip=before.stop)


def lost_parts(
    position: Position[Offset],
    table: SourceTable,
    accepted: Sequence[AcceptedLoss],
    skips: bool,
    follows: bool = False,
) -> tuple[DeltaGap, ...]:
    """What is lost and was not accepted, of the batch that runs again and of the next ones.
    `skips`: versions that change rows are passed over by the pipeline's own word; `follows`: an act
    reads them."""
    before = position.offset
    if before is None:
        planned = [first_offset(table, "latest")]
        found: list[DeltaGap] = []
    else:
        _check_snapshot(table, before)
        planned = [next_offset(position, table, accepted, follows)]
        found = list(_lost_with_the_table(position, before, table, planned[0]))
        if follows:
            planned = [unless_changed(table, planned[0])]
        if position.is_pending and before.id == table.id and before.follows is None:
            planned.append(before)
    for offset in planned:
        found += _lost_of(table, offset, accepted, skips)
    return tuple(one for one in found if not _is_accepted(one, accepted))


def _check_snapshot(table: SourceTable, before: Offset) -> None:
    """Raise TableLost where the table does not have the version any more of which a part was
    read: what is left of it cannot be told."""
    was_cut = before.snapshot is not None and before.stop is not None
    if was_cut and before.id == table.id and before.last > table.newest:
        raise TableLost(
            f"An older copy of the table {table.uri} was brought back while it was read for "
            f"the first time: it ends with version {table.newest}, and version {before.last} was "
            "read in part. Which rows of bronze it still has is not known. Nothing was read. Bring "
            "back the table as it was; or let a pipeline of a new name read this one."
        )


def check_history(
    table: SourceTable, batch: int, offset: Offset, accepted: Sequence[AcceptedLoss]
) -> None:
    """Raise TableLost where the last version of a batch is not the one that was planned: a copy
    was brought back and written to since, under the same id and with as many versions. What the
    log does not have any more nobody can tell."""
    last = offset.last
    if offset.mark is None or offset.id != table.id or last > table.newest:
        return
    version = table.version(last)
    # What was accepted before the batch was planned is of other versions than it read.
    back = [
        one
        for one in accepted
        if (one.id, one.reason) == (table.id, SET_BACK)
        and one.batch is not None
        and (one.batch, one.was_planned) > (batch, False)
    ]
    if version is None or any(DeltaPart.of(one.part).holds(DeltaPart(last)) for one in back):
        return
    if version.digest != offset.mark:
        raise _another_history(table, last)


def check_set_back(
    position: Position[Offset],
    table: SourceTable,
    accepted: Sequence[AcceptedLoss],
    earlier: Iterable[tuple[int, Offset]],
) -> None:
    """Raise TableLost where the version before those that a set back lets be read anew is not known
    to be one that was read: an older copy may have been written to since. `earlier`: the batches
    before the last one and their offsets, as far as the checkpoint has them."""
    before = position.offset
    if position.batch < 0 or before is None or before.id != table.id:
        return
    planned = next_offset(position, table, accepted)
    seen = min(planned.begin, table.newest + 1) - 1
    goes_on_within = planned.skip > 0 and before.last <= table.newest
    if seen == before.last or goes_on_within:
        return
    lost = {one.batch for one in accepted if one.was_planned}
    marks, first, oldest = set(), _first_read(before), position.batch
    for batch, offset in earlier:
        oldest = min(oldest, batch)
        if offset.id != table.id:
            continue
        first = min(first, _first_read(offset))
        # One that ends within a version has not read all of it, nor has one that lost some.
        if offset.last == seen and offset.stop is None and batch not in lost:
            marks.add(offset.mark)
    if oldest == 0 and seen < first:
        return
    if not marks:
        raise TableLost(
            f"An older copy of the table {table.uri} was brought back. No batch that the "
            f"checkpoint still tells of ended with version {seen}, so whether that is the one that "
            "was read is not known, nor which rows of bronze the table still has. Nothing was "
            "read. Bring back the table as it was; take the pipeline back to a run that read no "
            "later version (`tidemark rewind`); or let a pipeline of a new name read this one from "
            "its beginning."
        )
    # Offsets of before marks were written have none.
    if table.mark(seen) not in marks and marks != {None}:
        raise _another_history(table, seen)


def _first_read(offset: Offset) -> int:
    """The oldest version whose rows a batch may have read."""
    return offset.begin if offset.snapshot is None else 0


def _another_history(table: SourceTable, version: int) -> TableLost:
    return TableLost(
        f"Version {version} of the table {table.uri} is not the one that was read: an older copy "
        "was brought back and written to since. Which rows of bronze it still has is not "
        "known. Nothing was read. Bring back the table as it was; or let a pipeline of a new "
        "name read this one from its beginning."
    )


def check_names(table: SourceTable, offset: Offset, is_first: bool) -> None:
    """Raise SourceRefused where a batch would read files from before the table's columns ceased to
    be mapped, whose names may be others than the table's. `is_first`: nothing was read before it.
    """
    # None: not known. What was read so far was read while they were not mapped.
    is_mapped, last = None if is_first else False, None
    for number, version in table.versions(offset.versions):
        if version is None:
            is_mapped = None
            continue
        if version.maps is not None:
            is_mapped = version.maps
        elif is_mapped is None:
            is_mapped = table.may_map_at(number)
        if is_mapped:
            last = number
    if last is not None and any(part.version <= last for part, _ in files_of(table, offset)):
        raise SourceRefused(
            f"The table {table.uri} has no mapped columns now, and had them up to version {last} "
            "(delta.columnMapping.mode), as far as its log tells: files of then may have other "
            "names, and rows null in their place. Nothing was read. Let a pipeline of a new name "
            f"begin behind it (source.delta.starting: {last + 1}), or read a copy of the table."
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
    if lost.batch is None:
        of_it = accepted_versions(accepted, lost.id)
    else:
        of_it = [one for one in accepted if (one.id, one.batch) == (lost.id, lost.batch)]
        # Versions that were accepted before a batch was planned are others than it reads; a file of
        # what an act follows is the same.
        if lost.reason != GONE:
            of_it = [one for one in of_it if one.was_planned == lost.was_planned]
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
    was, now = (before.id, before.next), (planned.id, planned.next)
    return was != now or planned.begin < planned.next or planned.snapshot is not None


def steps(offset: Offset, table: SourceTable, limits: Advanced) -> list[Offset]:
    """A plan in batches of at most so many files and bytes. A version, or snapshot, that has more
    is read in several, by its files; no file is cut, nor what is followed."""
    most = limits.max_files_per_batch or sys.maxsize, limits.max_bytes_per_batch or sys.maxsize
    if most == (sys.maxsize, sys.maxsize) or offset.follows is not None:
        return [offset]
    found: list[Offset] = []
    begun, held = None, (0, 0)
    for one, files in _read_by(offset, table):
        cuts = _cuts(files, most)
        if begun is not None and (len(cuts) > 1 or not _fits(_sum(held, _size(files)), most)):
            found.append(begun)
            begun, held = None, (0, 0)
        found += [
            replace(one, next=one.begin, skip=one.skip + cut.start, stop=one.skip + cut.stop)
            for cut in cuts[:-1]
        ]
        if begun is None:
            begun = replace(one, skip=one.skip + cuts[-1].start)
        begun = replace(begun, next=one.next)
        held = _sum(held, _size(files[cuts[-1].start :]))
    return [offset] if begun is None else [*found, begun]


def _read_by(offset: Offset, table: SourceTable) -> Iterator[tuple[Offset, Sequence[AddedFile]]]:
    """The snapshot of a plan and each of its versions as plans of their own, with their files."""
    if offset.snapshot is not None:
        files = offset.cut(offset.snapshot, table.snapshot(offset.snapshot))
        yield replace(offset, next=offset.begin), files
    for number, version in table.versions(range(offset.begin, offset.next)):
        skip = offset.skip if offset.snapshot is None and number == offset.begin else 0
        # Of one that changes rows none is read, and one batch tells of it.
        files = ()
        if version is not None and not version.changes_rows:
            files = offset.cut(number, version.files)
        yield Offset(offset.id, number, number + 1, skip=skip), files


def _cuts(files: Sequence[AddedFile], most: tuple[int, int]) -> list[range]:
    """Files that follow each other in as few pieces as fit; a file that does not is one."""
    cuts, held = [range(0)], (0, 0)
    for place, file in enumerate(files):
        size = _size([file])
        if len(cuts[-1]) and not _fits(_sum(held, size), most):
            cuts.append(range(place, place))
            held = (0, 0)
        cuts[-1], held = range(cuts[-1].start, place + 1), _sum(held, size)
    return cuts


def _size(files: Sequence[AddedFile]) -> tuple[int, int]:
    """How many there are, and their bytes together."""
    return len(files), sum(one.bytes for one in files)


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _fits(size: tuple[int, int], most: tuple[int, int]) -> bool:
    return size[0] <= most[0] and size[1] <= most[1]


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
        if before.snapshot is not None and before.stop is not None:
            what += f", nor all but the first {before.stop} files of version {before.snapshot}"
        yield DeltaGap(DeltaPart(before.next, is_open=True), before.id, REPLACED, what, batch)
        if position.is_pending:
            versions = DeltaPart(before.begin, last=before.last)
            what = f"versions {before.begin} to {before.last}, planned and not read, of it too"
            if before.snapshot is not None:
                what += f", with what it held at version {before.snapshot}"
            yield DeltaGap(versions, before.id, REPLACED, what, position.batch, was_planned=True)
        return
    first = max(before.begin, table.newest + 1)
    if position.is_pending and first <= before.last:
        versions = DeltaPart(first, last=before.last)
        what = (
            f"an older copy was brought back: the table ends with version {table.newest}, and "
            f"versions {first} to {before.last} were planned and not read"
        )
        yield DeltaGap(versions, table.id, SET_BACK, what, position.batch, was_planned=True)
    begins = max(planned.begin, before.last + 1)
    if table.newest + 1 < begins:
        back = DeltaPart(table.newest + 1, last=begins - 1)
        what = (
            f"an older copy was brought back: the table ends with version {table.newest}, and its "
            f"next batch began with {planned.begin}; what bronze took of those versions stays there"
        )
        yield DeltaGap(back, table.id, SET_BACK, what, batch)


def _lost_of(
    table: SourceTable, offset: Offset, accepted: Sequence[AcceptedLoss], skips: bool
) -> Iterator[DeltaGap]:
    numbers = range(offset.begin, min(offset.versions.stop, table.newest + 1))
    versions = list(table.versions(numbers))
    files = {part: file for part, file in files_of(table, offset) if part.version <= table.newest}
    missing = _missing(table, list(files.values()))
    gone_files: dict[int, list[DeltaGap]] = {}
    for part, file in files.items():
        if table.uri_of(file) in missing:
            gone_files.setdefault(part.version, []).append(_gone_file(table, part, file))
    if offset.snapshot is not None:
        yield from gone_files.get(offset.snapshot, ())
    known = [DeltaPart.of(one.part) for one in accepted_versions(accepted, table.id)]
    gone: list[int] = []
    for number, version in versions:
        if version is None:
            # More may have expired since somebody accepted it: that alone is told then.
            if not any(part.holds(DeltaPart(number)) for part in known):
                gone.append(number)
        elif not version.changes_rows:
            yield from gone_files.get(number, ())
        elif not skips:
            yield DeltaGap(DeltaPart(number), table.id, CHANGED_ROWS, changed_text(version))
    if gone:
        what = (
            f"versions {gone[0]} to {gone[-1]} are not in the log any more; what they did is not "
            "known"
        )
        yield DeltaGap(DeltaPart(gone[0], last=gone[-1]), table.id, EXPIRED, what)


def lost_of_act(
    table: SourceTable,
    offset: Offset,
    files: Mapping[DeltaPart, AddedFile],
    batch: int,
    was_planned: bool,
    accepted: Sequence[AcceptedLoss],
) -> tuple[DeltaGap, ...]:
    """Of the files with the new rows of what an act follows, those that are gone and were not
    accepted. The batch of the act has the verdict: no other one reads these versions."""
    missing = _missing(table, [*files.values()])
    gone = (
        replace(_gone_file(table, part, file), id=offset.id, batch=batch, was_planned=was_planned)
        for part, file in files.items()
        if table.uri_of(file) in missing
    )
    return tuple(one for one in gone if not _is_accepted(one, accepted))


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


def _gone_file(table: SourceTable, part: DeltaPart, file: AddedFile) -> DeltaGap:
    rows = "some" if file.rows is None else f"{file.rows:,}"
    what = (
        f"the file {file.path} of version {part.version}, with {rows} rows, is gone "
        "(VACUUM?), and was not read"
    )
    return DeltaGap(part, table.id, GONE, what)
