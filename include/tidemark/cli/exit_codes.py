"""Exit codes: whether starting again can help, what the doctor says of a checkpoint, and how
pipelines stand."""

from __future__ import annotations

from typing import Protocol

from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.errors import FAILED, RETRY, SUCCESS
from tidemark.runs.status.state import PipelineState

# Of several checkpoints the largest one is given. 1 and 75 stay what they are elsewhere: the
# doctor could not tell.
VERDICTS = {
    CheckpointVerdict.CLEAN_END: SUCCESS,
    CheckpointVerdict.NEW: 10,
    CheckpointVerdict.NO_DATA_BATCH: 11,
    CheckpointVerdict.KILLED: 12,
    CheckpointVerdict.UNKNOWN: 13,
    CheckpointVerdict.DAMAGED: 14,
}

# Of several pipelines the largest one is given. With 19 all is published but for windows of which
# a measure fails. The next run sets right what is from 20 to 22; from there on somebody must act.
STATES = {
    PipelineState.WELL: SUCCESS,
    PipelineState.WORKING: SUCCESS,
    PipelineState.NEW: SUCCESS,
    PipelineState.FAILING: 19,
    PipelineState.HELD: 20,
    PipelineState.KILLED: 21,
    PipelineState.FAILED: 22,
    PipelineState.OVERDUE: 23,
    PipelineState.STOPPED: 24,
    PipelineState.INVALID: 25,
    PipelineState.UNKNOWN: 26,
}


class _Failure(Protocol):
    """An error, raised or read from a result file."""

    @property
    def retry_can_help(self) -> bool: ...


def failure_exit_code(error: _Failure) -> int:
    """75 where starting again can help, 1 where something must be mended first."""
    return RETRY if error.retry_can_help else FAILED
