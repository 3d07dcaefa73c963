"""Whether what an act was planned on is still so when it is carried out, by this try or a later
one."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.errors import ErasureUnproven, ReplayUnproven, RetractionUnproven
from tidemark.storage.delta.appended import changes_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import WrittenFile, files_gone

Unproven = type[ErasureUnproven] | type[ReplayUnproven] | type[RetractionUnproven]
STOPPED = (
    "The pipeline stays stopped. Does something write to it that takes no lease? Report this "
    "with what `DESCRIBE HISTORY` says of that table."
)


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
