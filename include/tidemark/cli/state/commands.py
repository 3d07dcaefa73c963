"""The commands of `tidemark state`: their arguments and exit codes.

Exit codes of `show`, the largest of several checkpoints: 0 healthy, also where there is no state;
10 due for compaction; 11 overdue; 13 in a format that is not known here; 14 cannot be rebuilt; 1
and 75 as everywhere: it could not be told. The other commands exit as jobs do.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.cli.checkpoint.commands import Json, Place
from tidemark.cli.help import Group
from tidemark.cli.options import Master, SettingsFile, asks
from tidemark.runs.requests import CompactionRequest, StateRequest

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


@state.command("read")
@asks(StateRequest, arguments=("table",))
def read_state_rows(request: StateRequest, json: Json = False, master: Master = "local[*]") -> None:
    """Show what a table's query remembers, key by key. Starts Spark, and changes nothing."""
    from tidemark.cli.state.read import read_state

    raise typer.Exit(read_state(request, json, master))
