"""Views are what plain Python selects from gold, whatever changed gold, the view or its logs."""

from __future__ import annotations

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import types as T

from tests.kit.killed import killed
from tests.kit.windows import Windows, at, window
from tests.storage.s3 import copy_to_store, s3_server
from tidemark.errors import StorageUnavailable, ViewBroken
from tidemark.gold.views import write_view
from tidemark.pipeline.model import View
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.result_file import RunError

KILLS = [("view", when) for when in ("before", "after")]
MEASURES = {"total": T.LongType(), "share": T.DoubleType()}
KEYS = ("a", "b", "c", "d", None)
VALUES = (None, 0.5, -0.0, 2.0, math.inf, math.nan)
VIEWS: Mapping[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "condition": ({"having": "total > 2"}, lambda row: (row["total"] or 0) > 2),
    "nan": (
        {"having": "share >= 2"},
        lambda row: row["share"] is not None and (math.isnan(row["share"]) or row["share"] >= 2),
    ),
    "first": ({"top": {"n": 2, "by": "total"}}, lambda row: True),
    "last": ({"top": {"n": 1, "by": "total", "order": "ascending"}}, lambda row: True),
    "shares": ({"top": {"n": 3, "by": "share"}}, lambda row: True),
    "both": (
        {"having": "key is not null and status <> 'final'", "top": {"n": 1, "by": "total"}},
        lambda row: row["key"] is not None and row["status"] != "final",
    ),
}


def windows_at(folder: Path) -> Windows:
    return Windows(folder, measures=MEASURES)


class Shown:
    """One view of a table, and what plain Python has it be."""

    def __init__(self, windows: Windows, name: str) -> None:
        said, self.kept = VIEWS[name]
        self.view, self.windows = View.model_validate(said), windows
        self.place = TablePlace(str(windows.folder / "views" / name))

    def write(self) -> None:
        write_view(
            self.windows.operator.table, self.view, TablePlace(self.windows.gold_uri), self.place
        )

    @property
    def table(self) -> DeltaTable:
        return self.place.existing()

    def check(self) -> None:
        found = pa.table(self.table.to_pyarrow_table()).to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, self.expected()))

    def expected(self) -> list[dict[str, Any]]:
        gold = pa.table(self.windows.gold_table().to_pyarrow_table()).to_pylist()
        kept = [row for row in gold if self.kept(row)]
        top = self.view.top
        if top is None:
            return kept
        of: dict[datetime, list[dict[str, Any]]] = defaultdict(list)
        for row in kept:
            of[row["window_start"]].append(row)
        sign = 1 if top.order == "ascending" else -1

        def place(row: dict[str, Any]) -> tuple[Any, ...]:
            value, key = row[top.by], row["key"]
            is_nan = value is not None and math.isnan(value)
            number = 0 if value is None or is_nan else value * sign
            return (value is None, sign * is_nan, number, key is not None, key or "")

        ordered = (sorted(rows, key=place)[: top.n] for rows in of.values())
        return [row | {"rank": rank} for rows in ordered for rank, row in enumerate(rows, 1)]


def some_windows(chance: Random, number: int) -> list[dict[str, Any]]:
    rows = {
        (chance.randrange(0, 24, 8), chance.randint(1, 3), chance.choice(KEYS)): (
            chance.choice((None, 1, 2, 3, 4)),
            chance.choice(VALUES),
            chance.choice((0, 1, 1, 1)),
        )
        for _ in range(number)
    }
    return [
        window(at(hour, day=day), rows=count, key=key, total=total, share=share)
        for (hour, day, key), (total, share, count) in rows.items()
    ]


def restored(windows: Windows, chance: Random) -> None:
    gold = windows.gold_table()
    # Older ones may be gone from the log.
    with suppress(DeltaError):
        gold.restore(gold.version() - chance.randint(1, 4))


def packed(windows: Windows, chance: Random) -> None:
    windows.gold_table().optimize.compact()


def without_a_log_entry(windows: Windows, chance: Random) -> None:
    gold = windows.gold_table()
    gold.create_checkpoint()
    entries = sorted(Path(windows.gold_uri, "_delta_log").glob("*.json"))
    for entry in entries[: chance.randint(0, len(entries) - 1)]:
        entry.unlink()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_a_view_is_its_rows_of_gold_after_each_change_of_it(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, windows = Random(seed), windows_at(tmp_path)
    # So many rows of gold are looked at together.
    monkeypatch.setattr("tidemark.gold.views._AT_ONCE", chance.choice((1, 8, 500_000)))
    views = [Shown(windows, name) for name in VIEWS]
    for step in range(8):
        windows.change(*some_windows(chance, chance.randint(1, 12)), batch=step)
        windows.publish_at(at(chance.randint(0, 23), day=1 + step // 3))
        if step % 2:
            chance.choice((restored, packed, without_a_log_entry))(windows, chance)
        for view in chance.sample(views, 4):
            view.write()
            view.check()
    for view in views:
        view.write()
        view.check()


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """The view `first`, of windows of two dates."""
    windows = windows_at(tmp_path)
    rows = [window(at(8, day=day), key=key, total=3) for day in (1, 2) for key in "abc"]
    windows.change(*rows)
    windows.publish_at(at(0))
    view = Shown(windows, "first")
    view.write()
    view.check()
    return view


def dates_written(table: DeltaTable) -> set[str]:
    log = Path(table.table_uri.removeprefix("file://"), "_delta_log")
    lines = (log / f"{table.version():020}.json").read_text().splitlines()
    return {one["add"]["partitionValues"]["window_date"] for one in map(json.loads, lines)
            if "add" in one}  # fmt: skip


def test_only_dates_that_gold_changed_are_written(shown: Shown) -> None:
    assert dates_written(shown.table) == {"2026-07-01", "2026-07-02"}
    shown.windows.change(window(at(8, day=2), key="c", total=9))
    shown.windows.publish_at(at(0))
    shown.write()
    shown.check()
    assert dates_written(shown.table) == {"2026-07-02"}


def test_a_view_that_is_what_gold_is_gets_no_commit_but_notes_it_now_and_then(
    shown: Shown,
) -> None:
    before = shown.table.version()
    for number in range(30):
        gold = shown.windows.gold_table()
        gold.alter.set_table_properties({"a.b": str(number)}, raise_if_not_exists=False)
        shown.write()
        assert shown.table.version() == before + (number >= 19)
    shown.check()


def test_rows_of_equal_values_come_in_the_order_of_their_keys(shown: Shown) -> None:
    rows = pa.table(shown.table.to_pyarrow_table()).to_pylist()
    assert sorted((row["window_date"].day, row["rank"], row["key"]) for row in rows) == [
        (day, rank, key) for day in (1, 2) for rank, key in ((1, "a"), (2, "b"))
    ]


def test_a_change_of_a_view_by_hand_is_undone(shown: Shown) -> None:
    shown.table.delete("key = 'a'")
    shown.write()
    shown.check()
    rows = pa.table(shown.table.to_pyarrow_table())
    write_deltalake(shown.place.uri, rows.drop_columns(["rank"]), mode="overwrite",
                    schema_mode="overwrite")  # fmt: skip
    shown.write()
    shown.check()


def test_another_definition_and_the_former_one_again_write_all(shown: Shown) -> None:
    former = shown.view
    for said in ({"having": "total > 8"}, {"top": {"n": 1, "by": "total"}}):
        shown.view = View.model_validate(said)
        shown.write()
        shown.windows.change(window(at(8), key="d", total=4))
        shown.windows.publish_at(at(0))
        shown.view = former
        shown.write()
        shown.check()


def test_a_lost_view_is_made_anew_and_one_of_a_lost_gold_follows_the_new_one(
    shown: Shown,
) -> None:
    shutil.rmtree(shown.place.uri)
    shown.write()
    shown.check()
    shutil.rmtree(shown.windows.folder / "gold")
    again = windows_at(shown.windows.folder)
    for hour in range(4):
        again.change(window(at(hour), key="z", total=hour))
        again.publish_at(at(0))
    shown.write()
    shown.check()


def test_gold_that_was_put_back_and_went_on_differently_is_followed(shown: Shown) -> None:
    gold, backup = Path(shown.windows.gold_uri), shown.windows.folder / "backup"
    shutil.copytree(gold, backup)
    shown.windows.change(window(at(8), key="a", total=99))
    shown.windows.publish_at(at(0))
    shown.write()
    shutil.rmtree(gold)
    backup.rename(gold)
    shown.windows.change(window(at(8, day=2), key="b", total=98))
    shown.windows.publish(shown.windows.pin(at(0)), "other")
    shown.windows.publish(shown.windows.pin(at(0), bronze=7), "and on")
    shown.write()
    shown.check()


def test_a_column_that_gold_gets_is_the_views_too(shown: Shown) -> None:
    gold = shown.windows.gold_table()
    rows = pa.table(gold.to_pyarrow_table())
    more = rows.append_column("more", pa.array(range(rows.num_rows)))
    write_deltalake(gold, more, mode="overwrite", schema_mode="overwrite")
    shown.write()
    shown.check()


@pytest.mark.parametrize(("point", "when"), KILLS)
def test_a_view_killed_around_its_commit_is_written_by_the_next_try(
    shown: Shown, point: str, when: str
) -> None:
    before = pa.table(shown.table.to_pyarrow_table()).to_pylist()
    shown.windows.change(window(at(8), key="c", total=9))
    shown.windows.publish_at(at(0))
    with killed(when, point), pytest.raises(BaseException, match=point):  # type: ignore[arg-type]
        shown.write()
    left = pa.table(shown.table.to_pyarrow_table()).to_pylist()
    assert (sorted(map(repr, left)) == sorted(map(repr, before))) is (when == "before")
    shown.write()
    shown.check()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_view_killed_around_its_making_is_written_by_the_next_try(
    shown: Shown, when: Literal["before", "after"]
) -> None:
    shutil.rmtree(shown.place.uri)
    with killed(when, "table made"), pytest.raises(BaseException, match="table made"):
        shown.write()
    shown.write()
    shown.check()


def test_a_commit_that_comes_first_is_an_error_and_the_view_is_as_it_was(shown: Shown) -> None:
    shown.windows.change(window(at(8), key="c", total=9))
    shown.windows.publish_at(at(0))

    def other() -> None:
        shown.table.alter.set_table_properties({"a.b": "c"}, raise_if_not_exists=False)

    place = TablePlace(shown.place.uri, fence=other)
    with pytest.raises(StorageUnavailable, match="another commit while its rows were selected"):
        write_view(
            shown.windows.operator.table, shown.view, TablePlace(shown.windows.gold_uri), place
        )
    shown.write()
    shown.check()


BROKEN = (
    {"having": "total * 9223372036854775807 > 1"},
    {"having": "gone > 1"},
    {"having": "total"},
    {"top": {"n": 1, "by": "gone"}},
)


@pytest.mark.parametrize("said", BROKEN, ids=str)
def test_a_definition_that_cannot_be_told_leaves_the_view_as_it_was(
    shown: Shown, said: dict[str, Any]
) -> None:
    version = shown.table.version()
    shown.view = View.model_validate(said)
    with pytest.raises(ViewBroken, match="the view is as it was"):
        shown.write()
    assert shown.table.version() == version
    shown.place = TablePlace(f"{shown.place.uri}_anew")
    with pytest.raises(ViewBroken, match="the view is as it was"):
        shown.write()
    # An empty one would be read as one that shows nothing.
    assert shown.place.open() is None


def test_a_gold_without_rows_has_a_view_without_rows_and_no_gold_has_none(tmp_path: Path) -> None:
    view = Shown(windows_at(tmp_path), "first")
    view.write()
    view.check()
    shutil.rmtree(view.place.uri)
    shutil.rmtree(view.windows.gold_uri)
    view.write()
    assert view.place.open() is None


def test_a_lost_file_of_gold_is_damage_and_no_fault_of_the_definition(shown: Shown) -> None:
    shutil.rmtree(shown.place.uri)
    Path(shown.windows.gold_table().file_uris()[0]).unlink()
    with pytest.raises(duckdb.Error) as raised:
        shown.write()
    assert RunError.of(raised.value).type == "DataDamaged"


def test_a_view_whose_log_is_damaged_is_told_how_it_comes_back(shown: Shown) -> None:
    for entry in Path(shown.place.uri, "_delta_log").glob("*.json"):
        entry.write_text("{")
    with pytest.raises(ViewBroken, match=r"removes the folder .* has the next run make it anew"):
        shown.write()
    shutil.rmtree(shown.place.uri)
    shown.write()
    shown.check()


@pytest.mark.slow
def test_a_view_on_object_storage_follows_its_gold_as_one_on_a_disk(tmp_path: Path) -> None:
    windows = windows_at(tmp_path)
    here = Shown(windows, "first")
    with s3_server() as options:
        gold, there = (TablePlace(f"s3://lake/{name}", options) for name in ("gold", "first"))
        for day, total in ((1, 5), (2, 7), (1, 9)):
            windows.change(window(at(8, day=day), key="a", total=total), batch=total)
            windows.publish_at(at(0, day=day))
            copy_to_store(Path(windows.gold_uri), gold.uri, options)
            here.write()
            write_view(windows.operator.table, here.view, gold, there)
            here.check()
            found, expected = (
                sorted(map(repr, pa.table(one.to_pyarrow_table()).to_pylist()))
                for one in (there.existing(), here.table)
            )
            assert found == expected
