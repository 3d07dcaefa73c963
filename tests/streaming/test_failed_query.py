"""What a failed query says: the engine's cause stands in it, however long what is before."""

from __future__ import annotations

from tidemark.errors import DataDamaged, RunFailed
from tidemark.streaming.run.queries import _failure

STACK = """org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: org.apache.spark.SparkException: Task failed
\tat org.apache.spark.X.run(X.scala:1)
Caused by: {cause}
\tat org.apache.hadoop.fs.RawLocalFileSystem.open(RawLocalFileSystem.java:1)
\t... 12 more
"""


def failed(cause: str) -> Exception:
    error = RuntimeError("[STREAM_FAILED] " + "plan " * 2_000)
    error._stackTrace = STACK.format(cause=cause)  # type: ignore[attr-defined]  # as pyspark has it
    return error


def test_the_deepest_cause_is_not_cut_off() -> None:
    told = _failure("page_10m", failed("java.lang.ArithmeticException: divide by zero"))
    assert isinstance(told, RunFailed)
    assert str(told).endswith("Caused by: java.lang.ArithmeticException: divide by zero")
    assert len(str(told)) < 4_000


def test_a_data_file_that_is_gone_is_named_and_no_retry_helps() -> None:
    file = "file:/lake/clicks/bronze/_event_date=2026-07-01/part-00000-4b.c000.snappy.parquet"
    cause = f"java.io.FileNotFoundException: \nFile {file} does not exist"
    told = _failure("page_10m", failed(cause))
    assert isinstance(told, DataDamaged)
    assert not told.retry_can_help
    assert file in str(told)
    assert "The query page_10m failed" in str(told)
    assert "FileNotFoundException" in str(told)


def test_a_short_error_is_as_it_was() -> None:
    assert str(_failure("q", ValueError("boom"))).endswith("The engine says: boom")
