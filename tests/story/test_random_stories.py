"""Stories of random rows of a pipeline that had everything: late rows, a held run whose result
nobody published, a seal, a backfill, a rewind and a migration. DuckDB over bronze, the feeds of
`changes` and each version of gold says the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import migrated, table
from tests.kit.rewinding import rewound
from tests.kit.running import Place, clicks, succeed
from tests.streaming.audits import accept_by_hand, audit, backfill_warm
from tidemark.operators.repaired import NOT_OF_GOLD
from tidemark.runs.generations import generations
from tidemark.story.explain import story_of
from tidemark.story.story import Story

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEED = 47
TABLE = "per_10m"
START = datetime(2026, 7, 1, tzinfo=UTC)
WINDOW, MINUTE = timedelta(minutes=10), timedelta(minutes=1)
KEYS = ("a", "b", None)
STORIES = 24
Name = tuple[datetime, str | None]


def rows_of(chance: Random, until: int) -> list[Any]:
    """Rows up to a minute, some of them late, some that are rejected."""
    found: list[Any] = []
    for _ in range(30):
        back = chance.choice([0, 0, 0, chance.randint(0, 90)])
        when = START + max(until - back - chance.random() * 10, 0) * MINUTE
        amount = "many" if chance.random() < 0.1 else chance.randint(1, 9)
        found.append({"at": when.isoformat(), "key": chance.choice(KEYS), "amount": amount})
    return [*found, {"at": (START + until * MINUTE).isoformat(), "key": "a", "amount": 1}]


def all_that_happens(spark: SparkSession, root: Path) -> Place:
    chance = Random(SEED)
    watermark = {"delay": "10 minutes", "seal_after_idle": "30 minutes"}
    place = Place(root, clicks(tables=table("update"), watermark=watermark))

    def run(name: str, until: int, hold: bool = False) -> None:
        place.land(f"{name}.json", rows_of(chance, until))
        succeed(spark, place, name, hold=hold, scheduled=START + until * MINUTE)

    for number in range(1, 5):
        run(f"run-{number}", 25 * number)
    run("held", 115, hold=True)
    run("after", 130)
    damaged = place.warehouse.gold(TABLE).existing()
    damaged.delete("key = 'a' AND status <> 'provisional'")
    accept_by_hand(place)
    result = backfill_warm(spark, place, START, START + timedelta(hours=1), table=TABLE)
    assert result.error is None, result.error
    run("undone", 145)
    rewound(spark, place, "after")
    run("anew", 160)
    # The source is idle.
    succeed(spark, place, "idle", scheduled=START + timedelta(days=1))
    assert "provisional" not in place.gold(TABLE).column("status").to_pylist()
    more = {"most": "max(amount)", "events": "count(*)", "amount": "sum(amount)"}
    place = replace(
        place, content=clicks(tables=table("update", measures=more), watermark=watermark)
    )
    migrated(spark, place)
    place.land("last.json", rows_of(chance, 150))
    succeed(spark, place, "last", scheduled=START + timedelta(days=1))
    assert audit(spark, place).outcome == "equal"
    return place


@pytest.mark.long
def test_stories_of_random_rows_say_what_bronze_the_history_and_gold_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = all_that_happens(spark, tmp_path / "root")
    fed, shown = dict(values_fed(place)), values_shown(place)
    chosen = Random(SEED).sample(sorted({*fed, *shown}, key=str), STORIES)
    told = {name: story_of(place.pipeline, place.settings, TABLE, name[0], {"key": name[1]})
            for name in chosen}  # fmt: skip
    for name, story in told.items():
        values = [(one.generation, one.version, one.run, one.rows) for one in story.values]
        assert values == fed[name]
        # After a rewind gold shows what it showed before, of which the rewind computed the value.
        published = [one.rows for one in story.values if one.published]
        assert without_repeats(published) == shown[name]
        assert all(one.published is not None and one.in_order for one in story.values)
        check_bronze(place, name, story)
        check_rejected(place, name, story)
        assert story.notes == ()
    values = [one for story in told.values() for one in story.values]
    causes = {one.cause for one in values}
    assert {"stream", "late", "backfill", "rewind", "migration"} <= causes
    assert any(one.run == "held" and one.published is False for one in values)
    assert {one.run for one in values if one.undone} >= {"undone"}


def values_fed(place: Place) -> Iterator[tuple[Name, list[tuple[Any, ...]]]]:
    found: dict[Name, list[tuple[Any, ...]]] = defaultdict(list)
    for generation in generations(place.warehouse, TABLE):
        changes = place.warehouse.changes(TABLE, generation).existing()
        feed = pa.table(changes.load_cdf(0, changes.version()))
        rows = duckdb.sql("FROM feed ORDER BY _commit_version").to_arrow_table().to_pylist()
        assert feed.num_rows == len(rows)
        for row in rows:
            if row["cause"] not in NOT_OF_GOLD and row["_change_type"] == "insert":
                said = (generation, row["_commit_version"], row["run"], row["rows"])
                found[row["window_start"], row["key"]].append(said)
    return iter(found.items())


def values_shown(place: Place) -> Mapping[Name, list[int]]:
    """What gold had of each row, version by version, without repeats."""
    found: dict[Name, list[int]] = defaultdict(list)
    for version in range(place.warehouse.gold(TABLE).existing().version() + 1):
        gold = DeltaTable(place.places.gold(TABLE), version).to_pyarrow_table()
        for row in gold.to_pylist():
            found[row["window_start"], row["key"]].append(row["rows"])
    return {name: without_repeats(rows) for name, rows in found.items()}


def without_repeats(rows: list[int]) -> list[int]:
    return [row for at, row in enumerate(rows) if not at or rows[at - 1] != row]


def in_window(rows: pa.Table, time: str, start: datetime) -> duckdb.DuckDBPyRelation:
    return duckdb.sql("FROM rows").filter(
        f"\"{time}\" >= TIMESTAMPTZ '{start.isoformat()}' "
        f"AND \"{time}\" < TIMESTAMPTZ '{(start + WINDOW).isoformat()}'"
    )


def check_bronze(place: Place, name: Name, story: Story) -> None:
    mine = in_window(place.bronze(), "at", name[0]).to_arrow_table().to_pylist()
    mine = [row for row in mine if row["key"] == name[1]]
    (bronze,) = story.bronze
    told = [(row.event_time, row.values["amount"], row.batch) for row in bronze.sample]
    assert sorted(told) == sorted((row["at"], row["amount"], row["_batch"]) for row in mine)
    assert bronze.number == len(mine)
    by_batch = {one.batch: one.rows for one in bronze.batches}
    assert by_batch == Counter(row["_batch"] for row in mine)
    assert bronze.late == len(bronze.late_sample) == sum(one.late or 0 for one in bronze.batches)
    # A window that gold never had closed when a row came has none late.
    closed = {row.run for row in bronze.late_sample}
    assert closed <= {one.run for one in story.values}


def check_rejected(place: Place, name: Name, story: Story) -> None:
    mine = in_window(place.rejects(), "event_time", name[0]).to_arrow_table().to_pylist()
    assert story.rejected is not None
    assert story.rejected.reasons == Counter(row["reason"] for row in mine)
    own = [f'"key": {"null" if name[1] is None else chr(34) + name[1] + chr(34)}' in row["raw"]
           for row in mine]  # fmt: skip
    assert Counter(row.of_key for row in story.rejected.sample) == Counter(own)
