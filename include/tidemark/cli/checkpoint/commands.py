"""The commands of `tidemark checkpoint`: their arguments and exit codes.

`housekeep` exits with 0, or with the doctor's code where it is refused for a checkpoint; `rewind`,
`repair` and `restore` exit with 1 where they are.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.cli.help import Group
from tidemark.cli.options import ApplyPlan, SettingsFile

checkpoint = typer.Typer(
    cls=Group,
    help="Checkpoints of Spark Structured Streaming, ours or not: read, judged, kept small, "
    "repaired and taken back.",
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


Path_ = Annotated[
    str, typer.Argument(metavar="PATH", help="A checkpoint's folder or URI, of any query.")
]
SinkOption = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar="SINK",
        show_default=False,
        help="What the query writes to: delta:URI, files:URI (a file sink), or other.",
    ),
]
BackupOption = Annotated[
    str | None,
    typer.Option(
        "--backup",
        metavar="FOLDER",
        show_default=False,
        help="Where to copy all before. Default: beside the checkpoint, with the time in its name.",
    ),
]
Stopped = Annotated[
    bool,
    typer.Option("--stopped", help="No query works on it, though a batch was planned just now."),
]


@checkpoint.command()
def rewind(
    path: Path_,
    to_batch: Annotated[
        int, typer.Option(metavar="N", min=0, help="The batch after whose end a query goes on.")
    ],
    sink: SinkOption = None,
    backup: BackupOption = None,
    stopped: Stopped = False,
    apply: ApplyPlan = False,
    json: Json = False,
    settings: SettingsFile = None,
) -> None:
    """Show how a checkpoint goes back to the end of a batch, with its sink, and with --apply do it.

    Refused, with the reason, where a query could not go on from there, or where rows would be
    lost. A backup is made first; killed and repeated, it finishes.
    """
    from tidemark.cli.checkpoint.take_back import TakeBackRequest, rewind_place

    raise typer.Exit(
        rewind_place(TakeBackRequest(path, sink, backup, stopped, apply, json, settings), to_batch)
    )


@checkpoint.command()
def repair(
    path: Path_,
    sink: SinkOption = None,
    backup: BackupOption = None,
    stopped: Stopped = False,
    apply: ApplyPlan = False,
    json: Json = False,
    settings: SettingsFile = None,
) -> None:
    """Show how a damaged checkpoint can be repaired without loss, and with --apply do it.

    Where a batch has to run again, the checkpoint and its sink go back as by `rewind`. What cannot
    be repaired is told with what is at risk.
    """
    from tidemark.cli.checkpoint.take_back import TakeBackRequest, repair_place

    raise typer.Exit(
        repair_place(TakeBackRequest(path, sink, backup, stopped, apply, json, settings))
    )


@checkpoint.command()
def restore(
    backup: Annotated[
        str, typer.Argument(metavar="BACKUP", help="The folder or URI that a rewind printed.")
    ],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            show_default=False,
            help="The checkpoint that it is of, where the backup does not lie beside it.",
        ),
    ] = None,
    sink: SinkOption = None,
    stopped: Stopped = False,
    apply: ApplyPlan = False,
    json: Json = False,
    settings: SettingsFile = None,
) -> None:
    """Show how a backup brings a checkpoint and its sink back, and with --apply do it.

    Nothing is changed in a place that the command does not name; the plan says what to add.
    """
    from tidemark.cli.checkpoint.take_back import TakeBackRequest, restore_place

    raise typer.Exit(
        restore_place(TakeBackRequest(checkpoint, sink, backup, stopped, apply, json, settings))
    )
