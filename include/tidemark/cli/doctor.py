"""`tidemark doctor`: the whole set-up, looked at before the first run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.console import print_documents, report_console, report_table
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.job import run_job
from tidemark.cli.options import Master, SettingsFile
from tidemark.errors import FAILED, RETRY, TidemarkError
from tidemark.pipeline.load import load_pipelines
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.runs.requests import EngineRequest
from tidemark.runs.results.looks import EngineResult
from tidemark.storage.bucket import make_bucket
from tidemark.storage.root import why_missing
from tidemark.storage.store_check import StoreFinding, check_store


def doctor(
    settings: SettingsFile = None,
    master: Master = "local[*]",
    connection: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Take the master from this connection of Airflow's instead."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--without-spark", help="Start Spark, and look at it, too.")
    ] = True,
    make: Annotated[
        bool, typer.Option("--make-bucket", help="Make the root's bucket first, on S3.")
    ] = False,
    in_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at the whole set-up: settings, pipelines, store, Airflow's connection, Spark.

    Writes small files to folders of its own below the root, and removes them. Exits with 0 when
    all is well, 1 when something must be mended, 75 when the cause may pass.
    """
    loaded = load_settings(settings)
    if make:
        make_bucket(loaded.root, loaded.storage_options)
    findings = []
    for found in _findings(loaded, settings, master, connection, spark):
        findings.append(found)
        if found.problem is not None:
            break
    if in_json:
        print_documents([vars(found) for found in findings])
    else:
        print_findings(loaded.root, findings)
    last = findings[-1]
    if last.problem is not None:
        raise typer.Exit(RETRY if last.retry_can_help else FAILED)


def _findings(
    settings: Settings, file: Path | None, master: str, connection: str | None, spark: bool
) -> Iterator[StoreFinding]:
    """One after the other: each rests on those before."""
    yield _pipelines(settings)
    if (missing := why_missing(settings)) is not None:
        yield StoreFinding("root", settings.root, f"{missing} Mount it.", retry_can_help=True)
        return
    lease = timedelta(seconds=settings.lease_seconds)
    yield from check_store(
        settings.root, settings.storage_options, lease, lambda: datetime.now(UTC)
    )
    if connection is not None:
        found = _connection(connection)
        yield found
        master = found.told
    origin = "--master" if connection is None else f"of the connection {connection}"
    try:
        check_master(settings, master, origin)
    except TidemarkError as error:
        yield StoreFinding("master", master, str(error))
    if spark:
        yield from _engine(settings, file, master)


def _pipelines(settings: Settings) -> StoreFinding:
    """Files that are not right stop nobody else's runs, so they are told, and no problem."""
    good, bad = load_pipelines(settings.pipelines_folder)
    names = ", ".join(Path(one.file).stem for one in bad)
    invalid = f"; not valid: {names} (`tidemark validate` says why)" if bad else ""
    return StoreFinding("pipelines", f"{len(good)} in {settings.pipelines}{invalid}")


def _connection(name: str) -> StoreFinding:
    """The master of a connection, as the provider puts it together; its `told` is that alone."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "connections", "get", name, "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        return StoreFinding(
            "connection",
            name,
            f"Airflow here has no connection {name}: {' '.join(last)} Make it: airflow "
            f"connections add {name} --conn-type spark --conn-host spark://HOST --conn-port 7077",
        )
    found = json.loads(done.stdout[done.stdout.index("[") :])[0]
    if found["conn_type"] != "spark":
        return StoreFinding(
            "connection", name, f"{name} is of the type {found['conn_type']}: not spark"
        )
    port = f":{found['port']}" if found["port"] else ""
    return StoreFinding("connection", f"{found['host']}{port}")


def _engine(settings: Settings, file: Path | None, master: str) -> Iterator[StoreFinding]:
    with tempfile.TemporaryDirectory() as folder:
        result = f"{folder}/doctor.json"
        request = EngineRequest(settings=file, result=result)
        ended = run_job(EngineResult, request, settings, master)
    for line in ended.found:
        yield StoreFinding("spark", line)
    if ended.error is None:
        yield StoreFinding("spark and delta-rs", "one writes a Delta table that the other reads")
    else:
        code = failure_exit_code(ended.error)
        yield StoreFinding("spark", master, ended.error.message, retry_can_help=code == RETRY)


def print_findings(root: str, findings: Sequence[StoreFinding]) -> None:
    """Print what was looked at, a row for each check."""
    console = report_console()
    console.print(f"root {root}")
    table = report_table("", "check", "~found")
    for found in findings:
        mark = "ok" if found.problem is None else "FAILED"
        table.add_row(mark, found.check, found.problem or found.told)
    console.print(table)
