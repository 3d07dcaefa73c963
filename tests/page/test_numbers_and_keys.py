"""Numbers and keys as a chart has them: JSON, and what `explain` takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T

from tests.kit.running import Place, clicks
from tests.kit.windows import Windows, at, window
from tidemark.operators.kinds import operator_of
from tidemark.page.charts import with_corrections
from tidemark.page.corrections import Correction
from tidemark.page.series import series_of
from tidemark.pipeline.instants import utc_instant

AT = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "drawn"),
    [(5, 5.0), (0.5, 0.5), (Decimal("5.25"), 5.25), (float("nan"), None),
     (float("-inf"), None), (None, None)],
)  # fmt: skip
def test_what_a_correction_was_before_is_a_number_of_json_or_nothing(
    before: Any, drawn: float | None
) -> None:
    one = Correction(AT, AT, ("a",), {"total": before}, {"total": 8}, "late", "run")
    series = {
        "starts": [AT.timestamp()], "windows": [AT.isoformat()],
        "keys": {("a",): {"value": [8.0]}},
    }  # fmt: skip
    assert with_corrections(series, "total", [one])["keys"][0]["before"] == [drawn]


def test_a_chart_names_each_window_to_the_microsecond(tmp_path: Path) -> None:
    """A session starts with an event, and its story is asked for by that."""
    windows = Windows(tmp_path)
    starts = [at(10) + timedelta(microseconds=of) for of in (7, 123_456)]
    windows.change(*(window(start, key="a", total=1, rows=1) for start in starts))
    windows.publish_at(at(10, 30))
    series = series_of(windows.gold_table(), windows.operator, "total", "", 9)
    chart = with_corrections(series, "total", [])
    assert chart["starts"] == [start.timestamp() for start in starts]
    assert [utc_instant(one) for one in chart["windows"]] == starts


def test_a_key_of_bytes_is_told_as_explain_takes_it(tmp_path: Path) -> None:
    file = clicks()
    columns = {**file["source"]["columns"], "key": "binary"}
    place = Place(tmp_path, clicks(source={**file["source"], "columns": columns}))
    table = next(iter(place.pipeline.tables))
    gold = Path(place.places.gold(table))
    measures = {name: T.LongType() for name in place.pipeline.tables[table].measures}
    windows = Windows(gold.parent, keys={"key": T.BinaryType()}, measures=measures)
    total = dict.fromkeys(measures, 1)
    windows.change(*(window(at(10, 0), key=key, **total, rows=2) for key in (b"\x00a'", None)))
    windows.publish(windows.pin(at(10, 40), bronze=0))
    operator = operator_of(place.pipeline, table)
    found = series_of(place.warehouse.gold(table).existing(), operator, "rows", "", 9)
    assert set(found["keys"]) == {("006127",), (None,)}
