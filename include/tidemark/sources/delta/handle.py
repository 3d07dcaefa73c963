"""A Delta table of somebody else as a pipeline's source, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import DataDamaged, InputLost, SourceRefused
from tidemark.pipeline.delta_columns import FILE, ROW, VERSION
from tidemark.pipeline.difference import FROM_NOW, ChangeVerdict, Difference
from tidemark.pipeline.granted import why_not_granted
from tidemark.pipeline.instants import known_instant
from tidemark.pipeline.model import DeltaSource, DeltaTableSource, FirstTableRows, Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.reasons import CHANGED_ROWS, REPLACED, UNREADABLE
from tidemark.pipeline.source_files import is_uri
from tidemark.sources.delta import planning
from tidemark.sources.delta.files import files_of, first_rows_of, slice_of
from tidemark.sources.delta.offsets import DeltaPart, Offset
from tidemark.sources.delta.planning import DeltaGap
from tidemark.sources.delta.table import SourceTable, check_is_whole, open_table
from tidemark.sources.notes import (
    AcceptedLoss,
    Followed,
    FollowedVersions,
    OfBatch,
    SourceNotes,
    source_notes,
)
from tidemark.sources.planned_source import (
    SINCE_BRONZE,
    Begin,
    FollowedChange,
    FollowedSourceHandle,
    Position,
)
from tidemark.sources.source import (
    FirstRows,
    Lag,
    LostInput,
    OriginColumn,
    PartVerdict,
    Reading,
    Slice,
)

if TYPE_CHECKING:
    from tidemark.sources.delta.following import NewRows
    from tidemark.sources.delta.log import AddedFile

_MOST_SHOWN = 5
# Types of a table whose values are one text in its files, in lines and in bronze.
_KEYS = re.compile(r"string|byte|short|integer|long|date|decimal\(\d+,0\)")
# Its name in the notes: there is one.
_TABLE = "table"


@dataclass(frozen=True)
class DeltaSourceHandle(FollowedSourceHandle[Offset]):
    """A part is a file that a version added, or one or several versions (`DeltaPart`)."""

    origin = (
        OriginColumn(VERSION, "long", "The version of the table that added the row's file"),
        OriginColumn(FILE, "string", "That file, below the table"),
        OriginColumn(ROW, "long", "The row's place in it, from 0"),
    )

    @property
    def delta(self) -> DeltaTableSource:
        """What the pipeline's file says of it."""
        assert isinstance(self.pipeline.source, DeltaSource)
        return self.pipeline.source.delta

    def table(self) -> SourceTable:
        """The table as it is now. Raises as `open_table`."""
        why_not = partial(why_not_granted, settings=self.settings)
        return open_table(
            self.places.source(self.delta.table), self.settings.storage_options, why_not
        )

    def check(self, ingest: Checkpoint) -> None:
        """Raises SourceRefused too, where the table has features that are not read, or has no
        column of a name that the pipeline's file declares."""
        _, table, _ = self._check_nothing_lost(ingest)
        declared = self.pipeline.source.columns.items()
        fields = [column.path(name)[0] for name, column in declared]
        if missing := [name for name in fields if name not in table.columns]:
            raise SourceRefused(
                f"The table {table.uri} has no column {', '.join(missing)}; it has "
                f"{', '.join(table.columns)}. Each row would have null there. Nothing was read. "
                "Write the name under source.columns, or its `field`, as the table does, or take "
                "it out."
            )
        types = table.types
        if self._follows and (
            wrong := [
                f"{name} ({types[name]})" for name in self._key if not _KEYS.fullmatch(types[name])
            ]
        ):
            raise SourceRefused(
                f"Of the key of `changes: follow` the table {table.uri} has {', '.join(wrong)}, "
                "whose text may be another in bronze. Nothing was read. Name a key of text, whole "
                "numbers or dates, or set source.delta.changes to stop."
            )
        by = table.now.metadata().partition_columns
        if self._follows and (parted := [name for name in self._key if name in by]):
            raise SourceRefused(
                f"The table {table.uri} is partitioned by {', '.join(parted)}, of the key of "
                "`changes: follow`: its files do not have it. Nothing was read. Name another key."
            )

    @staticmethod
    def offset_of(text: str, place: str) -> Offset:
        return Offset.of(text, place)

    @property
    def is_from_now_on(self) -> bool:
        return self.delta.starting == "latest"

    def end(self) -> Begin:
        table = self.table()
        return Begin({_TABLE: planning.first_offset(table, "latest").begin}, {_TABLE: table.id})

    def noted_offset(self, notes: SourceNotes) -> Offset:
        begin = notes.begins[_TABLE]
        return Offset(notes.ids[_TABLE], begin, begin)

    def losses(self, ingest: Checkpoint) -> Sequence[tuple[LostInput, OfBatch]]:
        found = self._lost(ingest, self.position(ingest), self.table())
        return [(_told(one), one) for one in found]

    def to_follow(self, ingest: Checkpoint) -> Callable[[str], FollowedChange] | None:
        """Of all that is not read yet, where rows were changed in it."""
        position, table, _ = self._check_nothing_lost(ingest)
        offset = self._to_follow(ingest, position, table)
        return None if offset is None else partial(self._change, offset, position.batch)

    def _to_follow(
        self, ingest: Checkpoint, position: Position[Offset], table: SourceTable
    ) -> Offset | None:
        if not self._follows or position.batch < 0 or position.is_pending:
            return None
        planned = planning.next_offset(position, table, source_notes(ingest).lost, follows=True)
        if planned.snapshot is not None or planned.skip or not planning.has_changes(table, planned):
            return None
        # A batch tells first of versions that were set back, and of a table that was replaced.
        before = position.offset
        if before is not None and (before.id != table.id or planned.begin < before.next):
            return None
        return replace(planned, mark=table.mark(planned.last))

    def _change(self, offset: Offset, after: int, act: str) -> FollowedChange:
        """Raises as `source_change`."""
        from tidemark.sources.delta.following import new_rows_text, source_change

        found = source_change(self.table(), offset, self._key)
        follows = FollowedVersions(
            id=offset.id,
            begin=offset.begin,
            next=offset.next,
            mark=offset.mark,
            act=act,
            after=after,
        )
        return FollowedChange(
            follows,
            f"versions {offset.begin} to {offset.last} of {self.delta.table}",
            "To go on without these set source.delta.changes to stop, and accept them; or let a "
            "pipeline of a new name read the table.",
            found.gone,
            found.came,
            new_rows=new_rows_text(found.new),
        )

    def has_followed(self, ingest: Checkpoint, followed: Followed) -> bool:
        position = self.position(ingest)
        if position.is_pending or position.offset is None:
            return False
        if not isinstance(followed, FollowedVersions):
            return False
        if position.offset.id != followed.id:
            # The batch of another table comes behind that of the act.
            return followed.after is not None and position.batch > followed.after
        return position.offset.next >= followed.next

    @property
    def _key(self) -> tuple[str, ...]:
        """What the table calls the columns of the key."""
        source = self.pipeline.source
        return tuple(source.columns[name].path(name)[0] for name in source.followed_key)

    def steps(self, ingest: Checkpoint) -> list[Offset]:
        position, table, offset = self._check_nothing_lost(ingest)
        if not planning.moves(position, offset):
            return []
        return [
            # What is followed has the mark of when it was compared.
            one if one.follows is not None else replace(one, mark=table.mark(one.last))
            for one in planning.steps(offset, table, self.pipeline.advanced)
        ]

    def unread(self, ingest: Checkpoint) -> str | None:
        position, table, offset = self._check_nothing_lost(ingest)
        if position.batch < 0:
            return "no version of the table was read yet"
        if self._to_follow(ingest, position, table) is not None:
            return "rows of the table were changed"
        if not planning.moves(position, offset):
            return None
        if offset.snapshot is not None:
            return f"what the table held at version {offset.snapshot} is new"
        return f"versions {offset.begin} to {offset.next - 1} of the table are new"

    def unread_bytes(self, ingest: Checkpoint) -> int:
        files = self._unread_files(ingest, self.position(ingest), self.table())
        return sum(file.bytes for _, file in files)

    def lag(self, ingest: Checkpoint) -> Lag | None:
        """Files that do not say how many rows they have count as one."""
        table, position = self.table(), self.position(ingest)
        files = self._unread_files(ingest, position, table)
        lost = len(self._lost(ingest, position, table))
        rows = sum(1 if file.rows is None else file.rows for _, file in files)
        times = [
            time
            for number in {part.version for part, _ in files}
            if (version := table.version(number)) is not None
            and (time := known_instant(version.time_ms)) is not None
        ]
        return Lag(rows, min(times, default=None) if rows else None, lost)

    def left(
        self, ingest: Checkpoint, batch: int, since: str
    ) -> tuple[tuple[str, ...], tuple[PartVerdict, ...]]:
        return self._readable(ingest, batch, self._same_table(ingest, batch), since)

    def reading(self, ingest: Checkpoint, batch: int, committed: Reading | None) -> Reading:
        """A file that could not be read then has its verdict."""
        reading = super().reading(ingest, batch, committed)
        known = {one.part for one in committed.verdicts} if committed else ()
        return replace(reading, read=tuple(one for one in reading.read if one not in known))

    def confirm(self, ingest: Checkpoint, batch: int) -> None:
        """By the table's id."""
        self._same_table(ingest, batch)

    def slices(self, ingest: Checkpoint, batch: int, reading: Reading) -> Sequence[Slice]:
        table, offset = self.table(), self.batch_offset(ingest, batch)
        read, only = set(reading.read), self._only or {}
        if offset.follows is not None:
            new = [one for one in self._new_rows(offset.follows) if str(one.part) in read]
            return [slice_of(table, one.part, one.file, rows=one.rows) for one in new]
        files = [(part, file) for part, file in files_of(table, offset) if str(part) in read]
        for part in map(DeltaPart.of, read):
            if part.version != offset.snapshot:
                check_is_whole(table, part.version)
        return [slice_of(table, part, file, only.get(str(part))) for part, file in files]

    def left_out(
        self,
        ingest: Checkpoint,
        batch: int,
        reading: Reading,
        unreadable: Mapping[str, str],
        repeated: bool,
    ) -> Reading:
        """A file that is gone has to be accepted; one that is no Parquet is a verdict, but not of
        what is followed: its former rows are out of bronze."""
        self._check_nothing_lost(ingest)
        if unreadable and self.batch_offset(ingest, batch).follows is not None:
            part, why = next(iter(unreadable.items()))
            raise DataDamaged(
                f"{part} of the table {self.places.source(self.delta.table)}, whose new rows are "
                f"to be read: {why}. The rows that they replace are out of bronze, and gold is as "
                "it was. Put the file back, from a backup of the table; the next run goes on. Only "
                f"one that is gone can be accepted (`tidemark accept {self.pipeline.name}`)."
            )
        since = f". {SINCE_BRONZE}" if repeated else ""
        bad = [PartVerdict(one, UNREADABLE, f"{why}{since}") for one, why in unreadable.items()]
        left = tuple(part for part in reading.read if part not in unreadable)
        return replace(reading, read=left, verdicts=(*reading.verdicts, *bad))

    def origin_of(self, part: str) -> Mapping[str, Any]:
        one = DeltaPart.of(part)
        return {VERSION: one.version, FILE: one.file or None, ROW: None}

    def first_rows(self, most: int, copies: Path) -> FirstRows:
        """From where the pipeline begins; one that begins with what is yet to come, from what is
        there."""
        table = self.table()
        starting = "earliest" if self.delta.starting == "latest" else self.delta.starting
        taken = first_rows_of(table, planning.first_offset(table, starting, self._follows), most)
        delta = {
            **self.delta.model_dump(mode="json", exclude_unset=True),
            "table": table.uri if is_uri(table.uri) else f"file://{table.uri}",
            "starting": starting,
        }
        source = {"first_table_rows": taken, "below": str(copies.parent), "delta": delta}
        return FirstRows(source, sum(taken.values()), len(taken), "row", "file")

    @classmethod
    def changes(cls, old: Pipeline, new: Pipeline) -> Iterator[Difference]:
        before, after = old.source, new.source
        assert isinstance(before, DeltaSource)
        assert isinstance(after, DeltaSource)
        if before.delta.table != after.delta.table:
            reason = (
                "Bronze is the record of one table: what was not read yet of the old one would be "
                "left out. A table that was moved keeps its place in the pipeline by a link"
            )
            verdict = ChangeVerdict.NOT_ALLOWED
            yield Difference(INGEST, "source.delta", before.label, after.label, verdict, reason)
        was, now = before.delta, after.delta
        if was.starting != now.starting:
            reason = "Only the first run asks where to begin"
            yield _change("source.delta.starting", was.starting, now.starting, reason)
        for name in ("changes", "key"):
            one, other = getattr(was, name), getattr(now, name)
            if one != other:
                yield _change(f"source.delta.{name}", one, other, FROM_NOW)
        for name in ("max_files_per_batch", "max_bytes_per_batch"):
            limit, another = (getattr(one.advanced, name) for one in (old, new))
            if limit != another:
                yield _change(f"advanced.{name}", limit, another, FROM_NOW)

    def _check_nothing_lost(
        self, ingest: Checkpoint
    ) -> tuple[Position[Offset], SourceTable, Offset]:
        position, table = self.position(ingest), self.table()
        if lost := self._lost(ingest, position, table):
            raise self._input_lost(lost)
        if position.offset is not None:
            accepted = source_notes(ingest).lost
            planning.check_history(table, position.batch, position.offset, accepted)
        planned = self._planned(ingest, position, table)
        self._check_names(position, table, planned)
        return position, table, planned

    @staticmethod
    def _check_names(position: Position[Offset], table: SourceTable, planned: Offset) -> None:
        """Raises as `check_names`, for the batch that runs again too. An act compares what the
        table held without mapped columns."""
        before = position.offset
        if planned.follows is None:
            planning.check_names(table, planned, is_first=before is None)
        if position.is_pending and before and before.id == table.id and before.follows is None:
            planning.check_names(table, before, is_first=position.batch == 0)

    def _lost(
        self, ingest: Checkpoint, position: Position[Offset], table: SourceTable
    ) -> tuple[DeltaGap, ...]:
        skips, notes = self.delta.changes == "skip", source_notes(ingest)
        if position.offset is None:
            start = self._planned(ingest, position, table)
            return planning.lost_of_start(table, start, notes.lost, skips)
        if (followed := planning.followed_offset(position, notes.followed)) is not None:
            planning.check_history(table, position.batch + 1, followed, notes.lost)
            return self._lost_of_act(table, followed, position.batch + 1, False, notes.lost)
        lost = planning.lost_parts(position, table, notes.lost, skips, self._follows)
        earlier = self._offsets_before(ingest, position.batch)
        planning.check_set_back(position, table, notes.lost, earlier)
        # A table that was replaced, or set back, is told as such.
        if position.is_pending and not lost:
            lost = self._lost_of_act(table, position.offset, position.batch, True, notes.lost)
        return lost

    def _lost_of_act(
        self,
        table: SourceTable,
        offset: Offset,
        batch: int,
        was_planned: bool,
        accepted: Sequence[AcceptedLoss],
    ) -> tuple[DeltaGap, ...]:
        if offset.follows is None:
            return ()
        files = {one.part: one.file for one in self._new_rows(offset.follows)}
        return planning.lost_of_act(table, offset, files, batch, was_planned, accepted)

    def _offsets_before(self, ingest: Checkpoint, batch: int) -> Iterator[tuple[int, Offset]]:
        """The batches before one that the checkpoint still has, and their offsets."""
        for one in ingest.batches("offsets"):
            if one < batch:
                yield one, self.batch_offset(ingest, one)

    def _planned(
        self, ingest: Checkpoint, position: Position[Offset], table: SourceTable
    ) -> Offset:
        if position.offset is None:
            first = planning.first_offset(table, self.delta.starting, self._follows)
            return self._as_tried(first)
        notes = source_notes(ingest)
        if (followed := planning.followed_offset(position, notes.followed)) is not None:
            return followed
        following = planning.next_offset(position, table, notes.lost, self._follows)
        if self._follows:
            following = planning.unless_changed(table, following)
        return self._as_tried(following)

    @property
    def _follows(self) -> bool:
        return self.delta.changes == "follow"

    def _new_rows(self, act: str) -> tuple[NewRows, ...]:
        from tidemark.sources.delta.following import NEW_ROWS, read_new_rows

        place = f"{self.places.retractions}/{act}/{NEW_ROWS}"
        return read_new_rows(place, self.settings.storage_options)

    @property
    def _only(self) -> Mapping[str, int] | None:
        """Where only the first rows are read, how many of which part."""
        source = self.pipeline.source
        return source.first_table_rows if isinstance(source, FirstTableRows) else None

    def _is_read(self, part: DeltaPart) -> bool:
        return self._only is None or str(part) in self._only

    def _as_tried(self, offset: Offset) -> Offset:
        """Where only the first rows are read, it ends behind these."""
        if self._only is None:
            return offset
        last = max(DeltaPart.of(one).version for one in self._only)
        return replace(offset, next=max(offset.begin, min(offset.next, last + 1)))

    def _input_lost(self, lost: Sequence[DeltaGap]) -> InputLost:
        shown = "; ".join(one.what for one in lost[:_MOST_SHOWN])
        more = f"; and {len(lost) - _MOST_SHOWN} more" if len(lost) > _MOST_SHOWN else ""
        skip = ""
        if any(one.reason == CHANGED_ROWS for one in lost):
            skip = " To pass over all such versions, set source.delta.changes to skip."
        return InputLost(
            f"Of the table {self.places.source(self.delta.table)} {shown}{more}. Nothing of it was "
            "read, and nothing was written in its place: the run stopped. To go on without it, one "
            f"reject for each: `tidemark accept {self.pipeline.name} --reason WHY`; of a table "
            f"that was replaced all is read then.{skip}"
        )

    def _same_table(self, ingest: Checkpoint, batch: int) -> SourceTable:
        table, offset = self.table(), self.batch_offset(ingest, batch)
        if table.id != offset.id:
            position = self.position(ingest)
            accepted = source_notes(ingest).lost
            if not any(one.batch == batch and one.was_planned for one in accepted):
                raise self._input_lost(planning.lost_parts(position, table, accepted, skips=False))
        planning.check_history(table, batch, offset, source_notes(ingest).lost)
        return table

    def _readable(
        self, ingest: Checkpoint, batch: int, table: SourceTable, since: str
    ) -> tuple[tuple[str, ...], tuple[PartVerdict, ...]]:
        """Which files of a batch are read, and the verdicts on the rest."""
        offset, lost = self.batch_offset(ingest, batch), source_notes(ingest).lost
        of_batch = [one for one in lost if one.batch == batch]
        if offset.follows is not None:
            out = [DeltaPart.of(one.part) for one in of_batch]
            new = [one.part for one in self._new_rows(offset.follows)]
            left = tuple(str(one) for one in new if not any(part.holds(one) for part in out))
            return left, tuple(one.verdict(since) for one in of_batch)
        of_versions = planning.accepted_versions(lost, offset.id)
        accepted = [
            *(one for one in of_versions if self._reads(table, offset, DeltaPart.of(one.part))),
            *of_batch,
        ]
        verdicts = [one.verdict(since) for one in accepted]
        if table.id != offset.id:
            return (), tuple(verdicts)
        # Versions that are gone together have one verdict, in the batch of the first of them.
        planned = [one for one in of_batch if one.was_planned]
        gone = [DeltaPart.of(one.part) for one in (*of_versions, *planned)]
        for number, _ in table.versions(offset.versions):
            if any(part.holds(DeltaPart(number)) for part in gone):
                continue
            version = check_is_whole(table, number)
            if version.changes_rows:
                if self.delta.changes != "skip":
                    raise self._input_lost(
                        [
                            DeltaGap(
                                DeltaPart(number),
                                table.id,
                                CHANGED_ROWS,
                                planning.changed_text(version),
                            )
                        ]
                    )
                what = f"{planning.changed_text(version)} (changes: skip)"
                verdicts.append(PartVerdict(str(DeltaPart(number)), CHANGED_ROWS, what))
        parts = [part for part, _ in files_of(table, offset) if self._is_read(part)]
        read = tuple(str(one) for one in parts if not any(part.holds(one) for part in gone))
        return read, tuple(verdicts)

    @staticmethod
    def _reads(table: SourceTable, offset: Offset, part: DeltaPart) -> bool:
        """Is it the batch that tells of a part? Of a version that several read, that is the one
        that would have read the file; of the version as a whole each that knows of it."""
        if not offset.has(part.version):
            return False
        if not part.file or table.id != offset.id or (not offset.skip and offset.stop is None):
            return True
        return any(part == one for one, _ in files_of(table, offset))

    def _unread_files(
        self, ingest: Checkpoint, position: Position[Offset], table: SourceTable
    ) -> list[tuple[DeltaPart, AddedFile]]:
        planned = self._planned(ingest, position, table)
        found = [] if planned.follows else [*files_of(table, planned)]
        if (changed := self._to_follow(ingest, position, table)) is not None:
            # As many rows as were written, those that were there before too.
            for number, version in table.versions(changed.versions):
                files = () if version is None else version.files
                found += [(DeltaPart(number, file.path), file) for file in files]
        before = position.offset
        if position.is_pending and before and before.id == table.id and before.follows is None:
            found += files_of(table, before)
        return found


def _change(what: str, before: object, after: object, reason: str) -> Difference:
    return Difference(INGEST, what, str(before), str(after), ChangeVerdict.SAFE, reason)


def _told(lost: DeltaGap) -> LostInput:
    what = lost.what[0].upper() + lost.what[1:]
    is_another = lost.reason == REPLACED
    return LostInput(str(lost.part), lost.reason, what, is_another)
