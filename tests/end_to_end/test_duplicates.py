"""A pipeline with `unique`: each id once within its horizon, and every other row is a reject."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from tests.end_to_end.test_replays import BEFORE_BRONZE, BETWEEN, Point, fail, set_newer
from tests.kit.running import Place, clicks, succeed
from tidemark.pipeline.durations import duration_text
from tidemark.streaming.ingest import spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def unique(by: str = "key", within: str = "1 day", **changes: Any) -> dict[str, Any]:
    source = clicks()["source"] | {"unique": {"by": by, "within": within}} | changes
    return clicks(source=source)


def row(key: str | None, hours: float, amount: int = 1) -> dict[str, Any]:
    return {"at": (BEGIN + timedelta(hours=hours)).isoformat(), "key": key, "amount": amount}


def accepted(place: Place) -> list[tuple[str | None, float]]:
    rows = [(r["key"], _hours(r["at"])) for r in place.bronze().to_pylist()]
    return sorted(rows, key=lambda row: (row[0] or "", row[1]))


def rejected(place: Place) -> list[tuple[str, float, str, float]]:
    """Key and time of each duplicate, and file and time of the row that it repeats."""
    rows = [r for r in place.rejects().to_pylist() if r["reason"] == "duplicate"]
    return sorted(_duplicate(place, row) for row in rows)


def _duplicate(place: Place, row: dict[str, Any]) -> tuple[str, float, str, float]:
    _, key, *_ = row["detail"].split()
    file, time = row["repeats"]["file"], row["repeats"]["event_time"]
    unique = place.pipeline.source.unique
    assert unique is not None
    # Word for word, so that no word depends on the try that wrote it.
    told = f"repeats the row of {file} at {time:%Y-%m-%dT%H:%M:%SZ}, within "
    assert row["detail"] == f"{unique.by} {key} {told}{duration_text(unique.within)}"
    return key, _hours(row["event_time"]), Path(unquote(file)).stem, _hours(time)


def _hours(time: datetime) -> float:
    return (time - BEGIN) / timedelta(hours=1)


def assert_every_reference_is_in_bronze(place: Place) -> None:
    bronze = {(r["_file"], r["at"]) for r in place.bronze().to_pylist()}
    rejects = place.rejects().to_pylist()
    repeats = {tuple(r["repeats"].values()) for r in rejects if r["repeats"] is not None}
    assert repeats <= bronze
    assert all((r["repeats"] is None) == (r["reason"] != "duplicate") for r in rejects)


@pytest.mark.long
def test_an_id_of_bytes_is_told_in_hex_and_rejects_can_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = unique(by="id")["source"]
    source["columns"] = {**source["columns"], "id": "binary"}
    place = Place(tmp_path, clicks(source=source))
    rows = [{**row("a", hours), "id": "/wD+"} for hours in (0, 1)]
    place.land("a.json", rows)
    assert succeed(spark, place, "one").rows.accepted == 1
    [reject] = place.rejects().to_pylist()
    assert reject["detail"].startswith("id FF00FE repeats the row of file:")


def test_rows_behind_files_of_which_every_line_is_rejected_are_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """PySpark takes two empty chunks of rows for the end: tidemark.streaming.arrow_rows."""
    place = Place(tmp_path, unique())
    for name in ("a.json", "b.json", "c.json"):
        place.land(name, ["{"])
    place.land("d.json", [row("one", 0)])
    result = succeed(spark, place, "one")
    assert (result.rows.read, result.rows.accepted) == (4, 1)
    assert accepted(place) == [("one", 0)]


def test_a_row_that_repeats_one_of_its_batch_or_of_another_is_rejected_with_that_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The id is a derived name; null repeats nothing."""
    spark.catalog.clearCache()
    place = Place(tmp_path, unique("lower_key", derive={"lower_key": "lower(key)"}))
    rows = [row("twice", 0), row("TWICE", 24), row("apart", 0), row("apart", 24.5)]
    place.land("a.json", [*rows, row(None, 0), row(None, 0)])
    result = succeed(spark, place, "one")
    assert (result.rows.read, result.rows.accepted) == (6, 5)
    assert result.rows.rejected == {"duplicate": 1}
    place.land("b.json", [row("twice", -24), row("apart", 48), row("new", 60), "bad"])
    result = succeed(spark, place, "two")
    assert (result.rows.read, result.rows.accepted) == (4, 1)
    assert result.rows.rejected == {"duplicate": 2, "malformed": 1}
    nulls, others = (None, 0), [("apart", 0), ("apart", 24.5), ("new", 60), ("twice", 0)]
    assert accepted(place) == [nulls, nulls, *others]
    assert rejected(place) == [
        ("apart", 48, "a", 24.5),
        ("twice", -24, "a", 0),
        ("twice", 24, "a", 0),
    ]
    assert_every_reference_is_in_bronze(place)
    assert sum(place.gold()["events"].to_pylist()) == 6
    # Nothing of a run stays persisted: it would be computed again with each commit.
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


@pytest.mark.long
def test_rejects_of_before_the_pipeline_had_unique_get_the_new_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    plain = Place(tmp_path)
    plain.land("a.json", [row("x", 0), row("x", 0), "bad"])

    def never(*_: Any) -> None:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_rows, "accepted_before", never)
        patch.setattr(spark_rows, "with_position", never)
        assert succeed(spark, plain, "one").rows.accepted == 2
    place = Place(tmp_path, unique())
    place.land("b.json", [row("x", 0)])
    assert succeed(spark, place, "two").rows.rejected == {"duplicate": 1}
    assert rejected(place) == [("x", 0, "a", 0)]


# A name that is written in another way wherever it is part of a URI.
GONE = "gone ä%20 [1]"
KILLED = {
    # The second of each pair is the duplicate; `changed` and GONE will not be read again.
    "changed": [row("p", 0), row("q", 2), row("e", 3)],
    GONE: [row("q", 0), row("r", 4)],
    "same": [row("p", 1), row("r", 2), row("e", -1), row("s", 0), row("s", 0), row("q", 1)],
}


def _killed(spark: SparkSession, root: Path, point: Point) -> tuple[Place, dict[str, Path]]:
    """A batch that failed at a point, after an earlier batch."""
    place = Place(root, unique())
    place.land("earlier.json", [row("e", 0)])
    succeed(spark, place, "earlier")
    paths = {name: place.land(f"{name}.json", rows) for name, rows in KILLED.items()}
    fail(spark, place, point)
    return place, paths


OF_SAME = [
    ("e", -1, "earlier", 0),
    ("p", 1, "changed", 0),
    ("q", 1, GONE, 0),
    ("s", 0, "same", 0),
]
OF_ALL = sorted([*OF_SAME, ("e", 3, "earlier", 0), ("q", 2, GONE, 0), ("r", 4, "same", 2)])
ACCEPTED = [("e", 0), ("p", 0), ("q", 0), ("r", 2), ("s", 0)]


@pytest.mark.long
@pytest.mark.parametrize("point", [BETWEEN, pytest.param(BEFORE_BRONZE, marks=pytest.mark.long)])
def test_a_batch_that_failed_is_decided_as_if_it_had_not(
    spark: SparkSession, tmp_path: Path, point: Point
) -> None:
    place, _ = _killed(spark, tmp_path, point)
    place.land("arrived.json", [row("s", 1), row("t", 0)])
    result = succeed(spark, place)
    assert accepted(place) == [*ACCEPTED, ("t", 0)]
    assert rejected(place) == sorted([*OF_ALL, ("s", 1, "same", 0)])
    assert (result.rows.read, result.rows.accepted) == (11 + 2, 4 + 1)
    assert result.rows.rejected == {"duplicate": 7 + 1}
    assert_every_reference_is_in_bronze(place)


@pytest.mark.long
def test_rows_of_unchanged_files_are_decided_as_before_though_others_changed_or_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, paths = _killed(spark, tmp_path, BETWEEN)
    before = accepted(place)
    place.land("changed.json", [row("s", -1), row("new", 0)])
    set_newer(paths["changed"])
    paths[GONE].unlink()
    result = succeed(spark, place)
    assert accepted(place) == before == ACCEPTED
    assert rejected(place) == OF_SAME
    assert result.rows.rejected == {"changed file": 2, "duplicate": 4}
    assert (result.rows.read, result.rows.accepted) == (4 + 6, 4)
    assert_every_reference_is_in_bronze(place)


def _model(batches: list[list[tuple[str, float, str]]], within: float) -> set[tuple[Any, ...]]:
    """The rows (key, hours, file) that are accepted, batch by batch."""
    kept: list[tuple[str, float, str]] = []
    for batch in batches:
        for key, hours, file in sorted(batch, key=lambda r: (r[1], r[2])):
            if not any(k == key and abs(h - hours) <= within for k, h, _ in kept):
                kept.append((key, hours, file))
    return set(kept)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.long) for n in range(1, 8)])
def test_bronze_and_duplicates_are_those_of_the_model_however_rows_are_split(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    within = chance.choice([1, 6, 24])
    place = Place(tmp_path, unique(within=f"{within} hours"))
    place.content = {**place.content, "advanced": {"max_files_per_batch": chance.choice([1, 2, 3])}}
    every: list[tuple[str, float, str]] = []
    for run in range(2 if seed == 1 else 4):
        for number in range(chance.randint(1, 3)):
            rows = [
                (f"k{chance.randrange(12)}", chance.randrange(0, 100) / 2, f"f{run}{number}")
                for _ in range(chance.randint(1, 25))
            ]
            every += rows
            place.land(f"f{run}{number}.json", [row(key, hours) for key, hours, _ in rows])
        succeed(spark, place, f"run{run}")
    batch_of = {
        _name(r): r["_batch"] for r in (*place.bronze().to_pylist(), *place.rejects().to_pylist())
    }
    batches: list[list[tuple[str, float, str]]] = [[] for _ in range(max(batch_of.values()) + 1)]
    for one in every:
        batches[batch_of[one[2]]].append(one)
    bronze = [(r["key"], _hours(r["at"]), _name(r)) for r in place.bronze().to_pylist()]
    assert len(bronze) == len(set(bronze))
    assert set(bronze) == _model(batches, within)
    assert len(bronze) + len(rejected(place)) == len(every)
    assert_every_reference_is_in_bronze(place)


def _name(row: dict[str, Any]) -> str:
    return Path(row["_file"]).stem
