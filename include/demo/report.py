"""What came of the runs, read from result files and Delta tables without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
from deltalake import DeltaTable
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tidemark.airflow.outcome import iso_time
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.tables.result import RunResult

STAGES = ("session", "ingest", "aggregate", "publish")
TOP_ROWS = 5
_LONGEST_EXAMPLE = 90


def print_runs(console: Console, title: str, results: Sequence[RunResult]) -> None:
    """Rows, windows, watermark, and the seconds of each step, a line for each pipeline."""
    table = Table(title=title, title_justify="left")
    for name in ("pipeline", "read", "accepted", "rejected", "windows changed", "watermark"):
        table.add_column(name, justify="left" if name in ("pipeline", "watermark") else "right")
    for stage in STAGES:
        table.add_column(f"{stage}, s", justify="right", style="dim")
    for result in results:
        table.add_row(result.pipeline, *_numbers(result), *_seconds(result))
    console.print(table)


def print_gold(console: Console, pipeline: Pipeline, root: str) -> None:
    """The largest windows of each of the pipeline's tables, by its first measure."""
    for name, table in pipeline.tables.items():
        measures = list(table.measures)
        columns = ["window_start", "window_end", *table.group_by, *measures, "status"]
        order = measures[0] if measures else "window_start"
        names = ", ".join(f'"{column}"' for column in columns)
        ties = ", ".join(f'"{column}"' for column in ("window_start", *table.group_by))
        gold = Places(root, pipeline.name).gold(name)
        rows = _query(gold, f'SELECT {names} FROM t ORDER BY "{order}" DESC, {ties}')
        title = f"{pipeline.name}/{name}: {len(rows):,} windows, the {TOP_ROWS} largest"
        _print_rows(console, title, columns, rows[:TOP_ROWS])


def print_example(console: Console, pipeline: Pipeline, root: str, keys: Sequence[int]) -> None:
    """The worked example's windows, which can be followed by hand in its README."""
    columns = ["window_start", "window_end", "spotId", "impressions", "mobile", "status"]
    names = ", ".join(f'"{column}"' for column in columns)
    wanted = ", ".join(str(key) for key in keys)
    rows = _query(
        Places(root, pipeline.name).gold("spot_10m"),
        f'SELECT {names} FROM t WHERE "spotId" IN ({wanted}) ORDER BY window_start, "spotId"',
    )
    _print_rows(console, f"{pipeline.name}/spot_10m: the worked example's spots", columns, rows)


def print_rejects(console: Console, pipelines: Sequence[str], root: str) -> None:
    """How many rows were rejected for which reason, with an example of each."""
    columns = ["reason", "rows", "example", "detail"]
    query = """
        SELECT reason, count(*), min_by(raw, (_file, raw)), min_by(detail, (_file, raw))
        FROM t GROUP BY reason ORDER BY count(*) DESC, reason
    """
    for pipeline in pipelines:
        rows = _query(Places(root, pipeline).rejects, query)
        if rows:
            _print_rows(console, f"{pipeline}: rejected rows", columns, rows)
        else:
            console.print(f"[bold]{pipeline}[/]: no row was rejected\n")


def _query(table: str, sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer over one Delta table, which the query calls `t`."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", DeltaTable(table).to_pyarrow_dataset())
        return connection.execute(sql).fetchall()


def _print_rows(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        numbers = all(isinstance(row[position], int | float) for row in rows)
        table.add_column(column, justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    if hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, int):
        return f"{value:,}"
    text = "" if value is None else " ".join(str(value).split())
    return escape(text if len(text) <= _LONGEST_EXAMPLE else text[: _LONGEST_EXAMPLE - 1] + "…")


def _numbers(result: RunResult) -> list[str]:
    rows, rejected = result.rows, sum(result.rows.rejected.values())
    changed = sum(table.windows_changed for table in result.tables.values())
    counts = (rows.read, rows.accepted, rejected, changed)
    return [*(f"{count:,}" for count in counts), _watermark(result)]


def _watermark(result: RunResult) -> str:
    """The tables of a pipeline have one source and one delay; the least is what all reached."""
    least = min((t.watermark_after_ms for t in result.tables.values()), default=0)
    return iso_time(least) or "none yet"


def _seconds(result: RunResult) -> list[str]:
    spent: Mapping[str, float] = result.seconds
    return [f"{spent[stage]:.1f}" if stage in spent else "" for stage in STAGES]
