"""Pipelines with a history, and migrations of their table, for the tests of generations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.kit.running import Place, clicks, quiet, succeed
from tests.streaming.audits import audit, event
from tidemark.ledger.ledger import check_balance
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.recompute.migration_result import MigrationResult
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.requests import MigrationRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.streaming.progress import Progress

MODES = ("update", "append", "complete")


def first_of(names: Iterable[Any], shown: int = 1) -> list[Any]:
    """The first ones run always, the others with the long tests."""
    return [
        name if number < shown else pytest.param(name, marks=pytest.mark.long)
        for number, name in enumerate(names)
    ]


WINDOW: dict[str, Any] = {
    "window": {"length": "10 minutes"},
    "group_by": ["key"],
    "measures": {"events": "count(*)", "amount": "sum(amount)"},
}


def table(mode: str, **changes: Any) -> dict[str, Any]:
    unbounded = {"accept_unbounded_state": True} if mode == "complete" else {}
    return {"per_10m": WINDOW | {"output_mode": mode} | unbounded | changes}


def changed(place: Place, **changes: Any) -> Place:
    mode = place.pipeline.tables["per_10m"].output_mode
    return replace(place, content={**place.content, "tables": table(mode, **changes)})


def migrate(
    spark: SparkSession,
    place: Place,
    run_id: str = "migrate",
    dry_run: bool = False,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> MigrationResult:
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.migrate import migrate_once

    return migrate_once(
        JobAct(
            place.run(run_id, trigger="migration"),
            MigrationRequest(
                pipeline=place.name, table="per_10m", dry_run=dry_run, rebuild=rebuild
            ),
            progress or quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
        )
    )


def migrated(spark: SparkSession, place: Place, run_id: str = "migrate") -> MigrationResult:
    result = migrate(spark, place, run_id)
    assert result.error is None, result.error
    return result


class ThreeRuns(Protocol):
    """A place with a history, by output mode and state store."""

    def __call__(self, mode: str, store: str = "memory") -> Place: ...


def run_three_times(
    spark: SparkSession, root: Path, mode: str, store: str, **of_table: Any
) -> Place:
    """Three runs: late rows have corrected 10:00, and 10:50 and 11:00 are open."""
    place = Place(
        root, clicks(tables=table(mode, **of_table), advanced={"state": {"store": store}})
    )
    place.land("1.json", [event(10, m, key, m) for m in (0, 11, 22, 33, 51) for key in ("a", None)])
    succeed(spark, place, "run-1")
    place.land("2.json", [event(10, 1, "a", 100), event(10, 52, "b", 7)])
    succeed(spark, place, "run-2")
    place.land("3.json", [event(11, 3, "a", 5)])
    succeed(spark, place, "run-3")
    return place


def is_right(spark: SparkSession, place: Place) -> None:
    """Gold is the batch aggregate, and the ledger of the generation can be built again."""
    assert audit(spark, place).outcome == "equal"
    seeds = seeds_of(place.pipeline, place.warehouse)
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse, seeds))
    check_balance(place.name, lines, "")


def goes_on(spark: SparkSession, place: Place) -> None:
    """Further runs with late rows, rows for open windows, and none."""
    place.land("4.json", [event(10, 23, "a", 1_000), event(11, 4, "b", 6), event(11, 25, "a", 1)])
    succeed(spark, place, "run-4")
    place.land("5.json", [event(10, 24, "c", 9), event(12, 0, "a", 2)])
    succeed(spark, place, "run-5")
    succeed(spark, place, "run-6")
    is_right(spark, place)


def rolled_back(place: Place, run_id: str = "back") -> int:
    from tidemark.recompute.rollback import plan_rollback, roll_back

    plan = plan_rollback(place.pipeline, place.warehouse, "per_10m")
    return roll_back(plan, place.warehouse, run_id, datetime.now(UTC))
