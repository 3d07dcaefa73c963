"""Folds in runs: what the engine alone gets wrong, verdicts, and changes of the class."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, clicks, run_warm, succeed
from tests.operators.contract.folded import FILE, SOURCE, WEIGHTS, Known, folded
from tests.operators.contract.kinds import DAY, MINUTE, as_json, event, landings
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.streaming.operators.kinds import streamed_operator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
GAP = 6 * MINUTE
FAILS = SOURCE.replace(
    "        state.rows += 1\n",
    "        state.rows += 1\n        state.mixed += 1 // row['amount']\n",
)


@dataclass
class FoldPlace(Place):
    """A root whose pipeline folds; the class lies in the pipelines' folder."""

    @property
    def pipeline(self) -> Pipeline:
        return pipeline_from_mapping(self.name, self.content, folder=self.root / "pipelines")

    def write_class(self, source: str = SOURCE) -> None:
        for path, text in ((FILE, source), ("folds/weights.py", WEIGHTS)):
            (self.root / "pipelines" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "pipelines" / path).write_text(text)

    def known(self) -> Known:
        return {
            (row["window_start"], row["key"], row["number"]): (
                row["window_end"], row["what"], row["mixed"], row["since"], row["rows"],
            )
            for row in self.gold("thirds").to_pylist()
        }  # fmt: skip

    @property
    def closed_to(self) -> Any:
        return instant_of(gold_state(DeltaTable(self.places.gold("thirds"))).close_ms)


def place_at(
    root: Path, source: str = SOURCE, timeout: str = "6 minutes", **table: Any
) -> FoldPlace:
    fold = {
        "python": f"{FILE}:Thirds",
        "timeout": timeout,
        "emits": {"what": "string", "mixed": "long", "since": "timestamp"},
    }
    tables = {"thirds": {"fold": fold, "group_by": ["key"], **table}}
    watermark = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    place = FoldPlace(root, clicks(tables=tables, watermark=watermark))
    place.write_class(source)
    return place


def ran(spark: SparkSession, place: FoldPlace, landed: Sequence[Sequence[Row]]) -> list[Row]:
    """A run for each, and after each gold is the fold of all rows, as far as it is closed."""
    rows: list[Row] = []
    for number, new in enumerate(landed):
        place.land(f"{number}.json", as_json(new))
        rows += new
        succeed(spark, place, f"run-{number}")
        every, closed_to = folded(rows, GAP), place.closed_to
        closed = {which: values for which, values in every.items() if values[0] <= closed_to}
        assert place.known() == closed, f"after run {number}"
    return rows


def ticks(*minutes: float) -> list[Row]:
    """Rows of a key of their own, by which the watermark moves."""
    return [event(minute, "tick") for minute in minutes]


def shuffled(key: str, first: float) -> list[Row]:
    """Rows of one episode, not in the order of their times."""
    minutes = [0, 1, 1, 2.5, 3, 3, 3, 7, 8]
    rows = [event(first + minute, key, amount) for amount, minute in enumerate(minutes)]
    Random(3).shuffle(rows)
    return rows


def test_what_the_tests_below_show_is_so_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    """A key for each: order, a late row into an open episode, two that one joins, a timer."""
    place, order = place_at(tmp_path), shuffled("order", 30)
    joined = [event(minute, "joined") for minute in (1, 2, 11, 12)]
    ran(spark, place, [
        [*order[:5], *joined, event(22, "open"), *ticks(34)],
        [*order[5:], event(6.5, "joined"), event(21, "open"), event(27, "open")],
        [event(25, "timer"), event(26, "timer"), *ticks(300)],
    ])  # fmt: skip
    rows = place.changes("thirds").to_pylist()
    assert {"apart", "late"} <= {row["cause"] for row in rows}
    gone = [row for row in rows if not row["rows"]]
    told = [(row["key"], row["window_start"], row["number"]) for row in gone]
    assert told == [("joined", DAY + 11 * MINUTE, 1)]
    assert {"order", "open", "joined", "timer"} == {which[1] for which in place.known()} - {"tick"}
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_rows_are_folded_in_the_order_of_their_times_and_not_as_they_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = shuffled("a", 0)
    ran(spark, place_at(tmp_path), [rows[:5], rows[5:] + ticks(8), ticks(40)])


@pytest.mark.long
def test_a_late_row_into_an_open_episode_brings_outputs_that_the_engine_never_emits(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The engine drops 21: of 22 and 27 it makes no third, and says nothing."""
    place = place_at(tmp_path)
    first = [event(22), *ticks(34)]
    ran(spark, place, [first, [event(21)], [event(27)], ticks(40), ticks(80)])
    causes = {row["cause"] for row in place.changes("thirds").to_pylist()}
    assert {"apart", "late"} <= causes
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_a_late_row_reopens_an_episode_that_had_ended(spark: SparkSession, tmp_path: Path) -> None:
    """1 and 2 ended at 8, when the frontier was at 10; 7 is late, and 12 in time belongs to it."""
    ran(spark, place_at(tmp_path), [
        [event(1), event(2), *ticks(20)], [event(7)], [event(12)], ticks(60),
    ])  # fmt: skip


@pytest.mark.long
def test_two_episodes_that_a_late_row_joins_are_folded_as_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path)
    apart = [event(1), event(2), event(11), event(12), *ticks(60)]
    ran(spark, place, [apart, [event(6.5)]])
    gone = [row for row in place.changes("thirds").to_pylist() if not row["rows"]]
    assert [(row["window_start"], row["number"]) for row in gone] == [(DAY + 11 * MINUTE, 1)]


@pytest.mark.long
def test_a_closed_episode_and_an_open_one_that_a_late_row_joins_are_folded_as_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran(spark, place_at(tmp_path), [
        [event(1), event(2), event(11), event(12), *ticks(20.5)],
        [event(6.5)], [event(13)], [event(14), *ticks(24)], ticks(60),
    ])  # fmt: skip


@pytest.mark.long
def test_a_timer_in_the_past_fires_in_the_batch_that_sets_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second run's rows of `a` are in time for a batch that a killed run would repeat, and
    their episode is long over for the watermark that the same run comes to."""
    place = place_at(tmp_path)
    ran(spark, place, [ticks(20), [event(15), event(16), *ticks(300)], ticks(301)])


@pytest.mark.long
def test_random_landings_with_several_keys_and_microseconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    landed = [
        [{**row, "amount": number % 3} for number, row in enumerate(rows)]
        for rows in landings(seed=7, runs=6)
    ]
    ran(spark, place_at(tmp_path), landed)


COLUMNS = {
    "a_map": "map<string,long>",
    "a_struct": "struct<x: long, y: map<string,array<double>>>",
    "an_array": "array<struct<m: map<string,string>, t: timestamp>>",
    "a_decimal": "decimal(20,4)",
    "some_bytes": "binary",
    "a_date": "date",
    "a_time": "timestamp",
    "a_double": "double",
    "a_float": "float",
    "a_flag": "boolean",
    "a_byte": "byte",
}
SHOWS = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class Nothing:
    rows: int = 0


class Thirds:
    def start(self) -> Nothing:
        return Nothing()

    def step(self, state: Nothing, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        shown = {name: value for name, value in row.items() if name.startswith(("a_", "an_", "s"))}
        return [{"what": repr(shown), "mixed": 0}]

    def on_timeout(self, state: Nothing) -> None:
        return None
"""


def test_a_class_sees_the_same_values_of_every_type_in_the_engine_and_from_bronze(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path, SHOWS)
    columns = {**place.content["source"]["columns"], **COLUMNS}
    derived = {"a_nan": "cast('NaN' as double)", "a_zero": "cast('-0.0' as double)"}
    source = {**place.content["source"], "columns": columns, "derive": derived}
    place = replace(place, content={**place.content, "source": source})
    times = "2026-07-01T10:00:00.123456+02:00"
    full = {
        "a_map": {"b": 1, "a": None},
        "a_struct": {"x": None, "y": {"k": [0.5, None], "l": None}},
        "an_array": [{"m": {"k": "v"}, "t": times}, None],
        "a_decimal": 12345.6789,
        "some_bytes": "aGVsbG8=",
        "a_date": "2026-07-01",
        "a_time": times,
        "a_double": 1e300,
        "a_float": 0.1,
        "a_flag": True,
        "a_byte": -3,
    }
    empty = {"a_map": {}, "a_struct": {"x": 1, "y": {}}, "an_array": []}
    rows = [event(1) | full, event(2) | empty, event(3)]
    place.land("1.json", [*as_json(rows), *as_json(ticks(40))])
    succeed(spark, place, "first")
    assert place.rejects().to_pylist() == []
    shown = [values[1] for which, values in sorted(place.known().items()) if which[1] == "a"]
    assert len(shown) == 3
    instant = "datetime.datetime(2026, 7, 1, 8, 0, 0, 123456, tzinfo=datetime.timezone.utc)"
    for part in (
        "'a_map': {'a': None, 'b': 1}",
        "'a_struct': {'x': None, 'y': {'k': [0.5, None], 'l': None}}",
        f"'an_array': [{{'m': {{'k': 'v'}}, 't': {instant}}}, None]",
        "'a_decimal': Decimal('12345.6789')",
        "'some_bytes': b'hello'",
        "'a_date': datetime.date(2026, 7, 1)",
        f"'a_time': {instant}",
        "'a_nan': nan",
        "'a_zero': -0.0",
    ):
        assert part in shown[0]
    assert audit(spark, place).outcome == "equal"
    assert {row["cause"] for row in place.changes("thirds").to_pylist()} == {"stream"}


KEYS = {
    "some_bytes": "cast(key as binary)",
    "a_date": "date'2026-03-29'",
    "a_decimal": "cast(0.10 as decimal(6,2))",
    # When clocks of some zones are turned.
    "a_time": "timestamp'2026-03-29 01:30:00.000001Z'",
}


def keyed_place(root: Path) -> FoldPlace:
    """A table by keys of other types, beside the same by the text that one of these is made of."""
    place = place_at(root)
    tables = place.content["tables"]
    keyed = {**tables["thirds"], "group_by": list(KEYS)}
    source = {**place.content["source"], "derive": KEYS}
    content = {**place.content, "source": source, "tables": {**tables, "keyed": keyed}}
    return replace(place, content=content)


@pytest.mark.long
def test_keys_of_every_type_are_those_of_bronze_also_where_a_timer_or_a_repair_tells_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = keyed_place(tmp_path)
    ran(
        spark, place, [[event(22), *ticks(34)], [event(21), event(23, "b")], [event(27)], ticks(80)]
    )
    rows = place.gold("keyed").to_pylist()
    assert {
        (row["window_start"], row["some_bytes"].decode(), row["number"]): (
            row["window_end"], row["what"], row["mixed"], row["since"], row["rows"],
        )
        for row in rows
    } == place.known()  # fmt: skip
    told = {tuple(row[name] for name in ("a_date", "a_decimal", "a_time")) for row in rows}
    instant = datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC)
    assert told == {(date(2026, 3, 29), Decimal("0.10"), instant)}
    assert {"apart", "late"} <= {row["cause"] for row in place.changes("keyed").to_pylist()}
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_so_they_are_on_a_machine_of_another_zone() -> None:
    """The test above once more, in a process that is started there."""
    name = test_keys_of_every_type_are_those_of_bronze_also_where_a_timer_or_a_repair_tells_them
    asked = [f"{__file__}::{name.__name__}", "-p", "no:xdist", "-p", "no:cacheprovider", "-q"]
    environment = {**os.environ, "TZ": "Europe/Vienna"}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *asked], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout[-3_000:]
    assert "1 passed" in ended.stdout


@pytest.mark.long
def test_a_column_that_bronze_lacks_yet_is_null(spark: SparkSession, tmp_path: Path) -> None:
    place = place_at(tmp_path, SHOWS)
    columns = {**place.content["source"]["columns"], "some_more": "long"}
    source = {**place.content["source"], "columns": columns}
    pipeline = replace(place, content={**place.content, "source": source}).pipeline
    rows = spark.createDataFrame([(DAY, DAY, "a", 1)], "_event_time timestamp, at timestamp, "
                                 "key string, amount long")  # fmt: skip
    streamed = streamed_operator(operator_of(pipeline, "thirds"))
    (found,) = streamed.ending_in({"bronze": rows}, DAY, DAY).toArrow().to_pylist()
    assert found["what"] == "{'some_more': None}"


# A class that fails.


def test_an_episode_that_fails_is_a_verdict_without_outputs_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path, FAILS)
    place.land("1.json", as_json([event(minute) for minute in (1, 2, 3)] + ticks(13)))
    succeed(spark, place, "first")
    assert {which[1:] for which in place.known()} == {("a", 1)}
    # In time, after an output that is closed: the episode fails as a whole.
    others = [event(4, "a", 0), *(event(minute, "b") for minute in (4, 5, 6))]
    place.land("2.json", as_json([*others, event(30, "a"), event(31, "a"), *ticks(100)]))
    succeed(spark, place, "second")
    found = {which[1:]: values[1] for which, values in place.known().items()}
    assert found == {("b", 1): "third", ("b", 2): "left", ("a", 1): "left"}
    (verdict,) = [row for row in place.changes("thirds").to_pylist() if row["_failure"]]
    assert (verdict["key"], verdict["number"], verdict["rows"]) == ("a", 0, 4)
    said = "ZeroDivisionError: integer division or modulo by zero, folds/thirds.py:26: `state."
    assert verdict["_failure"].startswith(said)
    assert "on row 4 of the episode, 2026-07-01T00:04:00Z" in verdict["_failure"]
    assert audit(spark, place).outcome == "equal"
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert "1 windows of thirds fail" in status.next_step


@pytest.mark.parametrize("how", ["recompute", pytest.param("seal", marks=pytest.mark.long)])
def test_outputs_of_before_go_with_the_verdict_of_what_closes_without_the_stream(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    table = {"stream": "recompute"} if how == "recompute" else {}
    place = place_at(tmp_path, FAILS, **table)
    place.land("1.json", as_json([event(minute) for minute in (1, 2, 3)] + ticks(13)))
    succeed(spark, place, "first", scheduled=DAY)
    assert {which[1:] for which in place.known()} == {("a", 1)}
    # The row that fails is in time: of that output, it comes later.
    more = ticks(100) if how == "recompute" else []
    place.land("2.json", as_json([event(4, "a", 0), *more]))
    succeed(spark, place, "second", scheduled=DAY)
    if how == "seal":
        assert {which[1:] for which in place.known()} == {("a", 1)}
        succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    assert [which for which in place.known() if which[1] == "a"] == []
    found = audit(spark, place)
    assert (found.outcome, found.tables["thirds"].found.failing) == ("equal", 1)


@pytest.mark.long
def test_a_verdict_goes_with_the_rows_that_made_it_another_episode(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A late row before the failing one makes the episode begin earlier: it fails there."""
    place = place_at(tmp_path, FAILS)
    place.land("1.json", as_json([event(10, "a", 0), event(11), *ticks(60)]))
    succeed(spark, place, "first")
    place.land("2.json", as_json([event(5)]))
    succeed(spark, place, "late")
    rows = place.changes("thirds").to_pylist()
    verdicts = sorted(row["window_start"] for row in rows if row["_failure"])
    gone = [row["window_start"] for row in rows if not row["rows"]]
    assert verdicts == [DAY + 5 * MINUTE, DAY + 10 * MINUTE]
    assert gone == [DAY + 10 * MINUTE]


NEEDS_ONE = SOURCE.replace(
    "        state.rows += 1\n",
    "        state.rows += 1\n"
    "        if row['amount'] == 2 and state.mixed % 2 == 0:\n"
    "            raise ValueError('nothing is open')\n",
).replace("* 31 + weight(row)", "* 2 + row['amount'] % 2")


@pytest.mark.long
def test_an_episode_that_late_rows_mend_and_break_again_is_told_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    """2 closes what 1, right before it, opens."""
    place = place_at(tmp_path, NEEDS_ONE)
    told = []
    for number, rows in enumerate(
        [[event(0, "a", 0), event(4, "a", 2), *ticks(60)], [event(3, "a", 1)], [event(1, "a", 2)]]
    ):
        place.land(f"{number}.json", as_json(rows))
        succeed(spark, place, f"run-{number}")
        status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
        told.append("nothing is open" in status.next_step)
    assert told == [True, False, True]
    assert "on row 2 of the episode, 2026-07-01T00:01:00Z" in status.next_step
    place.land("other.json", as_json(ticks(61)))
    succeed(spark, place, "other")
    verdicts = [row for row in place.changes("thirds").to_pylist() if row["_failure"]]
    assert len(verdicts) == 2


# Changes of the class.


def refusal(spark: SparkSession, place: FoldPlace) -> str:
    error = run_warm(spark, place, "changed").error
    assert error is not None
    return error.message


@pytest.fixture(scope="module")
def started(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FoldPlace:
    place = place_at(tmp_path_factory.mktemp("folds"))
    # And a table of windows beside the fold.
    both = {**place.content["tables"], **clicks()["tables"]}
    place = replace(place, content={**place.content, "tables": both})
    place.land("1.json", as_json([event(1), event(2), *ticks(40)]))
    succeed(spark, place, "first")
    return place


@pytest.mark.parametrize(
    ("source", "timeout", "said"),
    [
        (SOURCE.replace("* 31", "* 37"), "6 minutes", "the code of fold.python"),
        (SOURCE.replace("rows: int = 0", "rows: float = 0"), "6 minutes", "the code of"),
        (SOURCE, "7 minutes", "fold.timeout: 6 minutes → 7 minutes"),
    ],
)
def test_other_code_another_state_or_timeout_is_a_new_generation_before_anything_runs(
    spark: SparkSession, started: FoldPlace, source: str, timeout: str, said: str
) -> None:
    started.write_class(source)
    tables = started.content["tables"]
    table = tables["thirds"]
    changed = {**tables, "thirds": {**table, "fold": {**table["fold"], "timeout": timeout}}}
    try:
        found = refusal(spark, replace(started, content={**started.content, "tables": changed}))
    finally:
        started.write_class()
    assert said in found
    assert "tidemark migrate" in found


def test_a_comment_and_another_layout_are_no_change(
    spark: SparkSession, started: FoldPlace
) -> None:
    started.write_class(SOURCE.replace("class Thirds:", "# A comment.\nclass  Thirds:"))
    assert run_warm(spark, started, "commented").error is None
    started.write_class()


def test_the_state_lies_in_rocksdb_and_other_tables_keep_their_store(
    started: FoldPlace,
) -> None:
    stores = {}
    for name in started.content["tables"]:
        place_of = started.warehouse.places.query_checkpoint(name, 1)
        offsets = (Path(place_of) / "offsets" / "0").read_text()
        stores[name] = "RocksDB" in offsets
    assert stores == {"thirds": True, "per_10m": False}
    assert started.warehouse.gold("per_10m").existing().version() >= 1


@pytest.mark.long
def test_closed_rows_are_as_old_as_their_last_row(spark: SparkSession, tmp_path: Path) -> None:
    place = place_at(tmp_path)
    place.land("1.json", as_json([event(1), event(2), event(3), *ticks(13)]))
    succeed(spark, place, "first")
    (row,) = place.gold("thirds").to_pylist()
    assert (row["window_end"] - row["window_start"], row["status"]) == (
        timedelta(minutes=2), "final",
    )  # fmt: skip
    assert epoch_ms(row["window_end"]) == epoch_ms(place.closed_to)
