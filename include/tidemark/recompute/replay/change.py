"""What a replay of rejects changes: frozen, and kept in its folder as JSON, with who did it.

The rows are in files below the tables by then, which no commit has added yet. So a repetition after
a kill judges nothing anew: neither the pipeline's file nor the one that mends has a say in it.
"""

from __future__ import annotations

from tidemark.errors import ReplayRefused
from tidemark.recompute.plans import CHANGE, ActPlan, read_plan
from tidemark.runs.unfinished_act import ActKind, PipelineAct
from tidemark.storage.delta.notes import ReplayedNote
from tidemark.storage.delta.written_files import WrittenFile
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing


class Replay(ActPlan):
    """One act: so many `rows` of rejects, at version `rejects`, become rows of bronze, which was at
    version `bronze`. `staying` holds the other rows of the files `leaving` of rejects."""

    by: str
    reason: str
    what: str
    bronze: int
    rejects: int
    rows: int
    to_bronze: tuple[WrittenFile, ...] = ()
    to_replayed: tuple[WrittenFile, ...] = ()
    staying: tuple[WrittenFile, ...] = ()
    leaving: tuple[str, ...] = ()

    @property
    def note(self) -> ReplayedNote:
        """What its commits say."""
        return ReplayedNote(id=self.id, rows=self.rows)

    @property
    def act(self) -> PipelineAct:
        """By which its pipeline is stopped."""
        return PipelineAct(ActKind.REPLAY, self.id)


def read_replay(folder: FilePlace) -> Replay:
    """The plan of an act. ReplayRefused where there is none."""
    try:
        return read_plan(folder, Replay, "a replay", ReplayRefused)
    except FileMissing as error:
        raise ReplayRefused(
            f"There is no {folder.below(CHANGE)}, so nothing was replayed by such an act. Nothing "
            "was changed."
        ) from error
