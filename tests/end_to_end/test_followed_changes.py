"""A Delta table that others merge into: bronze and gold are what the table holds, whatever changed
its rows; each row that went is in `retracted`; killed anywhere, the next run finishes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tests.kit.erasing import erase_warm
from tests.kit.killed import killed
from tests.kit.replaying import replayed
from tests.kit.retracting import retract_warm, retracted
from tests.kit.rewinding import rewind_warm, rewound
from tests.kit.running import (
    Place,
    accept_changed_file,
    clicks,
    run_warm,
    sorted_rows,
    succeed,
)
from tests.streaming.audits import audit
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.streaming.recompute.following import key_of_reject
from tidemark.upkeep.accept_changes import accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.runs.results.result import RunResult

MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
TABLES = {
    "per_10m": {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": MEASURES},
    "visits": {
        "window": {"session": "10 minutes"},
        "group_by": ["key"],
        "measures": MEASURES,
        "output_mode": "append",
    },
}
COLUMNS = {
    "id": "long not null",
    "at": "timestamp not null",
    "key": "string",
    "amount": "long not null",
}
SOURCE = {
    "delta": {"table": "sales", "changes": "follow", "key": "id"},
    "columns": COLUMNS,
    "event_time": {"column": "at"},
    "rules": [{"name": "negative", "reject": "amount < 0"}],
}
BEGIN = datetime(2026, 7, 1, 10, tzinfo=UTC)
Sale = tuple[int | None, int, str, int]
FIRST: tuple[Sale, ...] = (
    (1, 0, "a", 5), (2, 3, "b", 1), (3, 31, "a", 1), (4, 62, "b", -1), (5, 64, "a", 7),
    (None, 64, "a", 7), (6, 90, "b", 2),
)  # fmt: skip


def rows_of(sales: Iterable[Sale]) -> pa.Table:
    names = ("id", "minute", "key", "amount")
    rows = [dict(zip(names, one, strict=True)) for one in sales]
    for row in rows:
        row["at"] = BEGIN + timedelta(minutes=int(str(row.pop("minute"))))
    schema = pa.schema(
        {
            "id": pa.int64(),
            "at": pa.timestamp("us", "UTC"),
            "key": pa.string(),
            "amount": pa.int64(),
        }
    )
    return pa.Table.from_pylist(rows, schema)


class Sales:
    """The table of others, below a place's root."""

    def __init__(self, place: Place) -> None:
        self.uri = str(place.root / "sales")

    def append(self, *sales: Sale) -> None:
        write_deltalake(self.uri, rows_of(sales), mode="append")

    def merge(self, *sales: Sale) -> None:
        merging = DeltaTable(self.uri).merge(
            rows_of(sales), "s.id = t.id", source_alias="s", target_alias="t"
        )
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, where: str) -> None:
        DeltaTable(self.uri).delete(where)

    @property
    def rows(self) -> pa.Table:
        """By delta-rs itself."""
        return pa.table(
            QueryBuilder().register("t", DeltaTable(self.uri)).execute("SELECT * FROM t")
        )


def place_at(root: Path, **source: Any) -> tuple[Place, Sales]:
    place = Place(root, clicks(source=SOURCE | source, tables=TABLES))
    return place, Sales(place)


def check(spark: SparkSession, place: Place, sales: Sales, rewound: int = 0) -> None:
    """Bronze is the table's rows that are accepted, gold what a batch gives of them, and each row
    that was ever read is in one of the tables. `rewound`: so many were read by runs that count no
    more."""
    with duckdb_in_utc() as connection:
        connection.register("sales", sales.rows)
        accepted = connection.sql(
            """
            SELECT id, "at", key, amount FROM sales
            WHERE id IS NOT NULL AND amount >= 0 ORDER BY id
            """
        ).to_arrow_table()
        windows = connection.sql(
            """
            SELECT time_bucket(INTERVAL 10 MINUTE, "at") AS window_start, key,
                count(*) AS events, CAST(sum(amount) AS BIGINT) AS amount
            FROM sales WHERE id IS NOT NULL AND amount >= 0 GROUP BY ALL ORDER BY ALL
            """
        ).fetchall()
    bronze = place.bronze().select(["id", "at", "key", "amount"]).sort_by("id")
    assert bronze.to_pylist() == accepted.to_pylist()
    gold = place.gold("per_10m").to_pylist()
    names = ("window_start", "key", "events", "amount")
    assert sorted(tuple(row[name] for name in names) for row in gold) == windows
    assert audit(spark, place).outcome == "equal"
    lines = place.table(place.places.ledger).to_pylist()
    assert all(line["difference"] in (0, None) for line in lines)
    read = sum(line["read"] or 0 for line in lines if line["kind"] == "ingest")
    found = [place.bronze().num_rows, place.rejects().num_rows]
    if Path(place.places.retracted).exists():
        found.append(place.table(place.places.retracted).num_rows)
    assert sum(found) == read - rewound


def told(place: Place) -> dict[str, Any]:
    own = ("updated_by", "status", "revision")
    return {name: sorted_rows(place.gold(name), without=own) for name in TABLES}


def test_updates_deletes_and_merges_are_followed_run_by_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    succeed(spark, place, "first")
    check(spark, place, sales)
    assert isinstance(run_preflight(place.run("idle")), NothingNew)

    sales.merge((2, 3, "b", 10), (7, 95, "a", 3))
    sales.delete("id = 3")
    sales.append((8, 12, "b", 4))
    assert isinstance(run_preflight(place.run("asked")), SparkNeeded)
    rows = succeed(spark, place, "second").rows
    # Row 2 is another, 7 and 8 are new.
    assert (rows.read, rows.accepted) == (3, 3)
    check(spark, place, sales)
    went = place.table(place.places.retracted).to_pylist()
    assert sorted(row["id"] for row in went) == [2, 3]
    assert {row["_retracted_by"] for row in went} == {"the source"}
    assert isinstance(run_preflight(place.run("idle")), NothingNew)

    # A reject is mended, an accepted row becomes one, and the row without an id stays what it is.
    sales.merge((4, 62, "b", 1), (1, 0, "a", -5))
    sales.append((9, 130, "b", 1))
    result = succeed(spark, place, "third")
    assert (result.rows.read, result.rows.rejected) == (3, {"negative": 1})
    check(spark, place, sales)

    # Only rows that came: no generation begins.
    before = place.run("asked").table("visits").generation
    sales.merge((10, 131, "a", 1))
    sales.append((11, 132, "a", 1))
    succeed(spark, place, "fourth")
    check(spark, place, sales)
    assert place.run("asked").table("visits").generation == before

    sales.append((12, 200, "c", 1))
    succeed(spark, place, "fifth")
    check(spark, place, sales)
    others, batch = place_at(tmp_path / "batch")
    write_deltalake(batch.uri, sales.rows)
    for number in range(2):
        succeed(spark, others, f"whole-{number}")
    assert told(place)["per_10m"] == told(others)["per_10m"]


def test_what_only_moved_rows_or_came_and_went_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    sales.append((7, 95, "a", 3))
    succeed(spark, place, "first")
    before = told(place)
    DeltaTable(sales.uri).optimize.compact()
    sales.append((20, 96, "a", 9))
    sales.delete("id = 20")
    DeltaTable(sales.uri).restore(2)
    rows = succeed(spark, place, "second").rows
    assert rows.read == 0
    assert told(place) == before
    check(spark, place, sales)


def test_a_first_run_over_a_table_that_was_changed_reads_what_it_holds(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    sales.merge((2, 3, "b", 10))
    succeed(spark, place, "first")
    check(spark, place, sales)
    sales.delete("id in (1, 2)")
    succeed(spark, place, "second")
    check(spark, place, sales)


def failed(spark: SparkSession, place: Place, run_id: str) -> str:
    result: RunResult = run_warm(spark, place, run_id)
    assert result.error is not None
    return result.error.message


def test_what_bronze_does_not_tell_is_refused_and_leaves_everything(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    succeed(spark, place, "first")
    sales.append((5, 64, "a", 7))
    succeed(spark, place, "twice")
    before, bronze = told(place), sorted_rows(place.bronze())
    sales.delete("id = 5 and amount = 7")
    said = failed(spark, place, "several")
    assert "several have one key (5)" in said or "bronze has several rows: 5" in said
    assert unfinished_act(place.warehouse) is None
    assert sorted_rows(place.bronze()) == bronze
    assert told(place) == before
    refused = erase_warm(spark, place, where="id = 5", texts=("5",)).error
    assert refused is not None
    assert "Bronze of clicks follows delta: sales" in refused.message
    assert told(place) == before


def test_a_reject_whose_line_is_no_json_can_be_mended_and_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No JSON has NaN, and of a line that is too large a reject has the beginning."""
    columns = COLUMNS | {"amount": "double not null"}
    place, sales = place_at(tmp_path / "root", columns=columns)
    place.max_line_bytes = 8192
    nan = pa.table(rows_of(FIRST[:3])).set_column(3, "amount", pa.array([5.0, math.nan, math.nan]))
    large = pa.table(rows_of([(4, 5, "x" * 9000, 7)]))
    write_deltalake(sales.uri, nan)
    write_deltalake(sales.uri, large.set_column(3, "amount", pa.array([7.0])), mode="append")
    assert succeed(spark, place, "first").rows.rejected == {"malformed": 2, "too large": 1}
    DeltaTable(sales.uri).update(predicate="id = 2", updates={"amount": "7.0"})
    sales.delete("id = 3")
    DeltaTable(sales.uri).update(predicate="id = 4", updates={"key": "'b'"})
    succeed(spark, place, "mended")
    assert sorted(row["id"] for row in place.bronze().to_pylist()) == [1, 2, 4]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"id": 2, "the \\"id\\"": "a,b", "amount": NaN}', "2,a~,b"),
        ('{"text": "\\"id\\": 7", "id": -2, "the \\"id\\"": "\\"ä\\\\", "text": "x', '-2,"ä\\'),
        (b'{"id": 1, "the \\"id\\"": "a", "text": "\xff"}', "1,a"),
        ('{"id": 1, "the \\"id\\"": "cut', None),
        ('{"amount": NaN}', None),
    ],
)
def test_the_key_of_a_reject_is_read_of_a_line_that_is_no_json(
    spark: SparkSession, line: str | bytes, key: str | None
) -> None:
    raw = (line, None) if isinstance(line, str) else (None, line)
    rows = spark.createDataFrame([raw], "raw string, raw_bytes binary")
    ((found,),) = rows.selectExpr(key_of_reject(["id", 'the "id"'])).collect()
    assert found == key


def test_a_check_that_fails_keeps_gold_as_it_was_until_somebody_accepts(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    succeed(spark, place, "first")
    before = told(place)
    sales.merge((2, 3, "b", 1_000))
    checked = {**TABLES["per_10m"], "checks": [{"fail": "amount > 100"}]}
    place.content = clicks(source=SOURCE, tables=TABLES | {"per_10m": checked})
    for number in range(2):
        said = failed(spark, place, f"kept-back-{number}")
        assert "Bronze has the source's rows by now, and gold is as it was" in said
        assert told(place) == before
        assert unfinished_act(place.warehouse) is not None
    retracted(spark, place, accept=True, reason="a large sale")
    assert unfinished_act(place.warehouse) is None
    assert told(place) != before
    # The ledger has the batch's line with the next run, as after any that fails.
    place.content = clicks(source=SOURCE, tables=TABLES)
    succeed(spark, place, "next")
    check(spark, place, sales)
    (act,) = {row["_retraction"] for row in place.table(place.places.retracted).to_pylist()}
    undone = retract_warm(spark, place, undo=act)
    assert undone.error is not None
    assert "Change them back in the source" in undone.error.message or (
        "have the same id as rows that were accepted since" in undone.error.message
    )
    check(spark, place, sales)


def test_a_rewind_goes_back_as_far_as_no_row_went_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path)
    sales.append(*FIRST)
    succeed(spark, place, "first")
    sales.merge((1, 0, "a", 9))
    sales.delete("id = 2")
    succeed(spark, place, "second")
    sales.append((7, 95, "a", 3))
    succeed(spark, place, "third")
    refused = rewind_warm(spark, place, "first").error
    assert refused is not None
    assert "were retracted since" in refused.message
    check(spark, place, sales)
    rewound(spark, place, "second")
    sales.merge((3, 32, "b", 2), (7, 96, "b", 3))
    succeed(spark, place, "again")
    check(spark, place, sales, rewound=1)


@pytest.mark.parametrize("how", ["gone", "rejected", "back"])
def test_a_row_that_was_retracted_stays_so_once_the_source_has_changed_it(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """The undo would bring what the table does not hold: no act has taken it out of bronze."""
    place, sales = place_at(tmp_path)
    sales.append(*FIRST)
    succeed(spark, place, "first")
    change = retracted(spark, place, where="id IN (1, 2)").change
    assert change is not None
    # Another one, that nobody retracted.
    sales.merge((3, 31, "a", 8), *([(1, 0, "a", -5)] if how == "rejected" else []))
    if how != "rejected":
        sales.delete("id = 1")
    succeed(spark, place, "second")
    if how == "back":
        sales.append(FIRST[0])
        succeed(spark, place, "third")
    before = told(place), place.bronze().num_rows
    undone = retract_warm(spark, place, undo=change.id)
    assert undone.error is not None
    assert undone.error.type == "RetractionRefused"
    assert (told(place), place.bronze().num_rows) == before
    assert audit(spark, place).outcome == "equal"


def test_a_row_that_was_retracted_stays_so_where_the_file_follows_no_changes_any_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path)
    sales.append(*FIRST)
    succeed(spark, place, "first")
    change = retracted(spark, place, where="id IN (1, 2)").change
    assert change is not None
    sales.merge((3, 31, "a", 8))
    sales.delete("id = 1")
    succeed(spark, place, "second")
    before = told(place), place.bronze().num_rows
    stopped, _ = place_at(tmp_path, delta={"table": "sales"})
    undone = retract_warm(spark, stopped, undo=change.id)
    assert undone.error is not None
    assert "by the key id, and the pipeline's file follows no changes" in undone.error.message
    assert (told(place), place.bronze().num_rows) == before


def test_rejects_that_the_source_has_changed_since_stay_so_where_nothing_is_followed_any_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One that was read with what changed, or later, is what the table holds."""
    place, sales = place_at(tmp_path)
    sales.append(*FIRST)
    succeed(spark, place, "first")
    sales.merge((4, 62, "b", 1), (7, 95, "a", -3))
    succeed(spark, place, "second")
    assert [row["reason"] for row in place.rejects().to_pylist()].count("negative") == 2
    stopped, _ = place_at(tmp_path, delta={"table": "sales"}, rules=[])
    accept_changed_file(stopped)
    succeed(spark, stopped, "third")
    change = replayed(spark, stopped, again=True, of="negative")
    assert change.judged is not None
    assert (change.judged.accepted, change.judged.staying) == (1, {"not judged": 1})
    (staying,) = change.judged.examples
    assert "what the source changed since was followed" in str(staying.detail)
    succeed(spark, stopped, "fourth")
    ids = sorted(row["id"] for row in stopped.bronze().to_pylist())
    assert ids == sorted(row["id"] for row in sales.rows.to_pylist() if row["id"] is not None)


def test_what_is_gone_of_what_is_followed_is_accepted_and_the_next_run_finishes(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    succeed(spark, place, "first")
    sales.merge((2, 3, "b", 10))
    with killed("after", "source noted", 1):
        assert run_warm(spark, place, "killed").error is not None
    sales.merge((2, 3, "b", 11))
    DeltaTable(sales.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert "`tidemark accept clicks --reason WHY`" in failed(spark, place, "stopped")
    accept_changes(place.pipeline, place.settings, "accepting", "vacuumed", "Ada")
    succeed(spark, place, "finishes")
    assert unfinished_act(place.warehouse) is None
    assert sorted(row["id"] for row in place.bronze().to_pylist()) == [1, 3, 5, 6]
    assert [row["reason"] for row in place.rejects().to_pylist()].count("gone") == 1
    assert audit(spark, place).outcome == "equal"
    lines = place.table(place.places.ledger).to_pylist()
    assert all(line["difference"] in (0, None) for line in lines)


def test_rows_that_deletion_vectors_hide_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    succeed(spark, place, "first")
    table = f"delta.`{sales.uri}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    spark.sql(f"UPDATE {table} SET amount = 50 WHERE id = 5")
    succeed(spark, place, "second")
    check(spark, place, sales)
    spark.sql(f"DELETE FROM {table} WHERE id = 6")
    succeed(spark, place, "third")
    check(spark, place, sales)


POINTS = [
    ("retraction planned", 1),
    ("pipeline stopped for an act", 1),
    ("source noted", 1),
    ("rows copied to `retracted`", 1),
    ("rows taken out of bronze", 1),
    ("accepted rows", 1),
    ("rejected rows", 1),
    ("gold of another generation", 1),
    ("gold of another generation", 2),
    ("upkeep recorded", 1),
    ("pipeline released after an act", 1),
]


def cases() -> Iterator[Any]:
    for point, number in POINTS:
        for when in ("before", "after"):
            marks = () if (point, when) == ("accepted rows", "before") else pytest.mark.long
            name = f"{when} {point}, {number}"
            yield pytest.param((point, number), when, marks=marks, id=name)


@pytest.mark.parametrize(("point", "when"), [*cases()])
def test_killed_anywhere_the_next_run_finishes_it(
    spark: SparkSession,
    tmp_path: Path,
    point: tuple[str, int],
    when: Literal["before", "after"],
) -> None:
    place, sales = place_at(tmp_path / "root")
    sales.append(*FIRST)
    succeed(spark, place, "first")
    sales.merge((2, 3, "b", 10), (7, 95, "a", -3), (8, 12, "a", 3))
    sales.delete("id = 3")
    name, number = point
    with killed(when, name, number):
        assert run_warm(spark, place, "killed").error is not None
    succeed(spark, place, "next")
    check(spark, place, sales)
    assert unfinished_act(place.warehouse) is None
