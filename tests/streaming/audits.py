"""Audits and backfills of a test's place, in the warm session, and hand-made damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from tests.kit.running import Place, quiet
from tests.kit.windows import at
from tidemark.upkeep.accept_changes import accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.runs.acceptance import CheckOverride
from tidemark.recompute.audit_result import AuditResult
from tidemark.recompute.backfill_result import BackfillResult
from tidemark.runs.requests import AuditRequest, BackfillRequest


def event(hour: int, minute: int, key: str | None = "a", amount: int = 1) -> dict[str, Any]:
    return {"at": at(hour, minute).isoformat(), "key": key, "amount": amount}


def audit(
    spark: SparkSession,
    place: Place,
    start: datetime | None = None,
    end: datetime | None = None,
) -> AuditResult:
    """An audit that could tell."""
    from tidemark.streaming.jobs.audit import audit_once

    result = audit_once(
        place.run("audit", trigger="audit"),
        AuditRequest(pipeline=place.name, start=start, end=end),
        quiet(),
        datetime.now(UTC),
        session=lambda *_: spark,
    )
    assert result.error is None, result.error
    return result


def accept_by_hand(place: Place) -> None:
    """Runs stop at a change of bronze that is not theirs until somebody accepts it."""
    accept_changes(place.pipeline, place.settings, "accepted", "a correction", "somebody")


def backfill_warm(
    spark: SparkSession,
    place: Place,
    start: datetime,
    end: datetime,
    dry_run: bool = False,
    run_id: str = "backfill",
    table: str = "per_10m",
    accepted: CheckOverride | None = None,
    reason: str | None = None,
) -> BackfillResult:
    """A backfill, whatever comes of it."""
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.backfill import backfill_once

    return backfill_once(
        JobAct(
            place.run(run_id, trigger="backfill"),
            BackfillRequest(
                pipeline=place.name,
                table=table,
                start=start,
                end=end,
                dry_run=dry_run,
                accept=accepted is not None,
                reason=accepted.reason if accepted else reason,
                by=accepted and accepted.by,
            ),
            quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
            on_lapse=lambda lost: None,
        )
    )


def backfill(
    spark: SparkSession, place: Place, start: datetime, end: datetime, **options: Any
) -> BackfillResult:
    """A backfill that must succeed."""
    result = backfill_warm(spark, place, start, end, **options)
    assert result.error is None, result.error
    return result


def gold_of(place: Place, table: str = "per_10m") -> DeltaTable:
    return DeltaTable(place.places.gold(table))


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file, by its path."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@contextmanager
def nothing_written(root: Path) -> Iterator[None]:
    """Fails where any file below the root is new, changed or gone afterwards."""
    before = files_below(root)
    yield
    assert files_below(root) == before
