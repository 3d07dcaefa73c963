"""`tidemark publish`: publish what a held run pinned, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from tidemark.cli.exit_codes import exit_code
from tidemark.cli.options import PipelineName, SettingsFile, absolute
from tidemark.cli.report import print_result
from tidemark.errors import NotPublishable
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings import load_settings
from tidemark.tables.result import RunResult
from tidemark.tables.result_file import read_result


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
    check_publishable(found, held, uri)
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from tidemark.tables.publish import publish_and_record

    published = publish_and_record(found, held, uri, loaded)
    print_result(published, uri)
    if published.error:
        raise typer.Exit(exit_code(published.error))


def check_publishable(pipeline: Pipeline, result: RunResult, uri: str) -> None:
    """A run can be published when it pinned every table, even if an earlier publish failed."""
    if result.pipeline != pipeline.name:
        raise NotPublishable(
            f"{uri} is the result of a run of `{result.pipeline}`, not of `{pipeline.name}`. "
            "Nothing was published. Name the pipeline that ran."
        )
    if result.tables.keys() != pipeline.tables.keys():
        cause = f", which failed with {result.error.type}," if result.error else ""
        raise NotPublishable(
            f"The run {result.run_id}{cause} pinned {_names(result.tables)}, and the pipeline "
            f"`{pipeline.name}` has {_names(pipeline.tables)}. Nothing was published. Run the "
            "pipeline again: that run publishes what this one left as well."
        )


def _names(tables: Iterable[str]) -> str:
    return ", ".join(tables) or "no table"
