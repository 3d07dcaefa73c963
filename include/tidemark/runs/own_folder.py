"""Whether all that lies in a pipeline's folder is what Tidemark made, before it is cleared, or
gets another name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidemark.pipeline.names import TABLE_NAMES_IN_USE
from tidemark.storage.files import STAGED
from tidemark.storage.warehouse import Warehouse

# What is made in a pipeline's folder, and in that of one of its tables, whatever they are called.
_MADE = frozenset(
    {*TABLE_NAMES_IN_USE, "bronze.readers", "bronze.lookups", "ops", "status.json"}
    | {"planned_columns.json"}
)
_OF_A_TABLE = re.compile(r"[a-z][a-z0-9_]*/(gold|changes(-\d+)?|views/[^/]+)/")


def why_not_to_clear(warehouse: Warehouse, names: Iterable[str], act: str = "remove") -> str | None:
    """What is in the way of removing files of a pipeline's folder, of which these are all, by their
    names below it: a file that is another's, or a link, which leads to others. None: nothing."""
    place, names = warehouse.file_at(warehouse.places.folder), list(names)
    for name in names:
        top, is_folder, _ = name.partition("/")
        # Writers stage files, no folders.
        made = top if is_folder else STAGED.sub("", top)
        if made not in _MADE and not _OF_A_TABLE.match(name):
            return (
                f"{place.below(name)} is nothing that Tidemark made, and this {act}s what is in "
                "this folder. Move it elsewhere; a source's files have a folder of their own."
            )
    if (linked := place.linked(names)) is not None:
        return (
            f"{place.below(linked)} is reached by a link, and through it files of others would be "
            f"{act}d. Put the folder itself there, or take the link away."
        )
    return None
