"""Files as a pipeline's source.

The engine's file source takes each file that it lists and does not have in its log (class
FileStreamSource). Where it did not read one that the store lists, the JVM cannot tell a name, or
the folder has the log of a job that writes files there, which is read instead of listing it (class
FileStreamSink, `hasMetadata`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidemark.checkpoint.log import Checkpoint, SourceFile
from tidemark.errors import (
    AcceptanceRefused,
    InputLost,
    PipelineInvalid,
    SampleUnusable,
    SourceNotFound,
    SourcePassedOver,
)
from tidemark.pipeline.difference import FROM_NOW, ChangeVerdict, Difference
from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.pipeline.model import CsvFormatOptions, FilesSource, FoldTable, Pipeline
from tidemark.pipeline.places import INGEST, Places
from tidemark.pipeline.reasons import LEFT_OUT
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import SourceFiles, has_pattern, is_uri, split_files
from tidemark.sources.files import batch_files
from tidemark.sources.files.first_lines import copy_first_lines
from tidemark.sources.files.moved_root import former_roots, know_files_here, known_here
from tidemark.sources.files.pattern import file_pattern
from tidemark.sources.files.unread import (
    facts_of_files,
    source_files,
    unread_files,
)
from tidemark.sources.formats.formats import slices_of
from tidemark.sources.notes import accepted_loss, left_out, source_notes, write_source_notes
from tidemark.sources.source import (
    PLACE,
    FirstRows,
    Lag,
    LossAcceptance,
    LostInput,
    OriginColumn,
    Reading,
    Slice,
    SourceHandle,
)
from tidemark.storage.files import FileFacts, Options, list_folder, stat_files

_SHOWN = 5
_SINK_LOG = "_spark_metadata"


def passed_over(source: SourceFiles, options: Options, places: Sequence[str]) -> SourcePassedOver:
    """The error for these files, which are listed and were not read."""
    encoded = [quote(os.fsencode(place)) for place in places]
    more = "" if len(encoded) <= _SHOWN else f" and {len(encoded) - _SHOWN:,} more"
    return SourcePassedOver(
        f"{len(encoded):,} files of the source are listed by the store and were passed over by the "
        f"engine: {', '.join(encoded[:_SHOWN])}{more} (percent-encoded). What it read is in "
        f"bronze; nothing was published. {_why(source, options, places)} Then run again."
    )


def _why(source: SourceFiles, options: Options, places: Sequence[str]) -> str:
    is_a_tree = source.recursive and not has_pattern(source.folder)
    if is_a_tree and _SINK_LOG in list_folder(source.folder, options):
        return (
            f"A Spark job writes to {source.folder} and keeps a log there, {_SINK_LOG}: of such a "
            "folder the engine reads the files that this log has, and no other. Move the others "
            "to a folder of their own: that job has not committed them."
        )
    if not all(place.isascii() for place in places):
        return (
            "The JVM reads no file whose name it cannot tell: one that is no UTF-8 has to be "
            "renamed; where the names are UTF-8, run with a locale that is too, such as "
            "LC_ALL=C.UTF-8."
        )
    return "Why is not known. Land them again under other names, and report it."


@dataclass(frozen=True)
class FilesSourceHandle(SourceHandle):
    """A part is a file."""

    origin = (OriginColumn("_file", "string", "The source file"), PLACE)

    @property
    def files(self) -> SourceFiles:
        """The pattern, its folder below the root unless it is a URI."""
        parts = split_files(pattern_of(self.pipeline))
        return replace(parts, folder=self.places.source(parts.folder))

    def check(self, ingest: Checkpoint) -> None:
        """An object store has no folders: nothing there is no error. Nor is an empty folder."""
        self._check_folder()
        self._check_root(ingest)
        check_reaches_no_own_place(self.files, self.places)

    def lost(self, ingest: Checkpoint) -> tuple[LostInput, ...]:
        """That the root is another one: nothing is gone, but each file would be read again."""
        roots, number, _ = self._former_roots(ingest)
        if not roots:
            return ()
        old = ", ".join(one or "/" for one in roots)
        detail = (
            f"{ingest.uri} has read {number:,} files below {old}, and the root is "
            f"{self.places.root} now: it was moved, copied or mounted elsewhere. The engine knows "
            "files by their place, so all that lie here too would be read again, and bronze would "
            "hold their rows twice"
        )
        return (LostInput(f"{old} → {self.places.root}", "moved root", detail, is_kept=True),)

    def accept_lost(
        self, ingest: Checkpoint, lost: Sequence[LostInput], accepted: LossAcceptance
    ) -> None:
        """Each file of the log is known by its path below the root from then on.

        Raises AcceptanceRefused where it cannot be told which path that is, where a batch was left
        in the middle (what bronze noted of it names files by their former place), and where a fold
        keeps state: the engine finds its schema by its former place
        (class OperatorStateMetadataV2)."""
        roots, _, parted = self._former_roots(ingest)
        if not roots:
            return
        if not parted:
            raise AcceptanceRefused(
                f"The name of {split_files(pattern_of(self.pipeline)).folder} is more than once in "
                f"the places that {ingest.uri} has read, so nobody can tell which root they lie "
                f"below: {', '.join(one or '/' for one in roots)}. Nothing was written. Put the "
                "root back to where it was, or a link to it, and name that in the settings."
            )
        case = ingest.restart_case()
        if case not in ("new", "clean end"):
            raise AcceptanceRefused(
                f"The last run ended within a batch ({case}), and what it committed of that names "
                f"files below {', '.join(roots)}. Nothing was written. Put the root back to where "
                "it was, or a link to it, run the pipeline there once, and move it then; of a "
                "copy, run the original and copy it again."
            )
        tables = self.pipeline.tables.items()
        if folds := [n for n, one in tables if isinstance(one, FoldTable) and not one.recomputes]:
            raise AcceptanceRefused(
                f"The state of {', '.join(folds)} names files of its own below {', '.join(roots)}, "
                "as that of each fold does. Nothing was written. Put the root back to where it "
                "was, or a link to it, and name that in the settings."
            )
        source, root = split_files(pattern_of(self.pipeline)), self.places.root
        notes = source_notes(ingest)
        if not notes.lost or notes.lost[-1].part != lost[0].part:
            entry = accepted_loss(lost[0], accepted)
            kept = (
                one.model_copy(update={"part": known_here(source, one.part, roots, root)})
                if one.reason == LEFT_OUT
                else one
                for one in notes.lost
            )
            write_source_notes(ingest, notes.model_copy(update={"lost": (*kept, entry)}))
        know_files_here(source, roots, root, ingest)

    def unread(self, ingest: Checkpoint) -> str | None:
        self._check_folder()
        unread = unread_files(self.files, ingest)
        if unread:
            self._check_root(ingest)
        return f"{len(unread):,} files may be new, among them {unread[0]}" if unread else None

    def lag(self, ingest: Checkpoint) -> Lag:
        """Of the files that a run would read; `since` is the oldest time that one of them has."""
        files = unread_files(self.files, ingest)
        if files and (moved := self.lost(ingest)):
            return Lag(None, None, len(moved))
        found = facts_of_files(self.files, files, self.settings.storage_options).values()
        since = min((one.modified for one in found), default=None)
        return Lag(None, since, files=len(files), bytes=sum(one.size for one in found))

    def unread_bytes(self, ingest: Checkpoint) -> int:
        return self.lag(ingest).bytes

    def reading(self, ingest: Checkpoint, batch: int, committed: Reading | None) -> Reading:
        files = self._slice(ingest, batch)
        if committed is None:
            return batch_files.first_reading(*files, left_out(ingest))
        return batch_files.repeated_reading(*files, committed)

    def slices(self, ingest: Checkpoint, batch: int, reading: Reading) -> Sequence[Slice]:
        # Arrow takes a tenth of a second to load, which a Dag file has not.
        from tidemark.sources.files.slices import changed_while_read

        files, facts = self._slice(ingest, batch)
        listed = {file.uri: reading.seen.get(file.uri, file.modified_ms) for file in files}
        # One that is gone has a slice too, which says so when it is read.
        found = {uri: facts[uri] or FileFacts(1, instant_of(listed[uri])) for uri in reading.read}
        if changed := [u for u, one in found.items() if epoch_ms(one.modified) != listed[u]]:
            raise changed_while_read(changed)
        return slices_of(files_source(self.pipeline), found, self.settings.storage_options)

    def left_out(
        self,
        ingest: Checkpoint,
        batch: int,
        reading: Reading,
        unreadable: Mapping[str, str],
        repeated: bool,
    ) -> Reading:
        bad = [batch_files.unreadable(uri, cause) for uri, cause in unreadable.items()]
        gone = [batch_files.no_longer_readable(one) for one in bad] if repeated else bad
        return batch_files.leave_out(reading, gone)

    def origin_of(self, part: str) -> Mapping[str, Any]:
        return {"_file": part}

    def first_rows(self, most: int, copies: Path) -> FirstRows:
        """Those of the first files by name, copied: a file is read whole."""
        if missing := self._missing_folder():
            raise SampleUnusable(
                f"The folder {missing} does not exist, and so no row to try. Nothing was run. "
                "Make it, or correct source.files in the pipeline or root in the settings."
            )
        local = is_local(self.files.folder)
        found = source_files(self.files, self.settings.storage_options)
        places = sorted(one if local else quote(one, safe=":/") for one in found)
        return copy_first_lines(
            files_source(self.pipeline),
            places,
            self.settings.storage_options,
            most,
            self.settings.max_line_bytes,
            copies,
        )

    @classmethod
    def changes(cls, old: Pipeline, new: Pipeline) -> Iterator[Difference]:
        yield from file_changes(pattern_of(old), pattern_of(new))
        before, after = [_format_text(files_source(one).format) for one in (old, new)]
        if before != after:
            yield Difference(INGEST, "source.format", before, after, ChangeVerdict.SAFE, FROM_NOW)
        for name in ("max_files_per_batch", "max_bytes_per_batch"):
            limit, other = (getattr(one.advanced, name) for one in (old, new))
            if limit != other:
                what, verdict = f"advanced.{name}", ChangeVerdict.SAFE
                yield Difference(INGEST, what, str(limit), str(other), verdict, FROM_NOW)

    def _slice(
        self, ingest: Checkpoint, batch: int
    ) -> tuple[tuple[SourceFile, ...], Mapping[str, FileFacts | None]]:
        """The batch's files as the engine listed them, and as they are now."""
        files = ingest.source_files(batch)
        return files, stat_files([file.uri for file in files], self.settings.storage_options)

    def _former_roots(self, ingest: Checkpoint) -> tuple[tuple[str, ...], int, bool]:
        pattern = pattern_of(self.pipeline)
        if is_uri(pattern):
            return (), 0, True
        return former_roots(split_files(pattern), self.places.root, ingest)

    def _check_root(self, ingest: Checkpoint) -> None:
        for moved in self.lost(ingest):
            raise InputLost(
                f"{moved.detail}. Nothing was read. Is it the same warehouse in a new place, or a "
                f"copy that is to go on by itself? Then `tidemark accept {self.pipeline.name} "
                '--reason "…"`: files are known by their path below the root from then on. If not, '
                "set root in the settings back to the former place."
            )

    def _check_folder(self) -> None:
        if missing := self._missing_folder():
            raise SourceNotFound(
                f"The source's folder {missing} does not exist. Nothing was read. Make the "
                "folder, or correct source.files in the pipeline or root in the settings."
            )

    def _missing_folder(self) -> str | None:
        folder = self.files.folder
        if not is_local(folder) or has_pattern(folder) or Path(local_path(folder)).is_dir():
            return None
        return local_path(folder)


def files_source(pipeline: Pipeline) -> FilesSource:
    """The source of a pipeline that reads files."""
    assert isinstance(pipeline.source, FilesSource)
    return pipeline.source


def pattern_of(pipeline: Pipeline) -> str:
    """What the pipeline's file says of its files."""
    return files_source(pipeline).files


def _format_text(said: str | CsvFormatOptions | None) -> str:
    if isinstance(said, CsvFormatOptions):
        return json.dumps({"csv": said.csv.model_dump(exclude_defaults=True)}, ensure_ascii=False)
    return said or "by name"


def file_changes(old: str, new: str) -> Iterator[Difference]:
    """Where `source.files` is another; both are patterns as the files have them."""
    if old == new:
        return
    if _reaches(split_files(old), split_files(new)):
        verdict = ChangeVerdict.SAFE
        reason = (
            "Files that were read are known by their whole path. Those that the new pattern does "
            "not name any more and that were not read yet never will be"
        )
    else:
        verdict = ChangeVerdict.NOT_ALLOWED
        reason = (
            "Bronze is the record of one source: files of the old folder that were not read yet "
            "would be left out, and files that were moved would be read a second time"
        )
    yield Difference(INGEST, "source.files", old, new, verdict, reason)


def _reaches(old: SourceFiles, new: SourceFiles) -> bool:
    """Is the old folder the new one, or below it where folders below are read too?"""
    return new.folder == old.folder or (
        new.recursive and f"{old.folder}/".startswith(f"{new.folder}/")
    )


def check_reaches_no_own_place(source: SourceFiles, places: Places) -> None:
    """PipelineInvalid where files of the pipeline's folder, or of `ops`, could be read as rows.

    Told when a run begins, for it depends on the root. `source.folder` is a place. Links are
    followed, as the engine does: a landing folder may be one, and may hold some. So the folder that
    a pattern names is looked at as the file system resolves it. A link further down that leads into
    the pipeline's own folder is not looked for. ValueError for a pattern that cannot be read.
    """
    pattern = file_pattern(source)
    for own in (places.folder, places.shared_ops):
        begins, written = _resolved(pattern.folder), _resolved(own)
        if _below(begins, written) is not None or (
            (parts := _below(written, begins)) is not None and pattern.enters(parts)
        ):
            raise PipelineInvalid(
                f"source.files of {places.pipeline} reaches {own}, which the platform writes: its "
                "own tables and results would be read as rows. Nothing was read. Land files in a "
                "folder of their own, and name that one."
            )


def _below(place: str, folder: str) -> list[str] | None:
    """The names that lead from a folder to a place; None where it does not lie there."""
    if place == folder:
        return []
    return place.removeprefix(f"{folder}/").split("/") if place.startswith(f"{folder}/") else None


def _resolved(place: str) -> str:
    if is_local(place):
        return os.path.realpath(local_path(place)).rstrip("/")
    return re.sub("^s3a:", "s3:", place).rstrip("/")
