"""`tidemark state read`: have a job read a table's state, and print its rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.cli.console import report_console, report_table
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_job
from tidemark.cli.options import absolute, asked_pipeline
from tidemark.cli.spark_log import temporary_log
from tidemark.errors import SUCCESS
from tidemark.runs.requests import StateRequest
from tidemark.runs.results.looks import StateRows


def read_state(request: StateRequest, in_json: bool, master: str) -> int:
    """Print the rows; the exit code is the job's."""
    _, settings = asked_pipeline(request.pipeline, request.settings, master)
    # The result's file is for this command only: rows of state stay nowhere else.
    with TemporaryDirectory(prefix="tidemark-") as folder:
        place = {"result": str(Path(folder, "rows.json"))}
        place |= {"delta": absolute(request.delta)} if request.delta else {}
        asked = request.model_copy(update=place)
        result = run_job(StateRows, asked, settings, master, log=temporary_log())
    if result.error:
        print(f"{result.error.type}: {result.error.message}", file=sys.stderr)
        return failure_exit_code(result.error)
    if in_json:
        print(json.dumps([json.loads(row) for row in result.rows], indent=2))
    else:
        print_rows(result)
    return SUCCESS


def print_rows(result: StateRows) -> None:
    """Print the rows, and how many there are."""
    table = report_table(*result.columns)
    for text in result.rows:
        row = json.loads(text)
        table.add_row(*(_cell(row[name]) for name in result.columns))
    console = report_console()
    console.print(table)
    what = f"differ from batch {result.since:,}" if result.since is not None else "are held"
    shown = f"; {len(result.rows):,} are shown" if len(result.rows) < result.count else ""
    summary = f"{result.count:,} keys {what} after batch {result.batch:,} of {result.table}{shown}"
    console.print(summary)
    if result.delta:
        console.print(f"All of them are in the Delta table {result.delta}")


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_cell(one)}" for name, one in value.items())
    return "null" if value is None else str(value)
