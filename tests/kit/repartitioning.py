"""Repartitions of state in the warm session, which keeps state in RocksDB meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kit.running import Place, quiet
from tidemark.pipeline.settings.state import PROVIDER, provider_class
from tidemark.runs.requests import RepartitionRequest
from tidemark.runs.results.repartition_result import RepartitionResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def in_rocksdb(spark: SparkSession) -> Iterator[None]:
    """Whatever begins within it keeps its state in RocksDB."""
    spark.conf.set(PROVIDER, provider_class("rocksdb"))
    try:
        yield
    finally:
        spark.conf.unset(PROVIDER)


def repartition_warm(
    spark: SparkSession, place: Place, partitions: int, **asked: Any
) -> RepartitionResult:
    """One repartition in the shared session."""
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.repartition_state import repartition_once

    told = {"pipeline": place.name, "partitions": partitions, "reason": "more cores", **asked}
    return repartition_once(
        JobAct(
            place.run(asked.get("run_id", "repartition")),
            RepartitionRequest(**told),
            quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
            on_lapse=lambda lost: None,
        )
    )


def repartitioned(
    spark: SparkSession, place: Place, partitions: int, **asked: Any
) -> RepartitionResult:
    """One that must succeed."""
    result = repartition_warm(spark, place, partitions, **asked)
    assert result.error is None, result.error
    return result
