"""A pipeline as runs leave it, without Spark: rows in `ops/`, bronze, and a published table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import write_deltalake

from tests.kit.running import Place
from tests.kit.windows import Windows, at, millis, window
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.housekeeping.plan import FileKind, HousekeepingPlan, Share
from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.pins import Late, TableResult
from tidemark.runs.recorded_runs import record_run
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.rows import Rows
from tidemark.storage.result_file import RunError
from tidemark.upkeep.checkpoints_in_use import InUse
from tidemark.upkeep.record import STATE_CHECK, Kept, append_upkeep, record_upkeep, row_head

BEGAN = at(12)
TABLE = TableResult(
    generation=1,
    changes=1,
    inputs={"bronze": 1},
    windows_changed=3,
    watermark_before_ms=0,
    watermark_after_ms=millis(at(10, 40)),
    close_before_ms=0,
    close_after_ms=millis(at(10, 40)),
    late=Late(rows=2, partly=1, recomputed=2, corrected=1),
    gold=1,
    published_windows=3,
)


def ended(
    place: Place,
    run_id: str = "run",
    began: datetime = BEGAN,
    error: Exception | None = None,
    held: bool = False,
    trigger: str = "manual",
    late: Late = TABLE.late,
    seconds: float = 6,
    others: Mapping[str, Late] | None = None,
    dag: str | None = None,
) -> None:
    """A run's row in `ops/runs`, as a run writes it at its end; `others` are further tables."""
    unpublished: dict[str, Any] = {"gold": None, "published_windows": None} if held else {}
    result = RunResult(
        pipeline=place.name,
        run_id=run_id,
        outcome="failed" if error else "succeeded",
        held=held,
        trigger=trigger,
        scheduled_at=began,
        started_at=began,
        ended_at=began + timedelta(seconds=seconds),
        rows=Rows(read=1_000, accepted=988, rejected={"malformed": 10, "future": 2}),
        tables={
            name: TABLE.model_copy(update={"late": one} | unpublished)
            for name, one in {"per_10m": late, **(others or {})}.items()
        },
        error=RunError.of(error) if error else None,
        dag=dag,
    )
    record_run(place.warehouse.runs, result)


def windows_of(place: Place) -> Windows:
    """The pipeline's table: two closed windows and an open one."""
    windows = place.windows()
    windows.change(*(window(at(10, minute), key="a", total=1) for minute in (10, 20, 40)))
    windows.publish(windows.pin(at(10, 40), bronze=0))
    begun(place)
    return windows


def begun(place: Place) -> None:
    """Its queries have begun, as those of every table that was published have."""
    for checkpoint in (place.places.ingest_checkpoint, place.places.query_checkpoint("per_10m", 1)):
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        Path(checkpoint, "metadata").write_text(json.dumps({"id": str(uuid4())}))


def bronze(place: Place, *events: datetime) -> None:
    """Accepted rows with these event times."""
    rows = pa.table(
        {
            "at": pa.array(events, pa.timestamp("us", "UTC")),
            "_event_date": pa.array([event.date() for event in events]),
        }
    )
    write_deltalake(place.places.bronze, rows, mode="append", partition_by=["_event_date"])


def housekept(place: Place, time: datetime, **state: int) -> None:
    """A housekeeping of each table's checkpoint, with the bytes of state that it left."""
    kept = [
        Kept(
            InUse(table, 1, Checkpoint(f"{place.places.checkpoints}/{table}/1")),
            HousekeepingPlan(
                "",
                CheckpointVerdict.CLEAN_END,
                range(2),
                (
                    Share(FileKind.STATE, 4, left + 7, ("1.delta",), 7),
                    Share(FileKind.OFFSETS, 2, 300),
                ),
            ),
        )
        for table, left in state.items()
    ]
    record_upkeep(place.warehouse.upkeep, place.name, "run", time, kept)


def checked(place: Place, time: datetime, *stores: int) -> None:
    """A state check that found stores of these bytes."""
    query = InUse("per_10m", 1, Checkpoint(""))
    head = row_head(place.name, "run", time, STATE_CHECK, query) | {"verdict": "healthy"}
    append_upkeep(place.warehouse.upkeep, [head | {"state": {"bytes": size}} for size in stores])
