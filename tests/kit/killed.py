"""End a run in the warm session at a commit point, as a kill would end its process there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from tidemark import commit_point


class Killed(RuntimeError):
    """Stands for the end of the process: the engine takes an error within a batch as one."""


@contextmanager
def killed(when: Literal["before", "after"], point: str, time: int = 1) -> Iterator[None]:
    """Within it, whoever reaches the point so for this time, or a later one, gets no further."""
    left = [time]

    def end(reached: str, moment: str, _: tuple[object, ...]) -> None:
        if (moment, reached) == (when, point):
            left[0] -= 1
            if left[0] <= 0:
                raise Killed(f"{when} {point}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_point, "on_reach", end)
        yield
