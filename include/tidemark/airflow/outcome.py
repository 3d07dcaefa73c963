"""What a finished job means for its task: decided from the result file, purely.

The job's result says whether a retry can help. Without a result file nobody knows how far the
job came: it was killed or could not start, and starting it again is safe, so a retry follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemark.errors import TidemarkError
from tidemark.pipeline.instants import instant_text
from tidemark.runs.results.result import RunResult, repair_lines
from tidemark.storage.delta.rows import counts_text
from tidemark.storage.result_file import RunError

NO_RETRY = "Airflow will not try again. Mend it, then clear the task."
RETRY = "A retry can help; Airflow makes one while the task has retries left."


def failure(doing: str, error: RunError) -> AirflowException:
    """The exception for a failed job: AirflowFailException where no retry can help."""
    text = f"{doing} failed with {error.type}: {error.message}"
    if error.retry_can_help:
        return AirflowException(f"{text}\n{RETRY}")
    return AirflowFailException(f"{text}\n{NO_RETRY}")


@contextmanager
def as_task_failure(doing: str) -> Iterator[None]:
    """Turn an error of ours into the exception that says whether Airflow shall try again."""
    try:
        yield
    except TidemarkError as error:
        raise failure(doing, RunError.of(error)) from error


def without_result(exit_status: int | None, found: str) -> AirflowException:
    """The exception for a job that ended before it could write its result."""
    how = f"spark-submit ended with exit status {exit_status}"
    if exit_status is not None and exit_status < 0:
        how = f"spark-submit was killed by signal {-exit_status}"
    return AirflowException(
        f"{how} without a result of this try. {found} The job was killed, ran out of memory or "
        "could not start: its output is in this task's log, above. What it committed stays and "
        f"is not done again.\n{RETRY}"
    )


def log_lines(result: RunResult) -> list[str]:
    """The run for people, as lines of a log."""
    rejected = ", ".join(f"{count} {reason}" for reason, count in result.rows.rejected.items())
    taken = [f"the lease was taken over: {result.took_over}"] if result.took_over else []
    spared = [f"no Spark was started: {result.without_spark}"] if result.without_spark else []
    lines = [
        *taken,
        *spared,
        f"{result.rows.read} rows read: {result.rows.accepted} accepted, "
        f"{sum(result.rows.rejected.values())} rejected" + (f" ({rejected})" if rejected else ""),
    ]
    if result.rows.counted:
        lines.append(f"counted: {counts_text(result.rows.counted)}")
    if result.rows.records is not None:
        lines.append(result.rows.records.label)
    if result.rows.offsets is not None:
        lines.append(
            f"{result.rows.offsets} offsets read, {result.rows.without_record} of them without a "
            "record"
        )
    for name, table in result.tables.items():
        before = instant_text(table.watermark_before_ms)
        after = instant_text(table.watermark_after_ms)
        lines.append(f"{name}: {table.windows_changed} windows changed")
        lines.append(f"{name}: watermark before {before}, after {after}")
        lines += [f"{name}: {line}" for line in repair_lines(table)]
    seconds = ", ".join(f"{stage} {spent:.1f} s" for stage, spent in result.seconds.items())
    return [*lines, *([seconds] if seconds else [])]
