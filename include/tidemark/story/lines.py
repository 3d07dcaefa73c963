"""The line of a file that a row stands in: by the place that was noted of it, in the file as it is.

Rows of JSON lines have the byte at which their line begins, those of other formats the number of
their record. A line is counted only in a file that has not changed since it was read.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidemark.errors import StorageUnavailable
from tidemark.pipeline.model import FilesSource, Source
from tidemark.sources.files.codecs import FAULTS, unpacked, why_not_read
from tidemark.sources.formats.formats import JSON_LINES, format_of
from tidemark.sources.source import PLACE
from tidemark.storage.files import FileMissing, Options, open_file
from tidemark.story.story import RowPlace

# So much of a file, unpacked, is read for its lines.
MOST_BYTES = 64 * 1024 * 1024
# A later time than its batch's is that of another content, and so is one with no line there.
_CHANGED = "the file has changed since it was read, or may have"
# So many files.
_MOST_FILES = 20
FILE = "_file"


def row_places(
    source: Source,
    options: Options,
    origins: Sequence[Mapping[str, Any]],
    read_at: Sequence[datetime | None],
) -> list[RowPlace]:
    """Where rows come from, of files with their lines, as far as they can be told: by the columns
    that say it, and when the batches that read them were planned."""
    if not isinstance(source, FilesSource):
        return [RowPlace(origin) for origin in origins]
    asked: dict[str, dict[int, datetime | None]] = defaultdict(dict)
    for origin, time in zip(origins, read_at, strict=True):
        if origin.get(FILE) is not None and origin.get(PLACE.name) is not None:
            asked[origin[FILE]][origin[PLACE.name]] = time
    told: dict[tuple[str, int | None], dict[str, Any]] = {}
    for number, (file, places) in enumerate(asked.items()):
        if format_of(source.format, file) != JSON_LINES:
            told |= {(file, at): {"record": at + 1} for at in places}
            continue
        lines, unknown = dict[int, int](), "of so many files none is read for it"
        if number < _MOST_FILES:
            lines, unknown = _counted(file, places, options)
        told |= {(file, at): {"line": lines[at]} if at in lines else {"unknown": unknown}
                 for at in places}  # fmt: skip
    unnoted = {"unknown": "its place in the file was not noted when it was read"}
    return [
        RowPlace(origin, **told.get((origin[FILE], origin.get(PLACE.name)), unnoted))
        if origin.get(FILE) is not None
        else RowPlace(origin)
        for origin in origins
    ]


def _counted(
    file: str, places: Mapping[int, datetime | None], options: Options
) -> tuple[dict[int, int], str]:
    """The lines that begin at these bytes, and why others are not known."""
    if reason := why_not_read(file):
        return {}, reason
    text, unknown = bytearray(), "it lies too far into the file to count its lines"
    try:
        with open_file(file, 0, options) as opened:
            read_at = [time for time in places.values() if time is not None]
            if len(read_at) < len(places) or opened.facts().modified > min(read_at):
                return {}, _CHANGED
            for chunk in unpacked(file, opened.chunks):
                text += chunk
                if len(text) > min(max(places), MOST_BYTES):
                    break
    except (FileMissing, FileNotFoundError):
        unknown = "the file is not there any more"
    except (StorageUnavailable, *FAULTS) as error:
        unknown = f"the file cannot be read ({str(error) or type(error).__name__})"
    there = [at for at in places if at < len(text)]
    # A line begins behind another one, or the mark that a file may begin with.
    if not all(not at or text[at - 1] == ord("\n") or text[:at] == BOM_UTF8 for at in there):
        return {}, _CHANGED
    return {at: text.count(b"\n", 0, at) + 1 for at in there}, unknown
