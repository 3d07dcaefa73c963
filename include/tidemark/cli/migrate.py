"""`tidemark migrate`: a table's next generation, by a job of Spark's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import Master, PipelineName, SettingsFile, asked_pipeline, kept_text
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.acceptance import check_may, this_user
from tidemark.runs.requests import MigrationRequest


def migrate(
    pipeline: PipelineName,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The table. Default: each that the file changes."),
    ] = None,
    settings: SettingsFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compute and compare; write nothing.")
    ] = False,
    rebuild: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Begin a generation of a table that has not changed."),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help=MigrationRequest.about("accept"))
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", parser=kept_text, help=MigrationRequest.about("reason")),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", parser=kept_text, help=MigrationRequest.about("by")),
    ] = None,
    rollback: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Go back to the generation before, as it was."),
    ] = None,
    master: Master = "local[*]",
) -> None:
    """Take a changed pipeline file: each table that it changes begins a generation, from bronze.

    All windows are computed again, and take the place of gold's in one commit; runs go on from
    there. Exits with 0 when all went well, 1 when something must be mended first, 75 when running
    again can help: gold is then as it was.
    """
    from tidemark.recompute.migration_result import MigrationResult, migration_lines
    from tidemark.recompute.table_change import changed_tables

    found, loaded = asked_pipeline(pipeline, settings, master)
    if accept and not (reason or "").strip():
        raise typer.BadParameter("--accept and --reason go together")
    if rollback is not None:
        _roll_back(found, loaded, rollback, dry_run, by or this_user(), reason)
        return
    tables = [one for one in (rebuild, table) if one] or list(changed_tables(found, loaded))
    if unknown := [name for name in tables if name not in found.tables]:
        raise typer.BadParameter(f"{unknown[0]} is no table of {found.name}")
    if not tables:
        print(f"{found.name}: nothing to migrate: no table's query has changed")
    for name in tables:
        request = MigrationRequest(
            pipeline=pipeline,
            table=name,
            settings=settings,
            dry_run=dry_run,
            rebuild=name == rebuild,
            accept=accept,
            reason=reason,
            by=by,
        )
        outcome = run_with_tables(MigrationResult, request, found, loaded, master)
        end_with(outcome, migration_lines(outcome))


def _roll_back(
    pipeline: Pipeline, settings: Settings, table: str, dry_run: bool, by: str, reason: str | None
) -> None:
    """No Spark: gold's files of before are still there."""
    from tidemark.recompute.rollback import plan_rollback, record_rollback, roll_back
    from tidemark.runs.generations import ROLLBACK
    from tidemark.runs.pipeline_lease import pipeline_lease
    from tidemark.runs.reads_others import note_reader_of
    from tidemark.storage.warehouse import Warehouse

    if table not in pipeline.tables:
        raise typer.BadParameter(f"{table} is no table of {pipeline.name}")
    warehouse = Warehouse.of(pipeline.name, settings)
    if dry_run:
        print("\n".join(plan_rollback(pipeline, warehouse, table).lines()))
        print("dry run: nothing was written")
        return
    check_may(settings, "migrate", by)
    started = datetime.now(UTC)
    run_id = manual_run_id(started)
    with pipeline_lease(pipeline, settings, run_id, ROLLBACK) as lease:
        fenced = warehouse.fenced(lease.check)
        plan = plan_rollback(pipeline, fenced, table)
        # From here on others keep what it needs of them; until now they may have dropped it.
        note_reader_of(settings, pipeline.name, table, plan.operator)
        plan = plan_rollback(pipeline, fenced, table)
        version = roll_back(plan, fenced, run_id, started)
        record_rollback(plan, fenced, run_id, started, datetime.now(UTC), by, reason)
    print("\n".join(plan.lines()))
    print(f"gold is at version {version}. The next run wants the file as it was before:")
    print(f"  {warehouse.places.contract(table, plan.before.generation)}")
