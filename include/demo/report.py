"""What came of the runs, read from result files and Delta tables without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any

from deltalake import DeltaTable
from rich.console import Console
from rich.markup import escape

from demo.api import DagRun
from tidemark.cli.console import ReportTable, report_table, shortened
from tidemark.pipeline.instants import instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.runs.results.result import RunResult
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

TOP_ROWS = 5
_LONGEST_EXAMPLE = 90
# How columns that hold sentences are set.
_SETTINGS = {"example": "~", "detail": "~", "account": "~"}


def print_runs(console: Console, title: str, runs: Sequence[tuple[DagRun, RunResult]]) -> None:
    """Rows, windows, watermark, and the seconds of each step, a column for each pipeline."""
    facts = [_facts(run, result) for run, result in runs]
    table = report_table("", *(f">{run.dag}" for run, _ in runs))
    for name in facts[0]:
        table.add_row(name, *(told.get(name, "") for told in facts))
    _print_table(console, title, table)


def print_gold(console: Console, pipeline: Pipeline, root: str) -> None:
    """The largest windows of each of the pipeline's tables, by its first measure."""
    for name, table in pipeline.tables.items():
        measures = list(table.columns_told)
        columns = [*table.group_by, *measures, "status"]
        order = measures[0] if measures else "window_start"
        ties = ", ".join(f'"{column}"' for column in ("window_start", *table.group_by))
        gold = Places(root, pipeline.name).gold(name)
        rows = _windows(gold, columns, f'ORDER BY "{order}" DESC, {ties}')
        title = f"{pipeline.name}/{name}: {len(rows):,} windows, the {TOP_ROWS} largest"
        print_rows(console, title, ["window (UTC)", *columns], rows[:TOP_ROWS])


def print_example(console: Console, pipeline: Pipeline, root: str, keys: Sequence[int]) -> None:
    """The worked example's windows, which can be followed by hand in its README."""
    columns = ["spotId", "impressions", "mobile", "status"]
    wanted = ", ".join(str(key) for key in keys)
    rows = _windows(
        Places(root, pipeline.name).gold("spot_10m"),
        columns,
        f'WHERE "spotId" IN ({wanted}) ORDER BY window_start, "spotId"',
    )
    title = f"{pipeline.name}/spot_10m: the worked example's spots, to follow by hand"
    print_rows(console, title, ["window (UTC)", *columns], rows)


def print_rejects(console: Console, pipelines: Sequence[str], root: str) -> None:
    """How many rows were rejected for which reason, with an example of each."""
    columns = ["reason", "rows", "example", "detail"]
    query = """
        SELECT reason, count(*), min_by(raw, (_file, raw)), min_by(detail, (_file, raw))
        FROM t GROUP BY reason ORDER BY count(*) DESC, reason
    """
    for pipeline in pipelines:
        rows = query_table(Places(root, pipeline).rejects, query)
        if rows:
            print_rows(console, f"{pipeline}: rejected rows", columns, rows)
        else:
            console.print(f"[bold]{pipeline}[/]: no row was rejected\n")


def _windows(gold: str, columns: Sequence[str], clauses: str) -> list[tuple[Any, ...]]:
    names = ", ".join(f'"{column}"' for column in columns)
    rows = query_table(gold, f"SELECT window_start, window_end, {names} FROM t {clauses}")
    return [(window_text(start, end), *rest) for start, end, *rest in rows]


def query_table(table: str, sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer over one Delta table, which the query calls `t`."""
    with duckdb_in_utc() as connection:
        connection.register("t", DeltaTable(table).to_pyarrow_dataset())
        return connection.execute(sql).fetchall()


def print_rows(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    settings = [
        ">" if all(isinstance(row[place], int | float) for row in rows) else _SETTINGS.get(name, "")
        for place, name in enumerate(columns)
    ]
    table = report_table(*map("".join, zip(settings, columns, strict=True)))
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    _print_table(console, title, table)


def _print_table(console: Console, title: str, table: ReportTable) -> None:
    console.print(f"[italic]{escape(title)}[/]")
    console.print(table, soft_wrap=True)
    console.print()


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    text = "" if value is None else " ".join(str(value).split())
    return shortened(text, _LONGEST_EXAMPLE)


def _facts(run: DagRun, result: RunResult) -> dict[str, str]:
    rows = result.rows
    changed = sum(table.windows_changed for table in result.tables.values())
    counts = {
        "rows read": rows.read,
        "rows accepted": rows.accepted,
        "rows rejected": sum(rows.rejected.values()),
        "windows changed": changed,
        # A row may be late for several tables.
        "late rows": max((t.late.rows + t.late.partly for t in result.tables.values()), default=0),
        "late windows corrected": sum(t.late.corrected for t in result.tables.values()),
    }
    # The tables of a pipeline have one source and one delay; the least is what all reached.
    watermark = min((t.watermark_after_ms for t in result.tables.values()), default=0)
    closed = min((t.close_after_ms for t in result.tables.values()), default=0)
    return {
        **{name: f"{count:,}" for name, count in counts.items()},
        "watermark": instant_text(watermark),
        "windows closed up to": instant_text(closed),
        **{f"{stage}, s": f"{spent:.1f}" for stage, spent in result.seconds.items()},
        **{f"task {t.task}, s": f"{t.seconds or 0:.1f}" for t in run.tasks if t.state != "skipped"},
    }


def window_text(start: datetime, end: datetime) -> str:
    """A window without what can be left out: its end's date, and midnights of whole days."""
    midnight = start.time() == end.time() == time(0)
    if midnight and end - start == timedelta(days=1):
        return f"{start:%Y-%m-%d}"
    same_day = end - start < timedelta(days=1)
    return f"{start:%Y-%m-%d %H:%M}–{end:{'%H:%M' if same_day else '%Y-%m-%d %H:%M'}}"
