"""Rewinds of a pipeline in the warm session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kit.running import Place, quiet
from tidemark.recompute.rewind.result import RewindResult
from tidemark.runs.requests import RewindRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewind_warm(
    spark: SparkSession,
    place: Place,
    to_run: str | None = None,
    undo: str | None = None,
    dry_run: bool = False,
    **asked: Any,
) -> RewindResult:
    """One rewind in the shared session; with neither, what was begun is finished."""
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.rewind import rewind_once

    return rewind_once(
        JobAct(
            place.run("rewinding"),
            RewindRequest(pipeline=place.name, to_run=to_run, undo=undo, dry_run=dry_run, **asked),
            quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
            on_lapse=lambda lost: None,
        )
    )


def rewound(spark: SparkSession, place: Place, to_run: str) -> RewindResult:
    """One that must succeed."""
    result = rewind_warm(spark, place, to_run)
    assert result.error is None, result.error
    return result
