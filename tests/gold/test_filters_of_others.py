"""Spark finds the rows of gold and of its views by any value, though it passes files over by what
their writer says of them."""

from __future__ import annotations

from decimal import Decimal
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as T

from tests.kit.windows import Windows, at, window
from tidemark.gold.views import write_view
from tidemark.pipeline.model import View
from tidemark.storage.delta.place import TablePlace
from tidemark.upkeep.maintenance.carry_out import compact_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG, MONEY = Decimal(12345678901234567891), Decimal("999999999999999.999")
CONDITIONS = {
    "share > 5": 2,
    "share = double('NaN')": 2,
    "not (share <= 5)": 2,
    "share <= 5": 2,
    f"long = {LONG}": 4,
    f"long > {LONG - 1}": 4,
    f"money = {MONEY}": 2,
    f"money >= {MONEY}": 2,
    "small = 1.5": 2,
    "key = 'a'": 4,
}


@pytest.mark.parametrize("where", ["gold", "view", "packed", "replaced"])
def test_spark_finds_nan_and_long_decimals(spark: SparkSession, tmp_path: Path, where: str) -> None:
    windows = Windows(
        tmp_path,
        measures={
            "share": T.DoubleType(),
            "long": T.DecimalType(38, 0),
            "money": T.DecimalType(18, 3),
            "small": T.DecimalType(10, 1),
        },
    )
    rows = (
        {"share": nan, "long": LONG, "money": MONEY, "small": Decimal("1.5")},
        {"share": 1.0, "long": LONG, "money": Decimal("0.001"), "small": Decimal("2.5")},
    )
    # A file for each publish, and one partition for both.
    for hour in (8, 10):
        windows.change(*(window(at(hour, 10 * n), key="a", **row) for n, row in enumerate(rows)))
        windows.publish_at(at(0))
    place = windows.gold_uri
    if where == "view":
        place = str(tmp_path / "views" / "all")
        view = View.model_validate({"having": "key = 'a'"})
        write_view(windows.operator.table, view, TablePlace(windows.gold_uri), TablePlace(place))
    if where == "packed":
        compact_table(windows.gold_table(), "window_date", ("2026-07-01",))
        assert len(windows.gold_table().file_uris()) == 1
    if where == "replaced":
        # A row beside what is replaced is written anew too.
        windows.change(window(at(8), key="a", rows=2, **rows[0]))
        windows.publish_at(at(0))
    found = spark.read.format("delta").load(place)
    assert {one: found.where(one).count() for one in CONDITIONS} == CONDITIONS
