"""A rewind, a retraction, an erasure, a replay of rejects, the following of changes of the source,
a rename or a repartition of state that was begun and not finished: nothing else of the pipeline
runs meanwhile.

Its tables do not fit each other until it is done: a run would read rows twice, or leave some out.
So a file names the act that works, and whoever takes the pipeline's lease looks for it. All kinds
have the one file: a Tidemark that knows only rewinds stops at it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidemark.commit_point import commit_point
from tidemark.errors import (
    ErasureUnfinished,
    NoteUnreadable,
    RenameUnfinished,
    RepartitionUnfinished,
    ReplayUnfinished,
    RetractionUnfinished,
    RewindUnfinished,
)
from tidemark.storage.file_place import FilePlace, asked_once
from tidemark.storage.files import FileMissing, read_bytes, write_bytes
from tidemark.storage.warehouse import Warehouse

_MARK = "unfinished"


class ActKind(StrEnum):
    """What changes a pipeline's tables together."""

    REWIND = "rewind"
    RETRACTION = "retraction"
    REPLAY = "replay"
    FOLLOWING = "following"
    ERASURE = "erasure"
    RENAME = "rename"
    REPARTITION = "repartition"


_UNFINISHED = {
    ActKind.REWIND: RewindUnfinished,
    ActKind.RETRACTION: RetractionUnfinished,
    ActKind.REPLAY: ReplayUnfinished,
    ActKind.FOLLOWING: RetractionUnfinished,
    ActKind.ERASURE: ErasureUnfinished,
    ActKind.RENAME: RenameUnfinished,
    ActKind.REPARTITION: RepartitionUnfinished,
}


@dataclass(frozen=True)
class PipelineAct:
    """One of them, by its id."""

    kind: ActKind
    id: str

    def folder(self, warehouse: Warehouse) -> FilePlace:
        """The folder of its plan, and of a rewind's backup."""
        if self.kind is ActKind.REWIND:
            return rewind_folder(warehouse, self.id)
        places = warehouse.places
        if self.kind in (ActKind.RENAME, ActKind.REPARTITION):
            return warehouse.file_at(places.folder)
        others = {ActKind.REPLAY: places.replays, ActKind.ERASURE: places.erasures}
        return warehouse.file_at(f"{others.get(self.kind, places.retractions)}/{self.id}")

    def ways_out(self, pipeline: str) -> str:
        """The commands that bring the pipeline on."""
        if self.kind is ActKind.REWIND:
            return (
                f"Finish it: `tidemark rewind {pipeline} --apply`. Or go back to what was before: "
                f"`tidemark rewind {pipeline} --undo {self.id} --apply`."
            )
        if self.kind is ActKind.REPLAY:
            return f"Finish it: `tidemark rejects replay {pipeline} --apply`."
        if self.kind is ActKind.ERASURE:
            return f"Finish it: `tidemark erase {pipeline} --apply`."
        if self.kind is ActKind.RENAME:
            # Its id: both names, and when.
            former, name, _ = self.id.split(":", 2)
            return f"Finish it: `tidemark rename {former} {name} --apply`."
        if self.kind is ActKind.REPARTITION:
            # Its id: how many partitions, which tables, and the run.
            partitions = self.id.partition(":")[0]
            asked = f"--partitions {partitions} --reason WHY --apply"
            return f"Finish it: `tidemark state repartition {pipeline} {asked}`."
        if self.kind is ActKind.FOLLOWING:
            return f"The next run finishes it: `tidemark run {pipeline}`."
        return (
            f"Finish it: `tidemark retract {pipeline} --apply`. Then it can be taken back: "
            f"`tidemark retract {pipeline} --undo {self.id}`."
        )


def rewind_folder(warehouse: Warehouse, rewind: str) -> FilePlace:
    """The folder of a rewind's backup and plan, by its id."""
    return warehouse.file_at(f"{warehouse.places.rewinds}/{rewind}")


def unfinished_act(warehouse: Warehouse) -> PipelineAct | None:
    """The act that was begun and not finished; None where there is none. NoteUnreadable where the
    file does not say which one it is."""
    place = unfinished_mark(warehouse)
    noted = asked_once("mark", place, lambda: _noted(place, warehouse))
    if noted is None:
        return None
    kind, _, name = noted.decode(errors="replace").rstrip("\r\n").rpartition(" ")
    kind = kind or ActKind.REWIND
    # An empty one, or one of zeros, is of a machine that went down.
    if kind not in [*ActKind] or not name.isprintable() or name.strip("\ufffd") == "":
        raise NoteUnreadable(
            f"{place} does not say which act of {warehouse.places.pipeline} was begun and not "
            f"finished ({noted[:60]!r}). Nothing was written, and no run starts. A newer Tidemark "
            "may have written it: that one finishes the act. Else write there what it said, the "
            "kind and the id of the act (`erasure ID`; of a rewind the id alone): the plan of one "
            "that was begun is `change.json` in the newest folder below `rewinds`, `retractions`, "
            "`replays` or `erasures`."
        )
    return PipelineAct(ActKind(kind), name)


def _noted(place: str, warehouse: Warehouse) -> bytes | None:
    try:
        return read_bytes(place, warehouse.options)
    except FileMissing:
        return None


def check_no_unfinished_act(
    warehouse: Warehouse, unless: ActKind | None = None
) -> PipelineAct | None:
    """The act of the excepted kind, if there is one; RewindUnfinished, RetractionUnfinished,
    ReplayUnfinished or ErasureUnfinished where there is one of another kind."""
    act = unfinished_act(warehouse)
    if act is None or act.kind is unless:
        return act
    name, folder = warehouse.places.pipeline, act.folder(warehouse).uri
    raise _UNFINISHED[act.kind](
        f"A {act.kind} of {name} was begun and not finished ({folder}): its tables do not fit each "
        f"other. Nothing was written. {act.ways_out(name)}"
    )


@commit_point(
    "pipeline stopped for an act",
    after_a_kill="before: only a plan or a backup was made; after: no run starts, and a repetition "
    "finishes what the plan says",
)
def stop_for(warehouse: Warehouse, act: PipelineAct) -> None:
    """From here on nothing else of the pipeline runs; another rewind's mark is replaced."""
    warehouse.fence()
    # Without its kind as rewinds always were.
    noted = act.id if act.kind is ActKind.REWIND else f"{act.kind} {act.id}"
    write_bytes(unfinished_mark(warehouse), noted.encode(), warehouse.options)


@commit_point(
    "pipeline released after an act",
    after_a_kill="before: no run starts, and a repetition looks at all again; after: runs go on",
)
def release_after(warehouse: Warehouse) -> None:
    """Runs go on."""
    folder = warehouse.file_at(warehouse.places.rewinds)
    folder.remove_files([unfinished_mark(warehouse)])


def unfinished_mark(warehouse: Warehouse) -> str:
    """The file that names it."""
    return f"{warehouse.places.rewinds}/{_MARK}"
