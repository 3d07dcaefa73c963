"""Erasures in the warm session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kit.running import Place, quiet
from tidemark.recompute.erase.result import EraseResult
from tidemark.runs.requests import EraseRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def erase_warm(spark: SparkSession, place: Place, **asked: Any) -> EraseResult:
    """One erasure in the shared session; asked for no rows, what was begun is finished."""
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.erase import erase_once

    return erase_once(
        JobAct(
            place.run("erasing"),
            EraseRequest(pipeline=place.name, **{"reason": "a request", **asked}),
            quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
            on_lapse=lambda lost: None,
        )
    )


def erased(spark: SparkSession, place: Place, **asked: Any) -> EraseResult:
    """One that must succeed."""
    result = erase_warm(spark, place, **asked)
    assert result.error is None, result.error
    return result
