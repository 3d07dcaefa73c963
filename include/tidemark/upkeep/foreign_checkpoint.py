"""The housekeeping of a checkpoint that no pipeline of ours has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.errors import HousekeepingRefused
from tidemark.storage.files import list_folder
from tidemark.upkeep.plan import HousekeepingPlan
from tidemark.upkeep.plan_housekeeping import Keep, plan_housekeeping
from tidemark.upkeep.stock import take_stock

_OURS = "/checkpoints/"


def plan_checkpoint(
    uri: str, options: Mapping[str, str], batches: int, now: datetime
) -> HousekeepingPlan:
    """What may go from the checkpoint at a place, with its newest `batches` batches kept.

    Whether a query works on it cannot be known. One that does is not disturbed: what goes is older
    than all that it reads. `now` is in UTC. Raises as `take_stock` does.
    """
    taken = take_stock(uri, options, batches)
    return plan_housekeeping(taken, judge_checkpoint(taken.facts, now), Keep(batches), now)


def check_foreign(uri: str, options: Mapping[str, str]) -> None:
    """HousekeepingRefused for a checkpoint of a pipeline: there, the lease has to be held."""
    folder, ours, _ = uri.rpartition(_OURS)
    if ours and list_folder(f"{folder}/lease", options):
        name = folder.rpartition("/")[2]
        raise HousekeepingRefused(
            f"{uri} belongs to a pipeline, whose runs hold the lease {folder}/lease. Nothing was "
            f"removed. Give the pipeline's name: `tidemark checkpoint housekeep {name} --apply`."
        )
