"""The command of `tidemark state`: its arguments and exit codes.

Exit codes, the largest of several checkpoints: 0 healthy, also where there is no state; 10 due for
compaction; 11 overdue; 13 in a format that is not known here; 14 cannot be rebuilt. 1 and 75 as
everywhere: it could not be told.
"""

from __future__ import annotations

import typer

from tidemark.cli.checkpoint.commands import Json, Place
from tidemark.cli.options import SettingsFile

state = typer.Typer(
    help="State stores of Spark Structured Streaming, ours or not: sizes, chains, verdicts.",
    no_args_is_help=True,
)


@state.callback()
def _named() -> None:
    """Typer takes the only command of a group for the group itself without this."""


@state.command()
def show(place: Place, json: Json = False, settings: SettingsFile = None) -> None:
    """Show the state of a query: versions, sizes, what the next start replays, a verdict.

    Exit codes: 0 healthy, 10 due for compaction, 11 overdue, 13 unknown, 14 cannot be rebuilt;
    1 and 75 where it could not be told. Of a pipeline, the largest in use.
    """
    # The readers of all formats, which the other commands do without.
    from tidemark.cli.checkpoint.targets import find_targets
    from tidemark.cli.state.show import show_states

    raise typer.Exit(show_states(find_targets(place, settings), json))
