"""`tidemark publish`: validate and publish what a held run pinned, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.gate import validated
from tidemark.cli.options import (
    PipelineName,
    SettingsFile,
    absolute,
    asked_acceptance,
    kept_text,
)
from tidemark.cli.report import print_result
from tidemark.pipeline.load import find_pipeline
from tidemark.quality.verdicts import verdict_line
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result


def publish(
    pipeline: PipelineName,
    result: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            show_default=False,
            help="The run's result file, a path or URI. Default: that of the newest run.",
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish in spite of the checks that failed.")
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", show_default=False, parser=kept_text, help="Why; kept in ops/quality."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="USER@HOST",
            parser=kept_text,
            help="Who accepts; kept in ops/quality.",
        ),
    ] = None,
    master: Annotated[
        str, typer.Option(metavar="MASTER", hidden=True, help="Of earlier versions: no Spark here.")
    ] = "local[*]",
    settings: SettingsFile = None,
) -> None:
    """Publish what a held run pinned in its result file, where its checks allow it.

    With --accept the checks that failed when the run was validated are overridden, and that is
    recorded. Safe to repeat: what is published already is left alone. Exits as `tidemark run` does.
    """
    accepted, loaded = asked_acceptance(accept, reason, by, settings)
    found = find_pipeline(pipeline, loaded)
    from tidemark.quality.gate import accept as accept_failures
    from tidemark.runs.publish_held import publish_and_record
    from tidemark.runs.results.newest_result import held_run

    if result:
        uri = absolute(result)
        held = read_result(RunResult, uri, loaded.storage_options)
    else:
        uri, held = held_run(found.name, loaded)
    if accepted:
        for verdict in accept_failures(found, held, loaded, accepted, datetime.now(UTC)):
            print(f"overridden: {verdict_line(verdict)}")
    else:
        held = validated(found, held, uri, loaded)
        if held.error:
            print_result(held, uri)
            raise typer.Exit(failure_exit_code(held.error))
    published = publish_and_record(found, held, uri, loaded)
    print_result(published, uri)
    if published.error:
        raise typer.Exit(failure_exit_code(published.error))
