"""Distinct counts, modes, top values and the newest one are in gold what DuckDB makes of all rows:
computed from bronze without being told, or by a stream where the state has a bound."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end import test_ratios as ratios
from tests.end_to_end.generations import WINDOW, ThreeRuns, changed, goes_on, is_right, migrated
from tests.end_to_end.generations import rolled_back as roll_back
from tests.end_to_end.test_ratios import (
    MINUTE,
    TEN,
    WITHIN,
    RatioPlace,
    assert_right_with_late_rows,
    place_at,
)
from tests.kit.running import run_warm, succeed
from tests.operators.contract.joins import OTHER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERED = {
    "newest": "max_by(amount, struct(at, amount))",
    "half": "min_by((amount - 2) * -0.5D, struct((amount - 2) * -0.5D, at))",
}
MEASURES = {
    "users": "count(distinct amount)",
    "share": "users / count(*)",
    "summed": "sum(distinct amount) filter (where amount > 1)",
    "most": "mode(amount, true)",
    "top": "slice(sort_array(collect_list(struct(amount, unix_micros(at) as at)), false), 1, 2)",
    "all_of": "array_join(slice(sort_array(collect_set(amount)), 1, 9), '-')",
    **ORDERED,
}
BY_ORDER = """last(amount ORDER BY at_utc, amount) AS newest,
    min((amount - 2) * -0.5::DOUBLE) AS half"""
SAME = f"""count(DISTINCT amount), count(DISTINCT amount)::DOUBLE / count(*),
    (sum(DISTINCT amount) FILTER (amount > 1))::BIGINT, mode(amount ORDER BY amount),
    list({{'amount': amount, 'at': epoch_us(at_utc)}} ORDER BY amount DESC, at_utc DESC)[1:2],
    array_to_string(list_sort(list(DISTINCT amount)), '-'), {BY_ORDER}"""
JOINED = {
    "costs": f"count(distinct {OTHER}.cost)",
    "most": f"mode({OTHER}.cost, true)",
    "top": f"slice(sort_array(collect_set(struct({OTHER}.cost, amount))), -1, 1)",
}
JOINS = """WITH matched AS (
        SELECT l.at_utc, l.key, l.amount, r.amount AS cost FROM rows_of AS l LEFT JOIN others AS r
        ON l.key = r.key AND r.at_utc BETWEEN l.at_utc AND l.at_utc + INTERVAL 7 MINUTE)
    SELECT time_bucket(INTERVAL 10 MINUTE, at_utc) AS start, start + INTERVAL 10 MINUTE, key,
        count(DISTINCT cost), mode(cost ORDER BY cost),
        [last({'cost': cost, 'amount': amount} ORDER BY cost NULLS FIRST, amount)]
    FROM matched GROUP BY start, key"""
SESSIONS = f"""SELECT min(at_utc), max(at_utc) + INTERVAL 6 MINUTE, key, {SAME} FROM (
        SELECT *, sum(is_first) OVER (PARTITION BY key ORDER BY at_utc) AS number FROM (
            SELECT *, if(at_utc - lag(at_utc) OVER (PARTITION BY key ORDER BY at_utc)
                <= INTERVAL 6 MINUTE, 0, 1) AS is_first FROM rows_of))
    GROUP BY key, number"""


def windows(same: str, length: int = 10, slide: int = 10) -> str:
    within = WITHIN.format(slide=slide * MINUTE, times=length // slide)
    end = f"start + {length * MINUTE} * INTERVAL 1 MICROSECOND"
    return f"SELECT start, {end}, key, {same} FROM ({within}) WHERE {end} > at_utc GROUP BY ALL"


def table(mode: str, window: dict[str, str], **more: Any) -> dict[str, Any]:
    content = {"window": window, "group_by": ["key"], "measures": MEASURES, "output_mode": mode}
    return content | {"accept_unbounded_state": mode == "complete"} | more


TABLES: dict[str, dict[str, Any]] = {
    "updated": table("update", TEN),
    "appended": table("append", TEN),
    "sliding": table("update", {"length": "15 minutes", "slide": "5 minutes"}),
    "days": table("update", {"length": "1 day", "zone": "Atlantic/Cape_Verde"}),
    "sessions": table("append", {"session": "6 minutes"}),
    "joined": {
        "join": {"with": OTHER, "on": {"key": "id"}, "within": "7 minutes", "type": "left"},
        "window": TEN,
        "group_by": ["key"],
        "measures": JOINED,
    },
    "ordered": table("update", TEN, measures=ORDERED),
    "ordered_at_close": table("append", TEN, measures=ORDERED),
    "ordered_whole": table("complete", TEN, measures=ORDERED),
}
ORACLES = {
    "updated": windows(SAME),
    "appended": windows(SAME),
    "sliding": windows(SAME, 15, 5),
    "days": f"""SELECT time_bucket(INTERVAL 1 DAY, at_utc - INTERVAL 1 HOUR) + INTERVAL 1 HOUR AS
        start, start + INTERVAL 1 DAY, key, {SAME} FROM rows_of GROUP BY start, key""",
    "sessions": SESSIONS,
    "joined": JOINS,
    **dict.fromkeys(("ordered", "ordered_at_close", "ordered_whole"), windows(BY_ORDER)),
}
SHOWS_OPEN = ("updated", "sliding", "days", "ordered", "ordered_whole")


check_gold = partial(ratios.check_gold, oracles=ORACLES, shows_open=SHOWS_OPEN)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("updated", "ordered"), id="two tables", marks=pytest.mark.second),
        pytest.param(tuple(TABLES), id="every mode and kind", marks=pytest.mark.long),
    ],
)
def test_gold_is_what_duckdb_gives_with_late_rows(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    place: RatioPlace = place_at(tmp_path / "root", **{name: TABLES[name] for name in names})
    by_engine = {name for name, table in place.pipeline.tables.items() if not table.recomputes}
    assert by_engine == {name for name in names if name.startswith("ordered")}
    damage, idle = {"top": "NULL"}, timedelta(days=2)
    assert_right_with_late_rows(spark, place, names, check_gold, damage, idle, ["days"])


@pytest.mark.second
def test_a_measure_that_keeps_all_values_is_a_generation_without_a_state_and_back(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    measures = {**WINDOW["measures"], "amounts": "count(distinct amount)"}
    other = changed(place, measures=measures)
    error = run_warm(spark, other, "refused").error
    assert error is not None
    assert error.type == "PipelineChanged"
    assert "stream: engine → recompute: needs a new generation" in error.message
    migrated(spark, other)
    is_right(spark, other)
    goes_on(spark, other)
    back = changed(place, measures=WINDOW["measures"])
    error = run_warm(spark, back, "refused again").error
    assert error is not None
    assert "stream: recompute → engine: needs a new generation" in error.message
    roll_back(other)
    succeed(spark, place, "behind")
    is_right(spark, place)
