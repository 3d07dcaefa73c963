"""Judge lines in the shared session and read the verdicts as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_TIME = datetime(2026, 11, 18, 11, 6, 40, tzinfo=UTC)


def pipeline_of(
    columns: Mapping[str, Any],
    unknown_fields: str = "keep",
    derive: Mapping[str, str] | None = None,
    keep: str | None = None,
    **event_time: Any,
) -> Pipeline:
    """A pipeline with the event time in `at` and ten minutes of watermark delay."""
    source = {
        "files": "landing/*.json*",
        "columns": {"at": "timestamp", **columns},
        "event_time": {"column": "at", **event_time},
        "derive": dict(derive or {}),
        "unknown_fields": unknown_fields,
    }
    table = {"window": {"length": "10 minutes"}, "measures": {"rows_seen": "count(*)"}}
    content = clicks(source=source, tables={"all": table}, keep=keep)
    return pipeline_from_mapping("judged", content)


def judge_lines(
    spark: SparkSession, pipeline: Pipeline, lines: Sequence[str | bytes]
) -> list[dict[str, Any]]:
    """The verdict on each line, in order, with the columns that are not null."""
    from pyspark.sql import functions as F

    from tidemark.streaming.ingest.judge import judge_lines, rules_of

    data = [
        (number, line if isinstance(line, bytes) else line.encode())
        for number, line in enumerate(lines)
    ]
    rows = spark.createDataFrame(data, "number int, bytes binary")
    text = rows.select("number", F.col("bytes").cast("string").alias("_value"))
    judged = judge_lines(text, rules_of(pipeline), int(BATCH_TIME.timestamp() * 1000)).drop(
        "_value"
    )
    judged = judged.withColumnsRenamed({"_reason": "reason", "_detail": "detail"})
    verdicts = sorted(judged.toArrow().to_pylist(), key=lambda row: row.pop("number"))
    assert len(verdicts) == len(lines)
    return [{k: v for k, v in row.items() if v is not None} for row in verdicts]
