"""`tidemark state read`: have a job read a table's state, and print its rows."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.cli.console import report_console, report_table
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_job
from tidemark.cli.options import absolute
from tidemark.cli.spark_log import temporary_log
from tidemark.errors import SUCCESS
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.runs.results.state_rows import StateRows

_JOB = "tidemark.streaming.jobs.read_state"


@dataclass(frozen=True)
class StateRequest:
    """Which rows of the state of which table, as the command line says it."""

    pipeline: str
    table: str
    batch: int | None
    since: int | None
    where: str | None
    side: str | None
    delta: str | None
    limit: int

    @property
    def arguments(self) -> list[str]:
        """For the job."""
        words = ["--pipeline", self.pipeline, "--table", self.table, f"--limit={self.limit}"]
        given = {
            "batch": self.batch,
            "since": self.since,
            "where": self.where,
            "side": self.side,
            "delta": self.delta and absolute(self.delta),
        }
        return words + [f"--{name}={value}" for name, value in given.items() if value is not None]


def read_state(request: StateRequest, in_json: bool, file: Path | None, master: str) -> int:
    """Print the rows; the exit code is the job's."""
    settings = load_settings(file)
    find_pipeline(request.pipeline, settings)
    check_master(settings, master, "--master")
    result = _read(request, settings, file, master)
    if result.error:
        print(f"{result.error.type}: {result.error.message}", file=sys.stderr)
        return failure_exit_code(result.error)
    if in_json:
        print(json.dumps([json.loads(row) for row in result.rows], indent=2))
    else:
        print_rows(result)
    return SUCCESS


def _read(request: StateRequest, settings: Settings, file: Path | None, master: str) -> StateRows:
    """Its file is for this command only: rows of state stay nowhere else."""
    with TemporaryDirectory(prefix="tidemark-") as folder:
        uri = str(Path(folder, "rows.json"))
        given = ["--settings", str(file)] if file else []
        arguments = [*request.arguments, *given, "--result", uri]
        log = temporary_log()
        return run_job(StateRows, _JOB, uri, settings, master, arguments, log=log)


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
