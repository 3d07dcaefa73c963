"""Which tables of other pipelines read a pipeline's bronze: a small file for each, beside it.

A run writes it before its query first reads the other bronze, without the other pipeline's lease:
no file holds two readers, and to write it again changes nothing. While there is one, no date of
bronze is dropped that it may need, and maintenance keeps what it has yet to read.

What it needs: a window of its may have to be computed again until it is frozen (`keep` of its own
pipeline). So each publish of its notes from which event time on it still needs rows (`needed`),
which never goes back: the rows before may be gone. What it computes later keeps to that.

A new generation that joins with it no more takes the file back. A table that is no longer in its
pipeline's file still stands here: who removes it removes its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from tidemark.commit_point import commit_point
from tidemark.errors import NoteUnreadable
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.result_file import Facts
from tidemark.storage.warehouse import Warehouse

_ENDING = ".json"


class OtherReader(Facts):
    """A table of another pipeline that reads this bronze. It needs no row of an event time before
    `from_ms` (milliseconds since 1970, UTC) any more; None: it may need any."""

    pipeline: str
    table: str
    from_ms: int | None = None

    @property
    def name(self) -> str:
        return f"{self.table} of {self.pipeline}"


def other_readers(warehouse: Warehouse) -> tuple[OtherReader, ...]:
    """Those of a pipeline's bronze; NoteUnreadable where a file tells none."""
    return tuple(_read(warehouse.file_at(warehouse.places.other_readers)))


def _read(folder: FilePlace) -> Iterator[OtherReader]:
    for name in sorted(folder.names()):
        if not name.endswith(_ENDING):
            continue
        try:
            yield OtherReader.model_validate_json(folder.read(name))
        except ValidationError as error:
            raise NoteUnreadable(
                f"{folder.below(name)} does not tell which table reads this bronze. Nothing was "
                "written. Which one it is stands in the file's name; remove the file, and the next "
                "run of that pipeline writes it again."
            ) from error


def note_reader(other: Warehouse, reader: OtherReader) -> None:
    """Note in another pipeline's folder that a table reads its bronze, and from when on: later than
    what is noted, never earlier."""
    folder = other.file_at(other.places.other_readers)
    noted = noted_reader(other, reader.pipeline, reader.table)
    if noted is None or (reader.from_ms or 0) > (noted.from_ms or 0):
        _write(folder, _file(reader), reader)


def noted_reader(other: Warehouse, pipeline: str, table: str) -> OtherReader | None:
    """What is noted of a table; None where nothing is."""
    read = (one for one in other_readers(other) if (one.pipeline, one.table) == (pipeline, table))
    return next(read, None)


@commit_point(
    "reader of another bronze forgotten",
    after_a_kill="before: the note is left over, and keeps what nobody reads until it is removed; "
    "after: it is gone",
)
def forget_reader(other: Warehouse, reader: OtherReader) -> None:
    """Take that back; no error where it is gone."""
    folder = other.file_at(other.places.other_readers)
    folder.remove_files([folder.below(_file(reader))])


def if_no_more(other: Warehouse, readers: Iterable[OtherReader]) -> str:
    """What to do where a table is no more, and its note is left over: it came back with a backup,
    say, or the table left its file. Nobody can tell that from a table that will run again."""
    folder = other.file_at(other.places.other_readers)
    notes = ((one.name, folder.below(_file(one))) for one in readers)
    return " ".join(f"If {name} is no more, remove {place}." for name, place in notes)


def _file(reader: OtherReader) -> str:
    return f"{reader.pipeline}.{reader.table}{_ENDING}"


@commit_point(
    "reader of another bronze noted",
    after_a_kill="before and after: the next run notes it where it is not there yet, and the next "
    "publish from when on; until then more is kept",
)
def _write(folder: FilePlace, name: str, reader: OtherReader) -> None:
    write_bytes(folder.below(name), reader.model_dump_json().encode(), folder.options)
