"""Gauges of a run, through Airflow's own metrics: nothing is sent unless Airflow has them on.

Names stand without tags, so that a plain StatsD server can tell pipelines and tables apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from airflow.sdk.observability.stats import gauge

from tidemark.errors import TidemarkError
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.results.result import RunResult
from tidemark.sources.lag import NotAsked, source_lag
from tidemark.sources.source import Lag


def gauge_run(result: RunResult) -> None:
    """`tidemark.PIPELINE.rows_read`, `.rows_accepted`, `.rows_rejected`; of each table
    `tidemark.PIPELINE.TABLE.late_rows`, `.lag_seconds`."""
    for name, value in _figures(result):
        gauge(f"tidemark.{result.pipeline}.{name}", value)


def gauge_state(pipeline: str, table: str, size: int) -> None:
    """`tidemark.PIPELINE.TABLE.state_bytes`: what the state's files take."""
    gauge(f"tidemark.{pipeline}.{table}.state_bytes", size)


def gauge_lag(pipeline: str, lag: Lag, now: datetime) -> None:
    """`tidemark.PIPELINE.source_lag_messages`, of files `.source_lag_files` and
    `.source_lag_bytes`, and `.source_lag_seconds`: since the oldest of them came, 0 where there is
    none. `now` is in UTC."""
    of_files = {"files": lag.files, "bytes": lag.bytes}
    counts = of_files if lag.messages is None else {"messages": lag.messages}
    for name, count in counts.items():
        gauge(f"tidemark.{pipeline}.source_lag_{name}", count)
    if lag.since is not None or not any(counts.values()):
        # A file may be dated in the future.
        seconds = max(0.0, (now - lag.since).total_seconds()) if lag.since else 0
        gauge(f"tidemark.{pipeline}.source_lag_seconds", seconds)


def gauge_source(pipeline: Pipeline, settings: Settings) -> str | None:
    """Of sources that can tell, what came while a run was at work, as `gauge_lag` has it; else why
    it is not known. What is in the way of asking is no failure of the run, which has ended."""
    try:
        lag = source_lag(pipeline, settings)
    except TidemarkError as error:
        return str(error)
    if isinstance(lag, NotAsked):
        return lag.because
    if lag is not None:
        gauge_lag(pipeline.name, lag, datetime.now(UTC))
    return None


def _figures(result: RunResult) -> Iterator[tuple[str, float]]:
    rows = result.rows
    yield "rows_read", rows.read
    yield "rows_accepted", rows.accepted
    yield "rows_rejected", sum(rows.rejected.values())
    for name, table in result.tables.items():
        yield f"{name}.late_rows", table.late.rows + table.late.partly
        if table.watermark_after_ms:
            # Of the run's own time: a source that falls silent shows as a lag that grows.
            behind_ms = epoch_ms(result.ended_at) - table.watermark_after_ms
            yield f"{name}.lag_seconds", behind_ms / 1000
