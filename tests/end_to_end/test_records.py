"""Pipelines that take some records only, and arrays of theirs apart: every record is accounted for,
and the tables are what one query over all of them gives."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.running import SCHEDULED, Place, clicks, succeed
from tests.sources.contract.test_every_kind import EACH_POINT, fail_at
from tests.sources.contract.worlds import WORLDS, Table, Topics, World
from tidemark.ledger.ledger import replace_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.runs.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS: dict[str, Any] = {
    "when": {"field": "type", "in": ["order", "reorder"]},
    "explode": "order.items",
    "columns": {
        "at": "timestamp",
        "key": {"type": "string", "field": "order.customer"},
        "amount": {"type": "long not null", "field": "order.items.amount"},
    },
}


def world_of(kind: str, root: Path, **source: Any) -> World:
    return WORLDS[kind](root, **{**ORDERS, **source})


def records(seed: int) -> list[dict[str, Any] | str]:
    """Of both kinds, with arrays of all lengths, bad elements and bad records among them."""
    chance = random.Random(seed)
    found: list[dict[str, Any] | str] = []
    for n in range(120):
        items: Any = [
            {"amount": "bad" if chance.random() < 0.05 else chance.randrange(100)}
            for _ in range(chance.choice([0, 1, 1, 2, 5]))
        ]
        order = {"customer": chance.choice("abc"), "items": chance.choice([items] * 9 + [None, 5])}
        record = {
            "type": chance.choice(["order", "order", "reorder", "view", "view", None]),
            "at": f"2026-07-01T10:{n % 60:02}:00Z",
            "order": order,
        }
        found.append("not JSON" if chance.random() < 0.03 else record)
    return found


def expected(given: list[dict[str, Any] | str]) -> dict[str, Any]:
    """What one look at all records, by Python alone, says of them."""
    own = [r for r in given if isinstance(r, dict) and r["type"] in ("order", "reorder")]
    others = sum(isinstance(r, dict) and r["type"] == "view" for r in given)
    arrays = [r for r in own if r["order"]["items"] != 5]
    full = [r for r in arrays if r["order"]["items"]]
    elements = [(r, one["amount"]) for r in full for one in r["order"]["items"]]
    good = [(r, amount) for r, amount in elements if amount != "bad"]
    events: Counter[Any] = Counter()
    amounts: Counter[Any] = Counter()
    for record, amount in good:
        window = (record["at"][:15] + "0", record["order"]["customer"])
        events[window] += 1
        amounts[window] += amount
    return {
        "read": len(given),
        "accepted": len(good),
        "rejected": len(elements) - len(good) + len(given) - others - len(arrays),
        "other_records": others,
        "without_elements": len(arrays) - len(full),
        "exploded": len(full),
        "elements": len(elements),
        "gold": {window: (events[window], amounts[window]) for window in events},
    }


def told(place: Place) -> dict[str, Any]:
    """The same as the tables and the ledger tell it."""
    rows = place.table(place.places.ledger).to_pylist()
    lines = [line for line in rows if line["kind"] == "ingest"]
    assert all(line["balanced"] for line in lines)
    names = ("read", "accepted", "rejected", "other_records", "without_elements")
    counts = {
        name: sum(line[name] or 0 for line in lines) for name in (*names, "exploded", "elements")
    }
    gold = {
        (f"{row['window_start']:%Y-%m-%dT%H:%M}", row["key"]): (row["events"], row["amount"])
        for row in place.gold().to_pylist()
    }
    return {**counts, "gold": gold}


@pytest.fixture(
    params=[
        "files",
        pytest.param("log", marks=pytest.mark.second),
        pytest.param("kafka", marks=pytest.mark.long),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "log":
        from tests.sources.contract import numbered_log_stream  # noqa: F401
    if request.param == "kafka":
        Topics.broker = request.getfixturevalue("broker")
    return str(request.param)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)])
def test_tables_and_ledger_are_what_one_look_at_all_records_gives(
    spark: SparkSession, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    from tidemark.streaming.ingest import judged_lines

    if not few:
        monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    world = world_of(kind, tmp_path)
    given: list[dict[str, Any] | str] = []
    for run in range(3):
        more = records(run)
        world.land(str(run % 2), more)
        given += more
        succeed(spark, world.place, f"run {run}")
    assert told(world.place) == expected(given)
    # Another pipeline's alone: nothing comes of them, and they are accounted for.
    others: list[dict[str, Any] | str] = [{"type": "view"}] * 7
    world.land("0", others)
    rows = succeed(spark, world.place, "others").rows
    assert (rows.read, rows.judged) == (7, 0)
    assert told(world.place) == expected([*given, *others])
    # Each element says where it stood.
    bronze = world.place.bronze().select(["_element"]).to_pylist()
    assert max(row["_element"] for row in bronze) == 4
    whole = [row for row in world.place.rejects().to_pylist() if row["_element"] is None]
    assert {row["reason"] for row in whole} == {"malformed", "missing field", "wrong type"}
    parts = [row for row in world.place.rejects().to_pylist() if row["_element"] is not None]
    assert {row["reason"] for row in parts} == {"wrong type"}
    assert {type(json.loads(row["raw"])["order"]["items"]) for row in parts} == {dict}


@pytest.mark.second
@pytest.mark.parametrize("point", EACH_POINT)
def test_a_repeated_batch_says_the_same_of_records(
    spark: SparkSession, tmp_path: Path, point: tuple[str, str]
) -> None:
    from tests.sources.contract import numbered_log_stream  # noqa: F401

    world = world_of("log", tmp_path)
    given = records(5)
    world.land("0", given)
    fail_at(spark, world, point)
    succeed(spark, world.place, "again")
    assert told(world.place) == expected(given)
    run = Run(world.place.pipeline, world.place.settings, "look", epoch_ms(SCHEDULED))
    assert isinstance(run_preflight(run), NothingNew)


@pytest.mark.second
def test_a_file_that_vanished_before_its_batch_was_repeated_leaves_a_balance(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = world_of("files", tmp_path)
    given, gone = records(5), records(6)
    world.land("0", given)
    world.land("1", gone)
    fail_at(spark, world, ("accepted rows", "after"))
    world.lose("1")
    rows = succeed(spark, world.place, "again").rows
    stays, both = expected(given), expected([*given, *gone])
    assert (rows.accepted, rows.rejected["changed file"]) == (both["accepted"], 1)
    assert sum(rows.rejected.values()) == stays["rejected"] + 1
    found = told(world.place)
    assert found["gold"] == both["gold"]
    assert found["other_records"] == stays["other_records"]


@pytest.mark.second
def test_a_ledger_built_anew_says_the_same_of_records(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of("files", tmp_path)
    given = records(6)
    world.land("0", given)
    succeed(spark, world.place, "one")
    place = world.place
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    replace_ledger(place.warehouse.ledger, place.pipeline.name, lines, SCHEDULED)
    assert told(place) == expected(given)


def test_rows_of_one_record_are_told_apart_by_their_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of two elements with one id the first counts, and the reject says which it repeats."""
    columns = {**ORDERS["columns"], "id": {"type": "long", "field": "order.items.id"}}
    world = world_of("files", tmp_path, columns=columns, unique={"by": "id", "within": "1 hour"})
    items = [{"id": n, "amount": 10 + place} for place, n in enumerate((1, 2, 1, 2, 3))]
    order = {"customer": "a", "items": items}
    world.land("0", [{"type": "order", "at": "2026-07-01T10:00:00Z", "order": order}])
    rows = succeed(spark, world.place, "one").rows
    assert (rows.read, rows.accepted, rows.rejected) == (1, 3, {"duplicate": 2})
    bronze = world.place.bronze().to_pylist()
    assert sorted((row["_element"], row["amount"]) for row in bronze) == [(0, 10), (1, 11), (4, 14)]
    rejects = world.place.rejects().to_pylist()
    assert sorted((row["_element"], row["repeats"]["element"]) for row in rejects) == [
        (2, 0),
        (3, 1),
    ]


@pytest.mark.second
def test_rows_of_a_table_are_records_too(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    world = world_of("delta", tmp_path)
    assert isinstance(world, Table)
    given = [one for one in records(7) if isinstance(one, dict) and one["order"]["items"] != 5]
    for one in given:
        items = one["order"]["items"] or []
        one["order"]["items"] = [item for item in items if item["amount"] != "bad"] or None
    write_deltalake(world.uri, pa.Table.from_pylist(given))
    succeed(spark, world.place, "one")
    assert told(world.place) == expected(given)


@pytest.mark.second
def test_a_change_of_what_records_are_is_told(spark: SparkSession, tmp_path: Path) -> None:
    from tests.kit.running import run_warm
    from tidemark.errors import PipelineChanged

    world = world_of("files", tmp_path)
    world.land("0", records(8))
    succeed(spark, world.place, "one")
    content = world.place.content
    for changes in (
        {"when": {"field": "type", "in": ["order"]}},
        {"explode": None, "columns": clicks()["source"]["columns"]},
    ):
        changed = {**content, "source": {**content["source"], **changes}}
        place = replace(world.place, content=changed)
        world.land("0", records(9))
        error = run_warm(spark, place, "two").error
        assert error is not None
        assert error.type == PipelineChanged.__name__


@pytest.mark.second
def test_records_of_other_pipelines_keep_no_window_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A source whose others go on is idle all the same, and an own record shows that it is not."""
    world = world_of("files", tmp_path)
    watermark = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    place = replace(world.place, content={**world.place.content, "watermark": watermark})
    order = {"customer": "a", "items": [{"amount": 1}]}
    world.land("0", [{"type": "order", "at": "2026-07-01T10:00:00Z", "order": order}])
    first = datetime(2026, 7, 1, 11, tzinfo=UTC)
    found = []
    for hours, landed in enumerate(("view", "order", "view", "view")):
        record = {"type": landed, "at": "2026-07-01T10:05:00Z", "order": order}
        world.land("1", [record])
        succeed(spark, place, f"after {hours} hours", scheduled=first + timedelta(hours=hours))
        (row,) = place.gold().to_pylist()
        found.append((row["events"], row["status"]))
    assert found == [(1, "provisional"), (2, "provisional"), (2, "final"), (2, "final")]
