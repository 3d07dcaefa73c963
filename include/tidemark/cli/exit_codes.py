"""Exit codes: whether starting again can help, what the doctor says of a checkpoint, and how
pipelines stand."""

from __future__ import annotations

from typing import Protocol

from tidemark.checkpoint.doctor.findings import Verdict
from tidemark.errors import FAILED, RETRY, SUCCESS
from tidemark.runs.status.state import State

INTERRUPTED = 130

# Of several checkpoints the largest one is given. 1 and 75 stay what they are elsewhere: the
# doctor could not tell.
VERDICTS = {
    Verdict.CLEAN_END: SUCCESS,
    Verdict.NEW: 10,
    Verdict.NO_DATA_BATCH: 11,
    Verdict.KILLED: 12,
    Verdict.UNKNOWN: 13,
    Verdict.DAMAGED: 14,
}

# Of several pipelines the largest one is given. The next run sets right what is below 23; from
# there on somebody must act.
STATES = {
    State.WELL: SUCCESS,
    State.WORKING: SUCCESS,
    State.NEW: SUCCESS,
    State.HELD: 20,
    State.KILLED: 21,
    State.FAILED: 22,
    State.OVERDUE: 23,
    State.STOPPED: 24,
    State.INVALID: 25,
    State.UNKNOWN: 26,
}


class _Failure(Protocol):
    """An error, raised or read from a result file."""

    @property
    def retry_can_help(self) -> bool: ...


def exit_code(error: _Failure) -> int:
    """75 where starting again can help, 1 where something must be mended first."""
    return RETRY if error.retry_can_help else FAILED
