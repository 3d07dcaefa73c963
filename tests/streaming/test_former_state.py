"""A checkpoint of the plain aggregation goes on: guarding measures leaves the state as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.pipeline.model import WindowTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The first two are longs in the state as `rows` is: the engine would not see them change places.
MEASURES = {
    "clicks": "count_if(amount > 1)",
    "keys": "count(key)",
    "share": "sum(amount) / count(amount)",
    "total": "sum(amount)",
}
OTHER_MODES = ("append", "complete")
SCHEMA = "_event_time timestamp, key string, amount bigint"
EARLIER = [("10:01", "a", 1), ("10:02", None, 5), ("10:03", "a", 7)]
LATER = [("10:04", "a", 4), ("10:05", None, None), ("10:31", "b", 9)]
COLUMNS = ["window_start", "window_end", "key", *MEASURES, "rows"]


def land(folder: Path, name: str, rows: list[tuple[str, str | None, int | None]]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps({"_event_time": f"2026-07-01T{time}:00Z", "key": key, "amount": amount})
        for time, key, amount in rows
    ]
    (folder / name).write_text("\n".join(lines))


def plain(rows: DataFrame) -> DataFrame:
    """As tables were aggregated before a measure could fail."""
    from pyspark.sql import functions as F

    measures = [F.expr(sql).alias(name) for name, sql in MEASURES.items()]
    window = F.window("_event_time", "10 minutes", "5 minutes").alias("_window")
    grouped = rows.groupBy(window, "key").agg(*measures, F.count(F.lit(1)).alias("rows"))
    ends = [F.col(f"_window.{end}").alias(f"window_{end}") for end in ("start", "end")]
    return grouped.select(*ends, "key", *MEASURES, "rows")


def guarded(rows: DataFrame) -> DataFrame:
    from tidemark.operators.windows.windows import Windows
    from tidemark.streaming.operators.windows import StreamedWindows

    window = {"length": "10 minutes", "slide": "5 minutes"}
    content = {"window": window, "group_by": ["key"], "measures": MEASURES}
    table = WindowTable.model_validate(content)
    return StreamedWindows(Windows("at", table)).plan({"bronze": rows}).select(*COLUMNS)


def run(spark: SparkSession, root: Path, mode: str, plan: Any) -> dict[tuple[Any, Any], Any]:
    rows = spark.readStream.schema(SCHEMA).json(str(root / "in"))
    found: dict[tuple[Any, Any], Any] = {}

    def keep(batch: DataFrame, _: int) -> None:
        found.update({(row.window_start, row.key): tuple(row) for row in batch.collect()})

    writer = plan(rows.withWatermark("_event_time", "5 minutes")).writeStream.outputMode(mode)
    writer = writer.option("checkpointLocation", str(root / "checkpoint")).foreachBatch(keep)
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


@pytest.mark.parametrize(
    "mode", ["update", *(pytest.param(mode, marks=pytest.mark.long) for mode in OTHER_MODES)]
)
def test_what_the_plain_plan_left_is_what_the_guarded_one_goes_on_with(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    land(tmp_path / "in", "1.json", EARLIER)
    run(spark, tmp_path, mode, plain)
    land(tmp_path / "in", "2.json", LATER)
    found = run(spark, tmp_path, mode, guarded)
    batch = plain(spark.read.schema(SCHEMA).json(str(tmp_path / "in"))).collect()
    expected = {(row.window_start, row.key): tuple(row) for row in batch}
    assert found
    assert {row: expected[row] for row in found} == found
