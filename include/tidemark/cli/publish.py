"""`tidemark publish`: publish what a held run pinned, without a JVM."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.exit_codes import exit_code
from tidemark.cli.options import PipelineName, SettingsFile, absolute
from tidemark.cli.report import print_result
from tidemark.errors import NotPublishable, TidemarkError
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings import Settings, load_settings
from tidemark.tables.result import RunError, RunResult, read_result, write_result


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
    held = read_result(uri, loaded.storage_options)
    check_publishable(found, held, uri)
    published = publish_pinned(found, held, uri, loaded)
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


def publish_pinned(
    pipeline: Pipeline, result: RunResult, uri: str, settings: Settings
) -> RunResult:
    """Publish a run, and write into its result file how that went.

    An error of ours comes back in the result; any other is raised, once it is written.
    """
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from tidemark.tables.publish import publish_run

    begin, failure = time.monotonic(), None
    try:
        result = publish_run(pipeline, result, settings)
    except Exception as error:  # noqa: BLE001  whatever it is, the result file says it
        failure = error
    result = result.model_copy(
        update={
            "outcome": "failed" if failure else "succeeded",
            "error": RunError.of(failure) if failure else None,
            "seconds": {**result.seconds, "publish": round(time.monotonic() - begin, 3)},
            "ended_at": datetime.now(UTC),
        }
    )
    write_result(uri, result, settings.storage_options)
    if failure and not isinstance(failure, TidemarkError):
        raise failure
    return result


def _names(tables: Iterable[str]) -> str:
    return ", ".join(tables) or "no table"
