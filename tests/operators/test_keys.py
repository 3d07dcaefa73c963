"""Keys that a table's file writes in another case of letters than bronze: each kind finds them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.operators.contract.joins import join_table
from tests.operators.contract.kinds import DAY, MINUTE
from tidemark.operators.joins.in_bronze import BronzeSide, JoinIn, windows_starting
from tidemark.operators.keys import selected
from tidemark.operators.sessions.sessions import Sessions
from tidemark.operators.touched import BatchRead
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import SessionTable, WindowTable
from tidemark.storage.delta.place import TablePlace

KEY = "CLÉ"


@pytest.fixture
def place(tmp_path: Path) -> TablePlace:
    """Bronze with two rows of one key, five minutes apart."""
    times = pa.array([DAY, DAY + 5 * MINUTE], pa.timestamp("us", "UTC"))
    days = pa.array([DAY.date()] * 2, pa.date32())
    rows = pa.table({"at": times, "clé": ["a", "a"], "_event_date": days})
    write_deltalake(str(tmp_path / "bronze"), rows, partition_by=["_event_date"])
    return TablePlace(str(tmp_path / "bronze"), {})


def late(place: TablePlace, operator: Windows | Sessions) -> list[dict[str, Any]]:
    batch = BatchRead(first=0, last=0, number=0, watermark_ms=2**53, late_ms=2**53)
    found = operator.rows_in(DeltaTable(place.uri)).touched(place, [batch], None, 0).closed
    return [one | {"window_start": one["window_start"] - DAY} for one in found.to_pylist()]


def test_windows_that_late_rows_touch_are_found_and_counted(place: TablePlace) -> None:
    table = WindowTable.model_validate(
        {"window": {"length": "10 minutes"}, "group_by": [KEY], "measures": {"n": "count(*)"}}
    )
    operator, bronze = Windows("at", table), DeltaTable(place.uri)
    assert late(place, operator) == [{"window_start": timedelta(0), KEY: "a"}]
    asked = pa.table({"window_start": pa.array([DAY], pa.timestamp("us", "UTC")), KEY: ["a"]})
    assert operator.rows_in(bronze).count_touched(asked) == 2


def test_sessions_are_found_and_counted(place: TablePlace) -> None:
    table = SessionTable.model_validate(
        {"window": {"session": "6 minutes"}, "group_by": [KEY], "measures": {"n": "count(*)"}}
    )
    operator, bronze = Sessions("at", table), DeltaTable(place.uri)
    (found,) = late(place, operator)
    assert (found["window_start"], found[KEY], found["rows"]) == (timedelta(0), "a", 2)
    ending = operator.rows_in(bronze).ending(DAY, DAY + 11 * MINUTE)
    assert operator.rows_in(bronze).count_touched(ending) == 2
    assert operator.rows_in(bronze).touched(place, [], None, 0).closed.column_names[1] == KEY


def test_joins_find_their_keys_and_what_they_join_on(place: TablePlace) -> None:
    table = join_table("inner", group_by=[KEY])
    join = table.join.model_copy(update={"on": {KEY: "Clé"}})
    side = BronzeSide(DeltaTable(place.uri), "at")
    joined = JoinIn(side, side, table.model_copy(update={"join": join}))
    (found,) = windows_starting(joined, DAY, DAY).to_pylist()
    assert (found[KEY], found["matches"]) == ("a", 3)


def test_a_column_is_selected_by_the_name_that_is_asked_for(place: TablePlace) -> None:
    schema = pa.schema([("clé", pa.string()), ("b", pa.string())])
    assert selected(schema, ["B", KEY]) == ['"b" AS "B"', f'"clé" AS "{KEY}"']
