"""Retractions in the warm session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kit.running import Place, quiet
from tidemark.recompute.retract.result import RetractResult
from tidemark.runs.requests import RetractRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def retract_warm(spark: SparkSession, place: Place, **asked: Any) -> RetractResult:
    """One retraction in the shared session; asked for no rows, what was begun is finished."""
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.retract import retract_once

    return retract_once(
        JobAct(
            place.run("retracting"),
            RetractRequest(pipeline=place.name, **{"reason": "a mistake", **asked}),
            quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
            on_lapse=lambda lost: None,
        )
    )


def retracted(spark: SparkSession, place: Place, **asked: Any) -> RetractResult:
    """One that must succeed."""
    result = retract_warm(spark, place, **asked)
    assert result.error is None, result.error
    return result
