"""A run's result, for people: rows, windows, watermark, seconds, and what went wrong."""

from __future__ import annotations

import sys

from tidemark.cli.console import ReportTable, report_console, report_table
from tidemark.gold.pins import TableResult
from tidemark.pipeline.instants import instant_text
from tidemark.runs.results.result import RunResult, repair_lines
from tidemark.storage.delta.rows import Rows, counts_text
from tidemark.storage.result_file import RunError


def print_result(result: RunResult, uri: str) -> None:
    """Print the result to stdout, and its error to stderr."""
    console = report_console()
    ended = "held, not published" if result.held else "succeeded and published"
    outcome = "failed" if result.error else ended
    console.print(f"\n{result.pipeline}, run {result.run_id}: {outcome}")
    console.print(rows_table(result))
    if result.rows.offsets is not None:
        console.print(offsets_text(result.rows))
    if result.rows.records is not None:
        console.print(result.rows.records.label)
    if result.rows.counted:
        console.print(f"counted: {counts_text(result.rows.counted)}")
    if result.tables:
        console.print(windows_table(result))
    for name, table in result.tables.items():
        for line in repair_lines(table):
            console.print(f"{name}: {line}")
    if result.without_spark:
        console.print(f"no Spark was started: {result.without_spark}")
    if result.took_over:
        console.print(f"the lease was taken over: {result.took_over}")
    seconds = ", ".join(f"{stage} {spent:.1f}" for stage, spent in result.seconds.items())
    if seconds:
        console.print(f"seconds: {seconds}")
    console.print(f"result file: {uri}")
    if result.error:
        print(
            f"\n{result.error.type}: {result.error.message}\n{advice(result.error)}",
            file=sys.stderr,
        )


def rows_table(result: RunResult) -> ReportTable:
    """Rows read, accepted, and rejected by reason; read is the sum of the others where each record
    is a row."""
    rows = result.rows
    rejected = [f">rejected:\n{reason}" for reason in rows.rejected] or [">rejected"]
    table = report_table(">rows read", ">accepted", *rejected)
    counts = (rows.read, rows.accepted, *(rows.rejected.values() or [0]))
    table.add_row(*(f"{count:,}" for count in counts))
    return table


def offsets_text(rows: Rows) -> str:
    """How many offsets were read, and how many of them no message has."""
    return f"offsets read: {rows.offsets:,}, {rows.without_record:,} of them without a record"


def windows_table(result: RunResult) -> ReportTable:
    """Each table's windows, gold's version, and how far its time has come."""
    numbers = (">windows\nchanged", ">windows\npublished", ">gold's\nversion")
    table = report_table("table", *numbers, "watermark", "windows closed\nup to")
    for name, one in result.tables.items():
        table.add_row(name, *_cells(one))
    return table


def _cells(table: TableResult) -> list[str]:
    published = table.gold is not None
    return [
        f"{table.windows_changed:,}",
        f"{table.published_windows:,}" if table.published_windows is not None else "held",
        f"{table.gold}" if published else "as before",
        instant_text(table.watermark_after_ms),
        instant_text(table.close_after_ms if published else table.close_before_ms),
    ]


def advice(error: RunError) -> str:
    """Whether to run it again."""
    if error.retry_can_help:
        return "Running it again can help."
    return "Running it again will not help before this is mended."
