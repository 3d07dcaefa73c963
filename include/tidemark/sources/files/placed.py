"""Files of JSON lines as a pipeline's source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import normpath
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidemark.checkpoint.log import Checkpoint, SourceFile
from tidemark.errors import SampleUnusable, SourceNotFound, TableLost
from tidemark.pipeline.difference import Difference
from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.pipeline.model import FilesSource, Pipeline
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import SourceFiles, has_pattern, is_uri, split_files
from tidemark.sources.files import batch_files
from tidemark.sources.files.changes import file_changes, limit_changes
from tidemark.sources.files.first_lines import copy_first_lines
from tidemark.sources.files.own_places import check_reaches_no_own_place
from tidemark.sources.files.passed_over import passed_over
from tidemark.sources.files.pattern import fixed_folder
from tidemark.sources.files.unread import files_to_take, same_place, source_files, unread_files
from tidemark.sources.source import FirstRows, OriginColumn, PlacedSource, Reading, Slice
from tidemark.storage.files import FileFacts, list_files, stat_files


@dataclass(frozen=True)
class PlacedFiles(PlacedSource):
    """A part is a file."""

    origin = (OriginColumn("_file", "string", "The source file"),)

    @property
    def files(self) -> SourceFiles:
        """The pattern, its folder below the root unless it is a URI."""
        parts = split_files(pattern_of(self.pipeline))
        return replace(parts, folder=self.places.source(parts.folder))

    def check(self, ingest: Checkpoint) -> None:
        """An object store has no folders: nothing there is no error. Nor is an empty folder."""
        self._check_folder()
        if place := self._read_elsewhere(ingest):
            raise TableLost(
                f"{ingest.uri} has read {place}, and the root is {self.places.root} now: it was "
                "moved or copied. Files are known by their place, so all of them would be read "
                "again, and bronze would hold each row twice. Nothing was read. Of a root that was "
                "moved: put a link to it where it was, and set root in the settings back to that. "
                "A copy can be read, but no run can go on in it."
            )
        check_reaches_no_own_place(self.files, self.places)

    def unread(self, ingest: Checkpoint) -> str | None:
        self._check_folder()
        unread = unread_files(self.files, ingest)
        return f"{len(unread):,} files may be new, among them {unread[0]}" if unread else None

    def listed(self) -> frozenset[str]:
        return frozenset(files_to_take(self.files, self.options))

    def check_none_passed_over(self, ingest: Checkpoint, listed: frozenset[str]) -> None:
        if listed and (found := sorted(listed.intersection(unread_files(self.files, ingest)))):
            raise passed_over(self.files, self.options, found)

    def unread_bytes(self, ingest: Checkpoint) -> int:
        """Those of files that came after the last batch was planned, whatever their names."""
        last = ingest.last_batch("offsets")
        since_ms = 0 if last is None else ingest.offsets(last).batch_time_ms
        found = list_files(fixed_folder(self.files.folder), self.options).values()
        return sum(file.size for file in found if epoch_ms(file.modified) > since_ms)

    def first_reading(self, ingest: Checkpoint, batch: int) -> Reading:
        return batch_files.first_reading(*self._slice(ingest, batch))

    def repeated_reading(self, ingest: Checkpoint, batch: int, committed: Reading) -> Reading:
        return batch_files.repeated_reading(*self._slice(ingest, batch), committed)

    def slices(self, ingest: Checkpoint, batch: int, reading: Reading) -> Sequence[Slice]:
        # Arrow takes a tenth of a second to load, which a Dag file has not.
        from tidemark.sources.files.slices import changed_while_read, file_slices

        files, facts = self._slice(ingest, batch)
        listed = {file.uri: reading.seen.get(file.uri, file.modified_ms) for file in files}
        # One that is gone has a slice too, which says so when it is read.
        found = {uri: facts[uri] or FileFacts(1, instant_of(listed[uri])) for uri in reading.read}
        if changed := [u for u, one in found.items() if epoch_ms(one.modified) != listed[u]]:
            raise changed_while_read(changed)
        return file_slices(found, self.options)

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
        found = source_files(self.files, self.options)
        places = sorted(one if local else quote(one, safe=":/") for one in found)
        return copy_first_lines(places, self.options, most, self.settings.max_line_bytes, copies)

    @classmethod
    def changes(cls, old: Pipeline, new: Pipeline) -> Iterator[Difference]:
        yield from file_changes(pattern_of(old), pattern_of(new))
        limits = [one.advanced.max_files_per_batch for one in (old, new)]
        yield from limit_changes(*limits)

    def _slice(
        self, ingest: Checkpoint, batch: int
    ) -> tuple[tuple[SourceFile, ...], Mapping[str, FileFacts | None]]:
        """The batch's files as the engine listed them, and as they are now."""
        files = ingest.source_files(batch)
        return files, stat_files([file.uri for file in files], self.options)

    def _read_elsewhere(self, ingest: Checkpoint) -> str | None:
        """A file of the last batch that lies below another root; None where none does."""
        pattern, last = pattern_of(self.pipeline), ingest.last_batch("offsets")
        if is_uri(pattern) or last is None:
            return None
        below_root = f"/{fixed_folder(split_files(pattern).folder)}".rstrip("/") + "/"
        root = same_place(self.places.root)
        here = (normpath(root) if is_local(root) else root).rstrip("/") + below_root
        places = [same_place(file.uri) for file in ingest.source_files(last)]
        elsewhere = [place for place in places if not place.startswith(here)]
        return next((place for place in elsewhere if below_root in place), None)

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


def pattern_of(pipeline: Pipeline) -> str:
    """What the pipeline's file says of its files."""
    assert isinstance(pipeline.source, FilesSource)
    return pipeline.source.files
