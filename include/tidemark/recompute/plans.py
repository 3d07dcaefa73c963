"""The plan of an act: JSON in the act's folder, from which a repetition finishes it, and whether
what it was made on is still so then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from tidemark.errors import (
    ErasureUnproven,
    ReplayRefused,
    ReplayUnproven,
    RetractionRefused,
    RetractionUnproven,
    RewindRefused,
)
from tidemark.storage.delta.appended import changes_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import WrittenFile, files_gone
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.result_file import Facts

# Its file, and what a whole backup of a rewind has.
CHANGE = "change.json"
PlanT = TypeVar("PlanT", bound=Facts)
Unproven = type[ErasureUnproven] | type[ReplayUnproven] | type[RetractionUnproven]
Unusable = type[ErasureUnproven | ReplayRefused | RetractionRefused | RewindRefused]
STOPPED = (
    "The pipeline stays stopped. Does something write to it that takes no lease? Report this "
    "with what `DESCRIBE HISTORY` says of that table."
)


def write_plan(folder: FilePlace, plan: Facts) -> None:
    """Keep the plan in the folder of its act."""
    folder.fence()
    written = plan.model_dump_json(indent=1).encode()
    write_bytes(folder.below(CHANGE), written, folder.options)


def read_plan(folder: FilePlace, kind: type[PlanT], act: str, unusable: Unusable) -> PlanT:
    """The plan of an act ("a rewind"). FileMissing where there is none, `unusable` where it cannot
    be read."""
    try:
        return kind.model_validate_json(folder.read(CHANGE))
    except ValidationError as error:
        raise unusable(
            f"{folder.below(CHANGE)} cannot be read as what {act} writes ({error}). This try "
            "changed nothing. A newer Tidemark may have written it."
        ) from error


def check_no_other_rows(place: TablePlace, since: int, act: str, unproven: Unproven) -> None:
    """Raise `unproven` where the table's rows are not those of the version `since`, at which the
    `act` was planned ("the replay 20260101T000000Z"). Files that only moved are no others.
    StorageUnavailable where a commit's entry is gone."""
    for version in range(since + 1, place.existing().version() + 1):
        if changes_rows(place, version):
            raise unproven(
                f"{place.uri} got other rows in version {version}, since {act} was planned at "
                f"version {since}. This try did not write to it. {STOPPED}"
            )


def check_files_there(place: TablePlace, files: Sequence[WrittenFile], unproven: Unproven) -> None:
    """Raise `unproven` where a file is gone that the act wrote and is to commit."""
    if gone := files_gone(place, files):
        raise unproven(
            f"{gone[0]}, which is to be committed, is gone, by VACUUM. The pipeline stays stopped. "
            f"{place.uri} is as it was; put the file back from a backup, and repeat this."
        )
