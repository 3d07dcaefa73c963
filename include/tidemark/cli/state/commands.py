"""The commands of `tidemark state`: their arguments and exit codes, which are those of jobs but for
`show`."""

from __future__ import annotations

import sys
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tidemark.cli.checkpoint.commands import Json, Place
from tidemark.cli.console import report_console, report_table
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.help import Group
from tidemark.cli.job import run_job
from tidemark.cli.options import (
    Apply,
    Master,
    SettingsFile,
    absolute,
    asked_pipeline,
    asks,
)
from tidemark.cli.spark_log import temporary_log
from tidemark.runs.requests import CompactionRequest, RepartitionRequest, StateRequest
from tidemark.runs.results.looks import StateRows

state = typer.Typer(
    cls=Group,
    help="State stores of Spark Structured Streaming, ours or not: sizes, chains, verdicts.",
    no_args_is_help=True,
)


@state.command("show")
def show_state(place: Place, json: Json = False, settings: SettingsFile = None) -> None:
    """Show the state of a query: versions, sizes, what the next start replays, a verdict.

    Exit codes: 0 healthy, 10 due for compaction, 11 overdue, 13 unknown, 14 cannot be rebuilt;
    1 and 75 where it could not be told. Of a pipeline, the largest in use.
    """
    from tidemark.cli.checkpoint.targets import find_targets
    from tidemark.cli.state.show import show_states

    raise typer.Exit(show_states(find_targets(place, settings), json))


@state.command()
@asks(CompactionRequest)
def compact(
    request: CompactionRequest,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write the snapshots; else nothing is changed.")
    ] = False,
    json: Json = False,
    master: Master = "local[*]",
) -> None:
    """Show which state is due for compaction, and with --apply write new snapshots of it.

    Only --apply starts Spark, and takes the pipeline's lease. The state is read before and after:
    where it is not the same, the new snapshots go again. Killed and repeated, it finishes.
    """
    from tidemark.cli.state.compact import compact_pipeline

    raise typer.Exit(compact_pipeline(request, apply, json, master))


@state.command()
@asks(RepartitionRequest)
def repartition(
    request: RepartitionRequest,
    apply: Apply = False,
    json: Json = False,
    master: Master = "local[*]",
) -> None:
    """Bring RocksDB's state to another number of partitions, without a new generation.

    Only --apply starts Spark, and takes the pipeline's lease. The state is read before and after:
    where it is not the same, it stays as it was. Killed in the middle, no run starts until the
    same command does the rest. Then `advanced.shuffle_partitions` can say the number.
    """
    from tidemark.cli.state.repartition import repartition_pipeline

    repartition_pipeline(request, apply, json, master)


@state.command("read")
@asks(StateRequest, arguments=("table",))
def read_state_rows(request: StateRequest, json: Json = False, master: Master = "local[*]") -> None:
    """Show what a table's query remembers, key by key. Starts Spark, and changes nothing."""
    _, settings = asked_pipeline(request.pipeline, request.settings, master)
    # The result's file is for this command only: rows of state stay nowhere else.
    with TemporaryDirectory(prefix="tidemark-") as folder:
        place = {"result": str(Path(folder, "rows.json"))}
        place |= {"delta": absolute(request.delta)} if request.delta else {}
        asked = request.model_copy(update=place)
        result = run_job(StateRows, asked, settings, master, log=temporary_log())
    if result.error:
        print(f"{result.error.type}: {result.error.message}", file=sys.stderr)
        raise typer.Exit(failure_exit_code(result.error))
    if json:
        print(dumps([loads(row) for row in result.rows], indent=2))
    else:
        print_rows(result)


def print_rows(result: StateRows) -> None:
    """Print the rows, and how many there are."""
    table = report_table(*result.columns)
    for text in result.rows:
        row = loads(text)
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
