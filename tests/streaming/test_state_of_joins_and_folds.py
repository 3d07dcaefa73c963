"""What queries of joins and folds remember: windows, rows that wait for a match, episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.running import succeed
from tests.operators.contract.kinds import KINDS, TABLE, event, place_of
from tests.streaming.test_pipeline_compaction import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def held(spark: SparkSession, place: Any, **asked: Any) -> list[dict[str, Any]]:
    found = read(spark, place, table=TABLE, **asked)
    assert found.error is None, found.error
    return [json.loads(row) for row in found.rows]


def test_a_join_remembers_windows_and_the_rows_of_either_side(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, KINDS["joins-left"])
    right = [{**event(minute, "a"), "side": "right"} for minute in (4, 20)]
    place.land_rows("1.json", [event(1), event(21), event(22, "b"), *right])
    succeed(spark, place, "run-1")
    assert {row["key"] for row in held(spark, place)} <= {"a", "b"}
    # The ranges of the first rows have passed.
    left = held(spark, place, side="left")
    assert [(row["field0"], row["index"]) for row in left] == [("a", 0), ("b", 0)]
    assert "matched" in json.loads(left[0]["_value"])
    assert len(held(spark, place, side="right")) == 1
    assert held(spark, place, side="left", where="field0 = 'b'") == left[1:]


def test_a_fold_remembers_each_keys_episode_and_windows_have_no_side(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, KINDS["folds"])
    place.land_rows("1.json", [event(1), event(2), event(3, "b"), event(30, "b")])
    succeed(spark, place, "run-1")
    rows = held(spark, place)
    assert {row["key"] for row in rows} <= {"a", "b"}
    states = [json.loads(row["_value"]) for row in rows]
    assert all({"start", "last", "rows", "state"} <= state.keys() for state in states)
    refused = read(spark, place, table=TABLE, side="left").error
    assert refused is not None
    assert refused.type == "NoSuchSide"
