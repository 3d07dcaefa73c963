"""The states of a pipeline, without anything that is slow to import."""

from __future__ import annotations

from enum import StrEnum


class PipelineState(StrEnum):
    """How a pipeline stands, from the best to the worst."""

    WELL = "well"
    WORKING = "working"
    NEW = "not run yet"
    FAILING = "windows fail"
    HELD = "held"
    KILLED = "killed"
    FAILED = "failed"
    OVERDUE = "overdue"
    STOPPED = "stopped"
    INVALID = "invalid file"
    UNKNOWN = "unknown"
