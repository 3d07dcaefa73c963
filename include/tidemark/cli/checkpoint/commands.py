"""The commands of `tidemark checkpoint`: their arguments and exit codes.

Exit codes of `doctor`, the largest of several checkpoints: 0 clean end; 10 new; 11 no-data batch
due; 12 killed in a batch, which runs again; 13 in a format that is not known here; 14 damaged.
1 and 75 as everywhere: it could not be told. `housekeep` exits with 0, or with the doctor's code
where it is refused for a checkpoint.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.cli.options import SettingsFile

checkpoint = typer.Typer(
    help="Checkpoints of Spark Structured Streaming, ours or not: read, judged and kept small.",
    no_args_is_help=True,
)

Place = Annotated[
    str,
    typer.Argument(
        metavar="PATH-OR-PIPELINE",
        help="A checkpoint's folder or URI, or the name of a pipeline: then all of its.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")]


@checkpoint.command()
def inspect(place: Place, json: Json = False, settings: SettingsFile = None) -> None:
    """Show what a checkpoint holds: batches, watermark, sources, state, files."""
    # The readers of all formats, which the other commands do without.
    from tidemark.cli.checkpoint.show import show_overviews
    from tidemark.cli.checkpoint.targets import find_targets

    show_overviews(find_targets(place, settings), json)


@checkpoint.command()
def doctor(place: Place, json: Json = False, settings: SettingsFile = None) -> None:
    """Judge a checkpoint: how a query that starts on it begins, what is wrong, what to do.

    Exit codes: 0 clean end, 10 new, 11 no-data batch due, 12 killed in a batch, 13 unknown,
    14 damaged; 1 and 75 where it could not be told. Of a pipeline, the largest in use.
    """
    from tidemark.cli.checkpoint.show import show_diagnoses
    from tidemark.cli.checkpoint.targets import find_targets

    raise typer.Exit(show_diagnoses(find_targets(place, settings), json))


@checkpoint.command()
def housekeep(
    place: Place,
    apply: Annotated[
        bool, typer.Option("--apply", help="Remove what the plan says; else nothing is changed.")
    ] = False,
    keep_batches: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default=False,
            help="Of a path: how many committed batches it can be taken back to. Default: the "
            "engine's 100. A pipeline's file says it under `advanced.keep_batches`.",
        ),
    ] = None,
    json: Json = False,
    settings: SettingsFile = None,
) -> None:
    """Show what may go from a checkpoint, and with --apply remove it.

    Never what a start needs, nor what a way back to a kept batch needs. Of a pipeline, --apply
    takes the lease; of a path, let no query run. Killed and repeated, it finishes.
    """
    from tidemark.cli.checkpoint.housekeep import housekeep_place

    raise typer.Exit(housekeep_place(place, apply, keep_batches, json, settings))
