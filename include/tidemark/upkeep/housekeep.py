"""Carry out a plan of housekeeping, file by file, in the plan's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemark.checkpoint.reading.reader import file_place
from tidemark.commit_point import commit_point
from tidemark.storage.files import remove_files
from tidemark.upkeep.plan import HousekeepingPlan

# So many files take some milliseconds on a disk, and seconds on object storage.
_BETWEEN_CHECKS = 100


@commit_point(
    "checkpoint files removed",
    after_a_kill="before, after and in between: no start needs what is gone; a repeat removes "
    "what is left",
)
def carry_out_housekeeping(
    plan: HousekeepingPlan, options: Mapping[str, str], check: Callable[[], None] = lambda: None
) -> None:
    """Remove what the plan says may go; a file that is gone already is no error.

    Killed anywhere, the checkpoint is as good as before and after; a new plan then finds the rest.
    `check` is called now and then, and raises where this process may not go on.
    """
    going = tuple(plan.going)
    for start in range(0, len(going), _BETWEEN_CHECKS):
        check()
        names = going[start : start + _BETWEEN_CHECKS]
        remove_files((file_place(plan.uri, name) for name in names), options)
