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
def killed(when: Literal["before", "after"], point: str) -> Iterator[None]:
    """Within it, whoever reaches the point so gets no further."""

    def end(reached: str, moment: str, _: tuple[object, ...]) -> None:
        if (moment, reached) == (when, point):
            raise Killed(f"{when} {point}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_point, "on_reach", end)
        yield
