"""`tidemark state repartition`: what would be done, and with `--apply` the job that does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import typer

from tidemark.cli.console import print_lines
from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import asked_pipeline
from tidemark.runs.requests import NO_REASON_TO_REPARTITION, RepartitionRequest
from tidemark.runs.results.repartition_result import RepartitionResult, repartition_lines
from tidemark.runs.unfinished_act import ActKind, check_no_unfinished_act
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_repartition import (
    PlannedRepartition,
    plan_repartitions,
    queries_of_act,
)


def repartition_pipeline(
    request: RepartitionRequest, apply: bool, in_json: bool, master: str
) -> None:
    """Print what would be done; with `apply`, have it done and print the result. typer.Exit where
    that failed."""
    pipeline, settings = asked_pipeline(request.pipeline, request.settings, master)
    if apply and not (request.reason or "").strip():
        raise typer.BadParameter(NO_REASON_TO_REPARTITION)
    warehouse = Warehouse.of(pipeline.name, settings)
    begun = check_no_unfinished_act(warehouse, ActKind.REPARTITION if apply else None)
    if begun is None:
        planned = plan_repartitions(pipeline, warehouse, settings, request, datetime.now(UTC))
        if not apply:
            print_lines(planned_lines(planned, request.partitions))
            return
    else:
        queries_of_act(begun, pipeline, warehouse, request)
    outcome = run_with_tables(
        RepartitionResult, request, pipeline, settings, master, request.kind, request.kind
    )
    end_with(outcome, repartition_lines(outcome), in_json)


def planned_lines(planned: Sequence[PlannedRepartition], partitions: int) -> Iterator[str]:
    """Whose state would get other partitions."""
    for one in planned:
        yield f"{one.query.name}: {one.plan.partitions:,} partitions would become {partitions:,}"
    yield "Nothing was changed: --apply does it."
