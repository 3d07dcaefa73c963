"""Tables by keys of other types than text are as those by text, whatever computes a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.running import Place, clicks, sorted_rows, succeed
from tests.operators.contract.joins import join_table, joins
from tests.operators.contract.kinds import (
    DAY,
    TABLE,
    Kind,
    KindPlace,
    Known,
    Row,
    as_json,
    event,
    of,
)
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each holds what `key` does, or is the same for all.
KEYS = {
    "a_struct": "named_struct('K', key, 'times', array(timestamp'2026-07-01 00:30:00Z'))",
    "an_array": "array(key, null)",
    "a_time": "timestamp'2026-03-29 01:30:00.000001Z'",
    "a_zero": "cast('-0.0' as double)",
    "some_bytes": "cast(key as binary)",
}
# On, late into what is closed or open, and one that fails on a row.
LANDED = [
    [event(1), event(3, "b"), event(22), event(34, "t")],
    [event(2), event(6, "b"), event(21), event(60, "t")],
    [event(4, "b"), event(59, "x", 0), event(59, "x", 2), event(4, "b", 7), event(90, "t")],
    [event(5), event(91, "t")],
]


def by_text_and_by_keys(root: Path, window: dict[str, str], **more: str) -> Place:
    measures = {"events": "count(*)", "amount": "max(amount)", "inverse": "sum(100 / amount)"}
    table: dict[str, Any] = {"window": window, "measures": measures, **more}
    tables = {
        "by_text": {**table, "group_by": ["key"]},
        "by_keys": {**table, "group_by": list(KEYS)},
    }
    content = clicks(tables=tables, watermark={"delay": "10 minutes", "seal_after_idle": "1 hour"})
    content["source"] = {**content["source"], "derive": KEYS}
    return Place(root, content)


def shown(place: Place, table: str) -> list[tuple[Any, ...]]:
    """Gold's rows, each by the text that its keys hold."""
    values = ("events", "amount", "inverse", "rows", "status", "revision")
    return sorted(
        (row["window_start"], row["window_end"],
         str(row["an_array"][0] if table == "by_keys" else row["key"]),
         *(row[name] for name in values))
        for row in place.gold(table).to_pylist()
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("window", [{"length": "10 minutes"}, {"session": "6 minutes"}], ids=str)
@pytest.mark.parametrize("stream", ["engine", "recompute"])
def test_windows_and_sessions_by_them_are_as_those_by_text(
    spark: SparkSession, tmp_path: Path, window: dict[str, str], stream: str
) -> None:
    place = by_text_and_by_keys(tmp_path, window, stream=stream, output_mode="append")
    for number, rows in enumerate(LANDED):
        place.land(f"{number}.json", as_json(rows))
        succeed(spark, place, f"run-{number}", scheduled=DAY)
        assert shown(place, "by_keys") == shown(place, "by_text"), f"after run {number}"
    before = len(shown(place, "by_keys"))
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    assert shown(place, "by_keys") == shown(place, "by_text")
    assert len(shown(place, "by_keys")) > before
    assert audit(spark, place).outcome == "equal"


# `key`, and a derived column, as Spark finds them; DuckDB has them by their own names.
OTHER_CASES = ["Key", "GRÖSSE"]
MODES = [
    ({"length": "10 minutes"}, {"output_mode": "update"}),
    ({"length": "10 minutes"}, {"output_mode": "append", "stream": "recompute"}),
    ({"session": "6 minutes"}, {"output_mode": "append"}),
]


def by_names(root: Path, names: list[str], window: dict[str, str], more: dict[str, str]) -> Place:
    measures = {"events": "count(*)", "amount": "max(amount)", "inverse": "sum(100 / amount)"}
    table = {"window": window, "measures": measures, "group_by": names, **more}
    content = clicks(tables={TABLE: table})
    content["watermark"] = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    content["source"] = {**content["source"], "derive": {"grösse": "concat('x', key)"}}
    return Place(root, content)


@pytest.mark.long
@pytest.mark.parametrize(("window", "more"), MODES, ids=str)
def test_keys_in_another_case_of_letters_are_the_same_columns(
    spark: SparkSession, tmp_path: Path, window: dict[str, str], more: dict[str, str]
) -> None:
    asked = by_names(tmp_path / "asked", OTHER_CASES, window, more)
    plain = by_names(tmp_path / "plain", ["key", "grösse"], window, more)
    for place in (asked, plain):
        for number, rows in enumerate(LANDED):
            place.land(f"{number}.json", as_json(rows))
            succeed(spark, place, f"run-{number}", scheduled=DAY)
        # A run without a batch, and one that seals.
        succeed(spark, place, "again", scheduled=DAY)
        succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
        assert audit(spark, place).outcome == "equal"
    without = ["updated_by"]
    found = sorted_rows(asked.gold(TABLE), without)
    assert found == sorted_rows(plain.gold(TABLE), without)
    assert set(OTHER_CASES) < set(asked.gold(TABLE).column_names)


@dataclass
class KeyedPlace(KindPlace):
    @property
    def pipeline(self) -> Pipeline:
        found = super().pipeline
        return found.model_copy(update={"source": found.source.model_copy(update={"derive": KEYS})})


@pytest.mark.long
def test_a_join_by_them_is_as_one_by_text(spark: SparkSession, tmp_path: Path) -> None:
    by_text = joins(join_table("left"))
    table = join_table("left", group_by=list(KEYS))
    place, rows = KeyedPlace(tmp_path, kind=Kind("joins", table, by_text)), list[Row]()
    for number, new in enumerate(
        [
            [event(1), of(2), event(3, "b")],
            [event(40), of(41), of(4, "b"), event(2)],
            [event(80), of(81), of(6, "b"), event(41, "x")],
        ]
    ):
        place.land_rows(f"{number}.json", new)
        rows += new
        succeed(spark, place, f"run-{number}")
        close = instant_of(gold_state(place.warehouse.gold(TABLE).existing()).close_ms)
        found: Known = {
            (row["window_start"], row["an_array"][0]): tuple(
                row[name] for name in ("window_end", "amount", "cost", "matches", "rows")
            )
            for row in place.gold(TABLE).to_pylist()
        }
        every = by_text(rows)
        assert found == {which: told for which, told in every.items() if told[0] <= close}
    assert len(found) > 2
    assert audit(spark, place).outcome == "equal"
