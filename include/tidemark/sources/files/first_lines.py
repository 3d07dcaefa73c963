"""The first lines of files, copied, for a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tidemark.errors import SampleUnusable
from tidemark.sources.files.codecs import plain_name
from tidemark.sources.files.lines import read_lines
from tidemark.sources.source import FirstRows
from tidemark.storage.files import Options


def copy_first_lines(places: Iterable[str], options: Options, most: int, folder: Path) -> FirstRows:
    """Copy the first `most` lines of these files, each to a file of its own below `folder`."""
    taken, used, notes = 0, 0, []
    for number, place in enumerate(places):
        if taken == most:
            break
        target = folder / f"{number:06}" / plain_name(place)
        target.parent.mkdir(parents=True)
        try:
            copied = _copy(islice(read_lines(place, options), most - taken), target)
        except SampleUnusable as error:
            notes.append(str(error))
            continue
        taken, used = taken + copied, used + 1
    return FirstRows({"files": f"{folder.name}/**/*"}, taken, used, "line", "file", tuple(notes))


def _copy(lines: Iterator[bytes], target: Path) -> int:
    """Copy lines; where one cannot be read, none of the file is left."""
    count = 0
    try:
        with target.open("wb") as out:
            for line in lines:
                out.write(line + b"\n")
                count += 1
    except SampleUnusable:
        target.unlink()
        raise
    return count
