"""A rewind that was begun and not finished: nothing else of the pipeline runs meanwhile.

Its tables do not fit each other until it is done: a run would read rows twice, or leave some out.
So a file in the folder of the pipeline's rewinds names the one that works, and whoever takes the
pipeline's lease looks for it.
"""

from __future__ import annotations

from tidemark.commit_point import commit_point
from tidemark.errors import RewindUnfinished
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing, read_bytes, write_bytes
from tidemark.storage.warehouse import Warehouse

_MARK = "unfinished"


def rewind_folder(warehouse: Warehouse, rewind: str) -> FilePlace:
    """The folder of a rewind's backup and plan, by its id."""
    return warehouse.file_at(f"{warehouse.places.rewinds}/{rewind}")


def unfinished_rewind(warehouse: Warehouse) -> str | None:
    """The id of the rewind that was begun and not finished; None where there is none."""
    try:
        return read_bytes(unfinished_mark(warehouse), warehouse.options).decode()
    except FileMissing:
        return None


def check_no_unfinished_rewind(warehouse: Warehouse) -> None:
    """RewindUnfinished where there is one."""
    rewind = unfinished_rewind(warehouse)
    if rewind is not None:
        name, folder = warehouse.places.pipeline, rewind_folder(warehouse, rewind).uri
        raise RewindUnfinished(
            f"A rewind of {name} was begun and not finished ({folder}): its tables do not fit each "
            f"other. Nothing was written. Finish it: `tidemark rewind {name} --apply`. Or go back "
            f"to what was before: `tidemark rewind {name} --undo {rewind} --apply`."
        )


@commit_point(
    "pipeline stopped for a rewind",
    after_a_kill="before: only a backup was made; after: no run starts, and a repetition finishes "
    "what the plan says",
)
def stop_for(warehouse: Warehouse, rewind: str) -> None:
    """From here on nothing else of the pipeline runs; another rewind's mark is replaced."""
    warehouse.fence()
    write_bytes(unfinished_mark(warehouse), rewind.encode(), warehouse.options)


@commit_point(
    "pipeline released after a rewind",
    after_a_kill="before: no run starts, and a repetition looks at all again; after: runs go on",
)
def release_after(warehouse: Warehouse) -> None:
    """Runs go on."""
    folder = warehouse.file_at(warehouse.places.rewinds)
    folder.remove_files([unfinished_mark(warehouse)])


def unfinished_mark(warehouse: Warehouse) -> str:
    """The file that names it."""
    return f"{warehouse.places.rewinds}/{_MARK}"
