"""A measure that names measures above it is in gold what DuckDB makes of all rows, however it came
there: by the stream in each mode, by repair, from bronze, for windows, sessions and joined rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import WINDOW, ThreeRuns, changed, goes_on, is_right, migrated
from tests.kit.running import Place, clicks, query, run_warm, succeed
from tests.operators.contract.joins import OTHER, PartnerPlace, partner_pipeline, sides
from tests.operators.contract.kinds import DAY, Row, as_json, joined_landings
from tests.streaming.audits import accept_by_hand, audit, backfill
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `amount` is a column within an aggregate and a measure outside of one.
MEASURES = {
    "events": "count(*)",
    "large": "count_if(amount > 2) -- of more than two",
    "share": "large / events",
    "amount": "sum(amount)",
    "text": "concat('it''s ', cast(amount - 1 as string), ' less one')",
    "both": "nullif(amount, 1) / events + share",
}
SAME = """count(*) AS events, count(*) FILTER (amount > 2) AS large,
    count(*) FILTER (amount > 2)::DOUBLE / count(*)::DOUBLE AS share, sum(amount)::BIGINT AS total,
    'it''s ' || (sum(amount)::BIGINT - 1) || ' less one' AS text,
    nullif(sum(amount), 1)::DOUBLE / count(*)::DOUBLE
        + count(*) FILTER (amount > 2)::DOUBLE / count(*)::DOUBLE AS both"""
JOINED = {
    "amount": "sum(amount)",
    "cost": f"sum({OTHER}.cost)",
    "share": "cost / (amount + 1)",
}
TEN = {"length": "10 minutes"}


def table(mode: str, window: dict[str, str], **more: Any) -> dict[str, Any]:
    content = {"window": window, "group_by": ["key"], "measures": MEASURES, "output_mode": mode}
    return content | {"accept_unbounded_state": mode == "complete"} | more


TABLES = {
    "updated": table("update", TEN),
    "appended": table("append", TEN),
    "completed": table("complete", TEN),
    "recomputed": table("append", TEN, stream="recompute"),
    "sliding": table("update", {"length": "15 minutes", "slide": "5 minutes"}),
    "sessions": table("append", {"session": "6 minutes"}),
    "joined": {
        "join": {"with": OTHER, "on": {"key": "id"}, "within": "7 minutes", "type": "left"},
        "window": TEN,
        "group_by": ["key"],
        "measures": JOINED,
    },
}
SHOWS_OPEN = ("updated", "completed", "sliding")
# The windows of each table, as a query over `landed`: start, end, key and rows of each.
WITHIN = """SELECT at_utc - (epoch_us(at_utc) % {slide}) * INTERVAL 1 MICROSECOND
    - n * {slide} * INTERVAL 1 MICROSECOND AS start, key, amount, at_utc
    FROM rows_of, range({times}) AS steps(n)"""
WINDOWS = f"""SELECT start, start + {{length}} * INTERVAL 1 MICROSECOND, key, {SAME}
    FROM ({WITHIN}) WHERE start + {{length}} * INTERVAL 1 MICROSECOND > at_utc GROUP BY ALL"""
SESSIONS = f"""SELECT min(at_utc), max(at_utc) + INTERVAL 6 MINUTE, key, {SAME} FROM (
        SELECT *, sum(is_first) OVER (PARTITION BY key ORDER BY at_utc) AS number FROM (
            SELECT *, if(at_utc - lag(at_utc) OVER (PARTITION BY key ORDER BY at_utc)
                <= INTERVAL 6 MINUTE, 0, 1) AS is_first FROM rows_of))
    GROUP BY key, number"""
JOINS = """WITH matched AS (
        SELECT l.at_utc, l.key, l.amount, r.amount AS cost FROM rows_of AS l LEFT JOIN others AS r
        ON l.key = r.key AND r.at_utc BETWEEN l.at_utc AND l.at_utc + INTERVAL 7 MINUTE)
    SELECT time_bucket(INTERVAL 10 MINUTE, at_utc) AS start, start + INTERVAL 10 MINUTE, key,
        sum(amount)::BIGINT, sum(cost)::BIGINT,
        sum(cost)::DOUBLE / (sum(amount) + 1)::DOUBLE FROM matched GROUP BY start, key"""
MINUTE = 60_000_000
HOUR = DAY + timedelta(hours=1)
ORACLES = {
    **dict.fromkeys(
        ("updated", "appended", "completed", "recomputed"),
        WINDOWS.format(length=10 * MINUTE, slide=10 * MINUTE, times=1),
    ),
    "sliding": WINDOWS.format(length=15 * MINUTE, slide=5 * MINUTE, times=3),
    "sessions": SESSIONS,
    "joined": JOINS,
}


class RatioPlace(Place):
    """A root whose pipeline has a table of each mode and kind, with ratios."""

    @property
    def pipeline(self) -> Pipeline:
        partners = {OTHER: partner_pipeline()}
        return pipeline_from_mapping(self.name, self.content, partners=partners)

    def land_rows(self, name: str, rows: Sequence[Row]) -> None:
        left, right = sides(rows)
        partner = PartnerPlace(self.root, name=OTHER)
        partner.make()
        partner.append(right)
        self.land(name, as_json(left))


def place_at(root: Path, **tables: Any) -> RatioPlace:
    watermark = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    return RatioPlace(root, clicks(watermark=watermark, tables=tables))


def in_duckdb(oracle: str, rows: Sequence[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    tables = {}
    for side, held in zip(("rows_of", "others"), sides(rows), strict=True):
        tables[side] = pa.table(
            {
                "at_utc": pa.array(
                    [row["at"].replace(tzinfo=None) for row in held], "timestamp[us]"
                ),
                "key": pa.array([row["key"] for row in held], "string"),
                "amount": pa.array([row["amount"] for row in held], "int64"),
            }
        )
    return {
        (_utc(start), key): (_utc(end), *values)
        for start, end, key, *values in query(oracle, **tables)
    }


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=DAY.tzinfo)


def check_gold(
    place: Place,
    rows: Sequence[Row],
    names: Sequence[str],
    oracles: Mapping[str, str] = ORACLES,
    shows_open: Sequence[str] = SHOWS_OPEN,
) -> None:
    for name in names:
        frontier = instant_of(gold_state(DeltaTable(place.places.gold(name))).close_ms)
        measures = place.pipeline.tables[name].measures
        found = {
            (row["window_start"], row["key"]): tuple(row[one] for one in ("window_end", *measures))
            for row in place.gold(name).to_pylist()
        }
        expected = in_duckdb(oracles[name], rows)
        closed = {row: values for row, values in expected.items() if values[0] <= frontier}
        assert {row: values for row, values in found.items() if values[0] <= frontier} == closed
        if name in shows_open:
            assert found == expected, name


def landings_with_amounts(seed: int, runs: int) -> list[list[Row]]:
    draw = Random(seed)
    return [
        [row if "side" in row else {**row, "amount": draw.randint(0, 5)} for row in landed]
        for landed in joined_landings(seed, runs)
    ]


def assert_right_with_late_rows(
    spark: SparkSession,
    place: RatioPlace,
    names: Sequence[str],
    check: Callable[[Place, Sequence[Row], Sequence[str]], None],
    damage: dict[str, str],
    idle: timedelta,
    never_late: Sequence[str] = (),
) -> None:
    """Through runs with late rows, an audit, damage to gold's columns that a backfill mends, and a
    seal, what `check` says of gold holds."""
    rows: list[Row] = []
    late = Counter[str]()
    for number, landed in enumerate(landings_with_amounts(371, runs=3)):
        place.land_rows(f"{number}.json", landed)
        rows += landed
        result = succeed(spark, place, f"run-{number}")
        late.update({name: table.late.recomputed for name, table in result.tables.items()})
        check(place, rows, names)
    for name in never_late:
        late.pop(name, None)
    assert min(late.values()) > 0, f"a table has no late row, which shows nothing: {late}"
    assert audit(spark, place).outcome == "equal"
    # What was damaged is computed from bronze again.
    damaged = [name for name in ("updated", "sessions", "joined") if name in names]
    for name in damaged:
        gold = DeltaTable(place.places.gold(name))
        gold.update(updates=damage, predicate=f"window_start < '{HOUR.isoformat()}'")
    assert audit(spark, place).outcome == "different"
    accept_by_hand(place)
    for name in damaged:
        backfill(spark, place, DAY, HOUR, table=name, run_id=f"mend-{name}")
    succeed(spark, place, "idle", scheduled=DAY + idle)
    check(place, rows, names)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("updated", "appended"), id="two modes", marks=pytest.mark.second),
        pytest.param(tuple(TABLES), id="every mode and kind", marks=pytest.mark.long),
    ],
)
def test_a_ratio_is_what_duckdb_gives_with_late_rows(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    place = place_at(tmp_path / "root", **{name: TABLES[name] for name in names})
    damage = {"share": "0.125"}
    assert_right_with_late_rows(spark, place, names, check_gold, damage, timedelta(days=1))


@pytest.mark.second
def test_a_new_ratio_needs_a_generation_and_one_that_is_written_out_does_not(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    measures = {**WINDOW["measures"], "each": "amount / events"}
    place = changed(place, measures=measures)
    error = run_warm(spark, place, "refused").error
    assert error is not None
    assert "measures" in error.message
    migrated(spark, place)
    is_right(spark, place)
    goes_on(spark, place)
    place = changed(place, measures={**measures, "each": "sum(amount)/count( * )"})
    goes_on(spark, place)
    place = changed(place, measures={**measures, "events": "count(key)"})
    error = run_warm(spark, place, "refused again").error
    assert error is not None
    assert "measures.each" in error.message
