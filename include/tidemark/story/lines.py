"""The line of a file that a row stands in: by the place that was noted of it, in the file as it is.

Rows of JSON lines have the byte at which their line begins, those of other formats the number of
their record. A line is counted only in a file that has not changed since it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from tidemark.errors import StorageUnavailable
from tidemark.pipeline.model import FilesSource
from tidemark.sources.files.codecs import FAULTS, unpacked, why_not_read
from tidemark.sources.formats.formats import JSON_LINES, format_of
from tidemark.sources.source import PLACE
from tidemark.storage.files import FileMissing, Options, open_file
from tidemark.story.story import BronzeRow, RejectedRow, RowPlace

# So much of a file, unpacked, is read for its lines.
MOST_BYTES = 64 * 1024 * 1024
# So many files.
_MOST_FILES = 20
FILE = "_file"

Told = TypeVar("Told", BronzeRow, RejectedRow)


class Lines:
    """Finds lines in the files of a source, each read once: `ask` for all rows, then `told`."""

    def __init__(self, source: FilesSource, options: Options) -> None:
        self._source, self._options = source, options
        self._asked: dict[str, dict[int, datetime | None]] = {}
        self._found: dict[tuple[str, int], RowPlace] = {}

    def ask(self, rows: Iterable[Told]) -> None:
        """Note where the lines of these rows are to be looked for."""
        for row in rows:
            file, place = row.place.origin.get(FILE), row.place.origin.get(PLACE.name)
            if file is not None and place is not None:
                self._asked.setdefault(file, {})[place] = row.read_at

    def told(self, rows: Iterable[Told]) -> tuple[Told, ...]:
        """The rows with their lines, as far as they can be told."""
        if not self._found:
            self._look()
        return tuple(replace(row, place=self._place(row.place)) for row in rows)

    def _place(self, place: RowPlace) -> RowPlace:
        file, at = place.origin.get(FILE), place.origin.get(PLACE.name)
        if file is None:
            return place
        if at is None:
            return replace(place, unknown="its place in the file was not noted when it was read")
        found = self._found[file, at]
        return replace(place, line=found.line, record=found.record, unknown=found.unknown)

    def _look(self) -> None:
        for number, (file, places) in enumerate(self._asked.items()):
            if format_of(self._source.format, file) != JSON_LINES:
                for at in places:
                    self._found[file, at] = RowPlace({}, record=at + 1)
                continue
            unknown = "of so many files none is read for it" if number >= _MOST_FILES else None
            counted: Mapping[int, int] = {}
            if unknown is None:
                counted, unknown = self._counted(file, places)
            for at in places:
                line = counted.get(at)
                self._found[file, at] = RowPlace({}, line=line, unknown=None if line else unknown)

    def _counted(
        self, file: str, places: Mapping[int, datetime | None]
    ) -> tuple[dict[int, int], str | None]:
        """The lines that begin at these bytes, and why others are not known."""
        if reason := why_not_read(file):
            return {}, reason
        found: dict[int, int] = {}
        try:
            opened = open_file(file, 0, self._options)
            read_at = [time for time in places.values() if time is not None]
            # A later time than its batch's is that of another content.
            if len(read_at) < len(places) or opened.facts.modified > min(read_at):
                return {}, "the file has changed since it was read, or may have"
            left, line, position = sorted(places), 1, 0
            for chunk in unpacked(file, opened.chunks):
                while left and left[0] < position + len(chunk):
                    at = left.pop(0)
                    line_at = line + chunk.count(b"\n", 0, at - position)
                    found[at] = line_at
                line += chunk.count(b"\n")
                position += len(chunk)
                if not left or position > MOST_BYTES:
                    break
            return found, "it lies too far into the file to count its lines" if left else None
        except (FileMissing, FileNotFoundError):
            return found, "the file is not there any more"
        except (StorageUnavailable, *FAULTS) as error:
            return found, f"the file cannot be read ({str(error) or type(error).__name__})"
