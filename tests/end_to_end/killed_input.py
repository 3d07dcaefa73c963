"""The input of the runs that tests kill: a pipeline of three output modes, and all kinds of rows.

Event times count from two days ago, because the batch's time is the wall clock: what is too old
or lies in the future is so for as long as the tests take.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import Place, clicks, query
from tidemark.checkpoint.log import Checkpoint
from tidemark.storage.delta.fence import fence_tables
from tidemark.upkeep.checkpoints_in_use import InUse
from tidemark.upkeep.record import HOUSEKEEPING, append_upkeep, row_head

NOW = datetime.now(UTC)
DAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
OLD = DAY - timedelta(days=8)
DELAY_MS = 10 * 60_000

TABLES: dict[str, Any] = {
    "updated": {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", "amount": "sum(amount)"},
    },
    "appended": {
        "window": {"length": "1 hour", "slide": "30 minutes"},
        "measures": {"largest": "max(amount)"},
        "output_mode": "append",
    },
    "completed": {
        "window": {"length": "30 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", "smallest": "min(amount)"},
        "output_mode": "complete",
        "accept_unbounded_state": True,
    },
}
COLUMNS = {"at": "timestamp", "key": "string", "amount": "long", "id": "string"}
KEYS = {name: ("window_start", *table.get("group_by", [])) for name, table in TABLES.items()}


def content(keep: bool = False, **columns: str) -> dict[str, Any]:
    source = clicks()["source"] | {
        "columns": COLUMNS | columns,
        "unique": {"by": "id", "within": "1 day"},
    }
    watermark = {"delay": "10 minutes", "seal_after_idle": "30 minutes"}
    # Maintenance alone drops rejects, which are older by then.
    kept = {"keep_rejects": "1 second"} | ({"keep": "5 days"} if keep else {})
    return clicks(source=source, watermark=watermark, tables=TABLES, **kept)


def with_measure(table: str, **measures: str) -> dict[str, Any]:
    """The content with other measures of a table."""
    changed = TABLES[table] | {"measures": TABLES[table]["measures"] | measures}
    return content() | {"tables": TABLES | {table: changed}}


def row(hour: int, minute: int, key: str | None, amount: int | str, **more: Any) -> dict[str, Any]:
    at = DAY + timedelta(hours=hour, minutes=minute)
    return {"at": at.isoformat(), "key": key, "amount": amount} | more


def first_rows() -> list[dict[str, Any] | str]:
    """Rows of two dates; the newest but ten minutes closes windows up to 10:38."""
    old = [{"at": (OLD + timedelta(hours=h)).isoformat(), "key": "a", "amount": h} for h in (1, 2)]
    rows = [row(10, m, key, m) for m in range(0, 49, 4) for key in ("a", "b", None)]
    return [*old, *rows, row(10, 41, "a", 1, id="first"), "not JSON"]


def land_first(place: Place) -> None:
    place.land("1.json", first_rows())


def land_second(place: Place) -> None:
    """Rows that change open windows, open and close others, or are late; and a reject of each
    kind: malformed, wrong type, future, too old, duplicates of this batch and of one before."""
    place.content = content(keep=True)
    place.land(
        "2.json",
        [
            *(row(10, m, "a", 1_000 + m) for m in range(39, 60)),
            row(11, 1, "a", 2, id="twice"),
            '{"at": "2026-07-01T10:59:00Z", "key": "cut',
            row(11, 5, "a", "many"),
        ],
    )
    place.land(
        "3.json",
        [
            row(11, 45, "b", 7),
            # Late for each table, and below or above what its windows hold.
            row(10, 1, "b", 90),
            row(10, 2, "a", -1),
            row(11, 2, "b", 2, id="twice"),
            row(10, 42, "b", 1, id="first"),
            {"at": (OLD + timedelta(hours=1)).isoformat(), "key": "too old", "amount": 1},
            {"at": "9999-12-31T00:00:00Z", "key": "future", "amount": 1},
            {"at": (NOW + timedelta(hours=12)).isoformat(), "key": "future", "amount": 1},
        ],
    )


def land_third(place: Place) -> None:
    """What arrives between a kill and the next run."""
    place.land("4.json", [row(12, 30, "b", 5), row(10, 3, "b", 91), "not JSON either"])


def land_with_column(place: Place) -> None:
    land_second(place)
    place.content = content(keep=True, page="string")
    place.land("page.json", [row(11, 46, "b", 8, page="/")])


def land_with_expectation(place: Place) -> None:
    land_second(place)
    asked = {"ExpectTableRowCountToBeBetween": {"min_value": 1}}
    checked = TABLES["updated"] | {"checks": [{"fail": asked}, {"warn": "events > 0"}]}
    place.content = content(keep=True) | {"tables": TABLES | {"updated": checked}}


def nothing(place: Place) -> None:
    place.content = content(keep=True)


def keep_one_batch(place: Place) -> None:
    """So that there is much to remove."""
    one = {"keep_batches": 1, "spark": {"spark.sql.streaming.minBatchesToRetain": "1"}}
    place.content = content(keep=True) | {"advanced": one}


def grow_old(place: Place) -> None:
    """A long log, rows of long ago, and a file that a killed writer left long ago."""
    nothing(place)
    for _ in range(10):
        fence_tables([place.warehouse.bronze], 1)
    # delta-rs writes one by itself with the tenth commit.
    for checkpoint in Path(place.places.bronze, "_delta_log").glob("*checkpoint*"):
        checkpoint.unlink()
    long_ago = NOW - timedelta(days=100)
    head = row_head(
        place.name, "old", long_ago, HOUSEKEEPING, InUse("ingest", None, Checkpoint(""))
    )
    append_upkeep(place.warehouse.upkeep, [head])
    append_upkeep(place.warehouse.upkeep, [head | {"time": NOW}])
    left = Path(place.places.bronze, "BATCH-1", "part-0.parquet")
    left.parent.mkdir()
    left.write_bytes(b"12345")
    os.utime(left, (long_ago.timestamp(), long_ago.timestamp()))


def falsify_gold(place: Place) -> None:
    """Change a closed window, as an error would that a backfill mends."""
    nothing(place)
    gold, day = DeltaTable(place.places.gold("updated")), f"window_date = '{DAY:%Y-%m-%d}'"
    rows = gold.to_pyarrow_dataset().to_table()
    wanted = query(
        f"SELECT * REPLACE (CASE WHEN window_start = TIMESTAMPTZ '{DAY + timedelta(hours=10)}' "
        f"THEN amount + 1 ELSE amount END AS amount) FROM gold WHERE {day}",
        gold=rows,
    )
    values = [dict(zip(rows.column_names, row, strict=True)) for row in wanted]
    table = pa.Table.from_pylist(values, rows.schema)
    write_deltalake(gold, table, mode="overwrite", predicate=day)


REASONS = {"malformed", "wrong type", "future", "too old", "duplicate"}
MORNING = DAY + timedelta(days=1)
LATER = MORNING + timedelta(hours=2)
