"""What a failed query says: its cause first and whole, wherever the project lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest

from tidemark.errors import DataDamaged, RunFailed, SourceNotFound, TidemarkError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Write = Callable[[DataFrame, int], None]

# No text of a fixed length has room for such a traceback, a fold's own path in it or not.
MESSAGE = f"first line of {'much ' * 1_000}\nsecond line\n\n  last line"
HEAD = "The query q failed. What was committed before stays; the next run repeats the batch"


@pytest.fixture
def failing(spark: SparkSession, tmp_path: Path) -> Callable[[Write], TidemarkError]:
    """What comes of a query whose batch function is given."""
    from tidemark.streaming.run.queries import end_of, start_query

    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("x\n")

    def run(write: Write) -> TidemarkError:
        writer = spark.readStream.text(str(source)).writeStream.queryName("q")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        failure = end_of(start_query(writer, write))
        assert failure is not None
        return failure

    return run


def deep(error: Exception, depth: int = 200) -> None:
    """Raise it from so deep that its traceback is long."""
    if depth:
        deep(error, depth - 1)
    if depth == 0:
        raise error


def test_an_error_of_pythons_is_told_first_and_whole(
    failing: Callable[[Write], TidemarkError],
) -> None:
    told = failing(lambda rows, batch: deep(ValueError(MESSAGE)))
    assert isinstance(told, RunFailed)
    assert str(told).startswith(f"ValueError: {MESSAGE}\n{HEAD}")
    assert "Traceback" not in str(told)


def test_an_error_in_a_task_is_told_first_and_whole(
    failing: Callable[[Write], TidemarkError],
) -> None:
    message = MESSAGE

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def deep(depth: int) -> None:
            if depth:
                deep(depth - 1)
            raise ValueError(message) from KeyError("before")

        for batch in batches:
            deep(200)
            yield batch

    told = failing(lambda rows, batch: rows.mapInArrow(fails, rows.schema).collect() and None)
    assert isinstance(told, RunFailed)
    assert str(told).startswith(f"ValueError: {MESSAGE}\n")
    assert HEAD in str(told)
    assert "Traceback" not in str(told)
    assert "\tat " not in str(told)


def test_an_error_of_the_engines_is_told_first_and_whole(
    failing: Callable[[Write], TidemarkError],
) -> None:
    said = "boom " * 1_000
    told = failing(lambda rows, batch: rows.selectExpr(f"raise_error('{said}')").collect() and None)
    assert isinstance(told, RunFailed)
    assert f"[USER_RAISED_EXCEPTION] {said.strip()}" in str(told).partition("\n")[0]
    assert HEAD in str(told)
    assert "\tat " not in str(told)


def test_where_a_cause_says_nothing_its_surroundings_are_told() -> None:
    from tidemark.streaming.failures import told_in_order

    around = "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Writing to s3://b/x failed."
    told = told_in_order([f"{around}\n\tat X", "java.lang.NullPointerException"])
    assert told == f"java.lang.NullPointerException\nin {around}"


def test_a_data_file_that_is_gone_is_named_and_no_retry_helps(
    spark: SparkSession, failing: Callable[[Write], TidemarkError], tmp_path: Path
) -> None:
    table = tmp_path / "table"
    spark.range(5).write.parquet(str(table))
    rows = spark.read.parquet(str(table))
    (file, *others) = table.glob("*.parquet")
    for one in (file, *others):
        one.unlink()
    told = failing(lambda _, batch: rows.count() and None)
    assert isinstance(told, DataDamaged)
    assert not told.retry_can_help
    assert str(told).startswith(f"file:{table}") or str(told).startswith(f"file://{table}")
    assert HEAD in str(told)


def test_an_error_of_ours_stays_what_it_is(failing: Callable[[Write], TidemarkError]) -> None:
    error = RunFailed("The disk is away. Look at it.")
    assert failing(lambda rows, batch: deep(error)) is error


def test_a_query_that_cannot_be_started_leaves_no_other_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tidemark.streaming.run import steps
    from tidemark.streaming.run.queries import Running

    at_work, lacking = Mock(), SourceNotFound("The bronze of other has no column 'x' yet.")

    def start(spark: object, plan: str, progress: object) -> Running:
        if plan == "joined":
            raise lacking
        return Running(at_work)

    monkeypatch.setattr(steps, "_query", lambda table: table)
    monkeypatch.setattr(steps, "tick_clocks", lambda plan: ())
    monkeypatch.setattr(steps, "start_aggregate", start)
    tables = cast("Any", {"windows": "windows", "joined": "joined"})
    with pytest.raises(SourceNotFound) as raised:
        steps._aggregate(cast("Any", None), tables, cast("Any", None))
    assert raised.value is lacking
    at_work.awaitTermination.assert_called_once_with()
