"""`tidemark status`: how pipelines stand, and what is to be done, on one screen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.exit_codes import STATES
from tidemark.cli.options import SettingsFile
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.storage.duckdb_bounds import bound_memory

if TYPE_CHECKING:
    from tidemark.runs.status.pipeline_status import PipelineStatus


def status(
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="PIPELINE",
            show_default=False,
            help="Its name, or the path of its file; all of the settings' folder where none is "
            "given.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Of all pipelines: look at everything, also at what their sources have, and not "
            "at what the last act on each has left. Takes a tenth of a second for each.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Show how pipelines stand: runs, watermark, open windows, late rows, rejects, what to do.

    Of one pipeline, also its tables and its last ten runs. Writes nothing and starts nothing. Exits
    with 0 where nothing is amiss, else from 19 on, by the pipeline that is worst off.
    """
    from tidemark.cli.status_report import print_pipeline, print_status_overview, print_statuses
    from tidemark.runs.status.recorded_status import all_statuses

    loaded, now = load_settings(settings), datetime.now(UTC)
    bound_memory(loaded.duckdb)
    statuses = (_of_one(pipeline, loaded, now),) if pipeline else all_statuses(loaded, now, full)
    if json:
        print_statuses(statuses)
    elif pipeline is None:
        print_status_overview(statuses, loaded.pipelines_folder, now)
    else:
        print_pipeline(statuses[0])
    if code := max((STATES[one.state] for one in statuses), default=0):
        raise typer.Exit(code)


def _of_one(name: str, settings: Settings, now: datetime) -> PipelineStatus:
    from tidemark.runs.status.pipeline_status import invalid_file, pipeline_status

    try:
        return pipeline_status(find_pipeline(name, settings), settings, now, with_drift=True)
    except PipelineFileInvalid as error:
        return invalid_file(error)
