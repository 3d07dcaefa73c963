"""`tidemark publish`: publish what a held run pinned, without a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.cli.exit_codes import exit_code
from tidemark.cli.options import PipelineName, SettingsFile, absolute
from tidemark.cli.report import print_result
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.settings import load_settings
from tidemark.tables.results.result import RunResult
from tidemark.tables.results.result_file import read_result


def publish(
    pipeline: PipelineName,
    result: Annotated[
        str, typer.Option(metavar="URI", help="The run's result file, a path or URI.")
    ],
    settings: SettingsFile = None,
) -> None:
    """Publish what a held run pinned in its result file.

    Safe to repeat: what is published already is left alone. Exits as `tidemark run` does.
    """
    loaded = load_settings(settings)
    found = find_pipeline(pipeline, loaded)
    uri = absolute(result)
    held = read_result(RunResult, uri, loaded.storage_options)
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from tidemark.tables.publishing.publish import publish_and_record

    published = publish_and_record(found, held, uri, loaded)
    print_result(published, uri)
    if published.error:
        raise typer.Exit(exit_code(published.error))
