"""The result of a replay of rejects, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemark.printed import counted
from tidemark.recompute.replay.change import Replay
from tidemark.storage.result_file import ActResult, Facts, RunError

# The verdict on a reject that cannot be judged as it is kept, and on one that `when` leaves to
# others; no rule has such a name.
NOT_JUDGED, OF_ANOTHER = "not judged", "of another pipeline"


class Staying(Facts):
    """A reject that stays: the line that mends it, where one does, and the verdict on it now."""

    id: str | None
    line: int | None
    reason: str
    detail: str | None


class Outcomes(Facts):
    """What rejects come to: how many are accepted, how many stay by the verdict on them now, and
    the first of these."""

    accepted: int
    staying: Mapping[str, int]
    examples: tuple[Staying, ...] = ()

    @property
    def rejects(self) -> int:
        return self.accepted + sum(self.staying.values())


class ReplayResult(ActResult):
    """One replay, as far as it came.

    `judged` is None where it did not come to that, `change` where nothing is to be changed;
    `begun`: the pipeline was stopped for it.
    """

    judged: Outcomes | None = None
    change: Replay | None = None
    begun: bool = False
    seconds: Mapping[str, float] = {}
    took_over: str | None = None
    error: RunError | None = None


def replay_lines(result: ReplayResult) -> Iterator[str]:
    """What a replay would do, or did, for people."""
    done, judged = result.begun and result.error is None, result.judged
    if judged is not None:
        would = "were" if done else "would be"
        yield (
            f"{result.pipeline}: of {counted(judged.rejects, 'reject')} {judged.accepted:,} "
            f"{would} accepted, {sum(judged.staying.values()):,} stay"
        )
        for reason, number in judged.staying.items():
            yield f"  {number:,} {reason}"
            for one in judged.examples:
                if one.reason == reason:
                    line = "" if one.line is None else f"line {one.line:,}, "
                    yield f"    {line}{one.id or 'without an id'}: {one.detail or reason}"
    change = result.change
    if done and change is not None:
        moved = counted(change.rows, "reject")
        yield f"{moved} went to bronze (the replay {change.id}); the next run brings gold up to it"
    elif result.error is None and judged is not None and not judged.accepted:
        yield "nothing was changed: none is accepted"
    elif result.error is None and result.dry_run:
        yield "nothing was changed: --apply does it"
