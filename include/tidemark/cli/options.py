"""Arguments that several commands share, and the places that they name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.source_files import is_uri

PipelineName = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="Its name, or the path of its file.")
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        show_default=False,
        help="Default: $TIDEMARK_SETTINGS, else include/settings.yaml here or in a folder above.",
    ),
]
Master = Annotated[str, typer.Option(metavar="MASTER", help="Spark's master.")]


def absolute(place: str) -> str:
    """A place as the file interface takes it: an absolute path, or a URI as it is."""
    return place if is_uri(place) else str(Path(place).expanduser().absolute())


def check_table(pipeline: Pipeline, table: str | None) -> None:
    """BadParameter where a pipeline has no such table."""
    if table is not None and table not in pipeline.tables:
        raise typer.BadParameter(
            f"{table} is no table of {pipeline.name}, which has {', '.join(pipeline.tables)}",
            param_hint="--table",
        )


def instant(text: str) -> datetime:
    """`utc_instant` as an option's parser: typer would repeat the text, and not the reason."""
    try:
        return utc_instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
