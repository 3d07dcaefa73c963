"""The first lines of files, copied, for a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import SampleUnusable
from tidemark.sources.files.codecs import plain_name
from tidemark.sources.files.lines import first_lines
from tidemark.sources.source import DETAIL, FirstRows
from tidemark.storage.files import Options

if TYPE_CHECKING:
    import pyarrow as pa


def copy_first_lines(
    places: Iterable[str], options: Options, most: int, most_bytes: int, folder: Path
) -> FirstRows:
    """Copy the first `most` lines of these files, each to a file of its own below `folder`; of
    lines of more than `most_bytes` there is a note instead."""
    taken, used, notes = 0, 0, []
    for number, place in enumerate(places):
        if taken == most:
            break
        target = folder / f"{number:06}" / plain_name(place)
        target.parent.mkdir(parents=True)
        try:
            pieces = first_lines(place, options, most - taken, most_bytes)
            copied, large = _copy(pieces, target)
        except SampleUnusable as error:
            notes.append(str(error))
            continue
        notes += [f"Left out of {place}, where a run rejects it: {one}." for one in large]
        taken, used = taken + copied, used + 1
    return FirstRows({"files": f"{folder.name}/**/*"}, taken, used, "line", "file", tuple(notes))


def _copy(pieces: Iterator[pa.Table], target: Path) -> tuple[int, list[str]]:
    """Copy lines: how many, and what is said of those that are rejected unread. Where one cannot be
    read, none of the file is left."""
    count, rejected = 0, []
    try:
        with target.open("wb") as out:
            for piece in pieces:
                lines = piece.to_pydict()
                for place, line in enumerate(lines["_value"]):
                    if DETAIL in lines and lines[DETAIL][place] is not None:
                        rejected.append(lines[DETAIL][place])
                        continue
                    out.write(line + b"\n")
                    count += 1
    except SampleUnusable:
        target.unlink()
        raise
    return count, rejected
