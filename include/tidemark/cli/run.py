"""`tidemark run`: the steps of the pipeline's Dag, in its order, without Airflow.

1. Look whether there is anything for Spark to do; where there is nothing, no job is submitted.
2. Submit the job with `--hold`, as the Dag's stream task does; its progress passes through.
3. Read the result file that it wrote.
4. Unless the run is to be held, validate it, and publish it in this process where no check keeps
   it back; say so in the result file.
5. Print what happened.
Of several pipelines: `many.py`.
"""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.gate import published, tell_verdicts
from tidemark.cli.job import run_job
from tidemark.cli.many import Many, in_folder, run_many
from tidemark.cli.options import Master, SettingsFile, absolute, instant, kept_text
from tidemark.cli.report import print_result
from tidemark.cli.without_pandas import leave_pandas_out_of_a_run
from tidemark.pipeline.instants import epoch_ms, manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.requests import StreamRequest
from tidemark.runs.results.result import RunResult
from tidemark.sources.new_input import new_input_bytes
from tidemark.storage.duckdb_bounds import bound_memory
from tidemark.storage.root import check_root


def run(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PIPELINE",
            show_default=False,
            help="Its name, or the path of its file; or several, which share a start of Spark.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All pipelines of the folder of their files.")
    ] = False,
    due: Annotated[
        bool,
        typer.Option(
            "--due",
            help="Of that folder those whose schedule has named a time since their last run.",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Take this folder's files: all, or those that are due. Default: the settings'.",
        ),
    ] = None,
    settings: SettingsFile = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            parser=kept_text,
            help="Default: manual__ and the time.",
            show_default=False,
        ),
    ] = None,
    scheduled_time: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME",
            parser=instant,
            show_default=False,
            help="The time that the run stands for, ISO 8601 with a zone: idle sources are sealed "
            "by it. Default: now.",
        ),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="Leave publishing to `tidemark publish`.")
    ] = False,
    master: Master = "local[*]",
    result: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            show_default=False,
            help="Where the result file goes, a path or URI. Default: with the pipeline's tables.",
        ),
    ] = None,
) -> None:
    """Run pipelines once, and publish what they changed, as their Dags do.

    Spark is started only where there is something for it to do, and for several pipelines once.
    Exits with 0 when all went well, 1 when something must be mended first, 75 when running
    again can help. A run that was stopped anywhere is finished by the next one.
    """
    names = pipelines or []
    from_folder = every or due or folder is not None
    if bool(names) == from_folder:
        raise typer.BadParameter(
            "name the pipelines, or say --all, --due or --folder",
            param_hint="'PIPELINE'",
        )
    started = datetime.now(UTC)
    if len(names) != 1 and result:
        raise typer.BadParameter(
            "names the place of one result; of several pipelines each has its own, with its tables",
            param_hint="'--result'",
        )
    loaded = load_settings(settings)
    bound_memory(loaded.duckdb)
    many = Many(
        settings=loaded,
        settings_file=settings,
        run_id=run_id or manual_run_id(started),
        started=started,
        scheduled_time=scheduled_time,
        hold=hold,
        master=master,
    )
    if len(names) == 1:
        _run_one(names[0], many, result)
        return
    asked = in_folder(folder or loaded.pipelines_folder) if from_folder else names
    run_many(many, asked, only_due=due)


def _run_one(pipeline: str, asked: Many, result: str | None) -> None:
    settings, run_id, hold = asked.settings, asked.run_id, asked.hold
    found = find_pipeline(pipeline, settings)
    leave_pandas_out_of_a_run(found)
    from tidemark.quality.gate import at_once
    from tidemark.runs.preflight import SparkNeeded
    from tidemark.runs.run import Run
    from tidemark.runs.without_spark import run_without_spark
    from tidemark.storage.delta.place import shared_handles

    check_master(settings, asked.master, "--master")
    # A job would leave its result in the folder below a missing mount.
    check_root(settings)
    uri = absolute(result) if result else asked.result(found.name)
    file = asked.settings_file
    run = Run(found, settings, run_id, epoch_ms(asked.stands_for), by=asked.by)
    with shared_handles():
        then = None if hold else at_once(tell_verdicts)
        outcome = run_without_spark(run, asked.started, uri, then)
        if isinstance(outcome, SparkNeeded):
            print(f"{found.name}: Spark is started: {outcome.because}", file=sys.stderr)
            request = StreamRequest(
                pipeline=pipeline,
                settings=file,
                run_id=run_id,
                result=uri,
                hold=True,
                scheduled_time=asked.scheduled_time,
                by=asked.by,
            )
            size = new_input_bytes(found, settings)
            outcome = run_job(RunResult, request, settings, asked.master, size)
        if outcome.error is None and outcome.held and not hold:
            outcome = published(found, outcome, uri, settings)
    print_result(outcome, uri)
    if outcome.error:
        raise typer.Exit(failure_exit_code(outcome.error))
    if hold:
        named = [pipeline, "--result", uri, *(["--settings", str(file)] if file else [])]
        print(f"To publish it:\n  {shlex.join(['tidemark', 'publish', *named])}")
