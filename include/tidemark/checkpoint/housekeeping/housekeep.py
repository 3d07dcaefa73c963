"""The housekeeping of one checkpoint: a plan carried out, file by file, in its order; and what is
different where no pipeline of ours has the checkpoint."""

from __future__ import annotations

import os.path
from datetime import datetime

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.housekeeping.plan import HousekeepingPlan
from tidemark.checkpoint.housekeeping.plan_housekeeping import Keep, plan_housekeeping
from tidemark.checkpoint.housekeeping.stock import take_stock
from tidemark.commit_point import commit_point
from tidemark.errors import HousekeepingRefused, RewindRefused
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import list_folder

_OURS = "/checkpoints/"


@commit_point(
    "checkpoint files removed",
    after_a_kill="before, after and in between: no start needs what is gone; a repeat removes "
    "what is left",
)
def carry_out_housekeeping(plan: HousekeepingPlan, checkpoint: FilePlace) -> None:
    """Remove what the plan of this checkpoint says may go, behind its fence; a file that is gone
    already is no error.

    Killed anywhere, the checkpoint is as good as before and after; a new plan then finds the rest.
    HousekeepingRefused where a link leads out of it: the files there are no checkpoint's.
    """
    if (folder := checkpoint.led_out(plan.going)) is not None:
        raise HousekeepingRefused(
            f"{checkpoint.below(folder)} is a link to a place out of {checkpoint.uri}: what is "
            "there is not removed. Nothing was removed."
        )
    checkpoint.remove_files([checkpoint.below(name) for name in plan.going])


def plan_checkpoint(place: FilePlace, batches: int, now: datetime) -> HousekeepingPlan:
    """What may go from the checkpoint at a place, with its newest `batches` batches kept.

    Whether a query works on it cannot be known. One that does is not disturbed: what goes is older
    than all that it reads. `now` is in UTC. Raises as `take_stock` does.
    """
    taken = take_stock(place, batches)
    return plan_housekeeping(taken, judge_checkpoint(taken.facts, now), Keep(batches), now)


def check_foreign(place: FilePlace) -> None:
    """HousekeepingRefused for a checkpoint of a pipeline: there, the lease has to be held."""
    name = pipeline_of(place)
    if name is not None:
        folder = _real(place).rpartition(_OURS)[0]
        raise HousekeepingRefused(
            f"{place.uri} belongs to a pipeline, whose runs hold the lease {folder}/lease. "
            "Nothing was removed. Give the pipeline's name: "
            f"`tidemark checkpoint housekeep {name} --apply`."
        )


def check_no_pipeline(place: FilePlace) -> None:
    """RewindRefused for a checkpoint of a pipeline, which does not go back without its tables."""
    if (pipeline := pipeline_of(place)) is not None:
        raise RewindRefused(
            f"{place.uri} belongs to the pipeline {pipeline}: its checkpoints go with its "
            "tables, which would not fit any more. Nothing was changed. `tidemark checkpoint "
            f"doctor {pipeline}` says how it stands."
        )


def pipeline_of(place: FilePlace) -> str | None:
    """The pipeline that a checkpoint belongs to, by its place; None where it is foreign."""
    folder, ours, _ = _real(place).rpartition(_OURS)
    has_lease = bool(ours) and bool(list_folder(f"{folder}/lease", place.options))
    return folder.rpartition("/")[2] if has_lease else None


def _real(place: FilePlace) -> str:
    """Where it is, whatever links lead there."""
    return os.path.realpath(local_path(place.uri)) if is_local(place.uri) else place.uri
