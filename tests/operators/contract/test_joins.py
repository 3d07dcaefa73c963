"""What the engine does with two streams in scheduled runs, each with the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.kit.running import run_warm, succeed
from tests.operators.contract.joins import (
    OTHER,
    PARTNER,
    PartnerPlace,
    Row,
    join_table,
    joins,
    sides,
)
from tests.operators.contract.kinds import (
    DAY,
    KINDS,
    MINUTE,
    TABLE,
    Kind,
    KindPlace,
    Known,
    event,
    joined_landings,
    of,
    place_of,
)
from tests.streaming.audits import audit
from tidemark import commit_point
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import StateVerdict
from tidemark.gold.other_readers import OtherReader, other_readers
from tidemark.gold.state import gold_state
from tidemark.operators.joins.joins import input_name
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import JoinTable
from tidemark.runs import clocks
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.streaming.run import steps
from tidemark.upkeep.checkpoints_in_use import checkpoints_in_use
from tidemark.upkeep.maintenance.readers import readers
from tidemark.upkeep.pipeline_housekeeping import (
    check_no_housekeeping_refused,
    housekeep_pipeline,
)
from tidemark.upkeep.state_check import check_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.operators.contract.conftest import Joined

LONG = pytest.mark.long
OTHER_BRONZE = input_name(OTHER)


def a_place(tmp_path: Path, table: JoinTable | None = None) -> KindPlace:
    kind = KINDS["joins-left"]
    if table is not None:
        kind = Kind("joins", table, joins(table))
    return place_of(tmp_path, kind)


def watermark(place: KindPlace) -> int:
    return place.run("look").table(TABLE).watermark_ms()


def expected_watermark(rows: Sequence[Row]) -> int:
    """The least over both sides of the newest event time less the delay; 0 where one has none."""
    left, right = sides(rows)
    if not left or not right:
        return 0
    newest = [
        max(epoch_ms(row["at"]) for row in side) - delay * 60_000
        for side, delay in ((left, 10), (right, 5))
    ]
    return max(min(newest), 0)


def check(place: KindPlace, rows: Sequence[Row]) -> int:
    """Gold is what one batch gives of the windows that are closed; up to where they are."""
    close = gold_state(DeltaTable(place.places.gold(TABLE))).close_ms
    every = place.kind.model(rows)
    assert place.known() == {
        window: values for window, values in every.items() if epoch_ms(values[0]) <= close
    }
    return close


def landed(
    spark: SparkSession, place: KindPlace, rows: list[Row], name: str, *new: Row, **how: Any
) -> None:
    place.land_rows(f"{name}.json", list(new))
    rows += new
    succeed(spark, place, name, **how)
    check(place, rows)


@pytest.mark.long
def test_each_side_alone_and_in_turn_moves_the_watermark_as_both_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = a_place(tmp_path), list[Row]()
    for name, new in (
        ("both", (event(1), of(2))),
        ("left", (event(61), event(62, None))),
        ("right", (of(90), of(70, "b"))),
        ("right-again", (of(95),)),
        ("left-again", (event(120, None),)),
    ):
        landed(spark, place, rows, name, *new)
        assert watermark(place) == max(expected_watermark(rows), 0)


@LONG
def test_a_side_that_is_silent_for_ten_runs_closes_nothing_and_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = a_place(tmp_path), list[Row]()
    landed(spark, place, rows, "both", event(1), of(2), event(4, "b"))
    for number in range(10):
        landed(spark, place, rows, f"left-{number}", event(20 + 10 * number))
        assert watermark(place) == epoch_ms(DAY - 3 * MINUTE)
    assert place.known() == {}
    landed(spark, place, rows, "right", of(25), of(150))
    assert check(place, rows) > epoch_ms(DAY + 80 * MINUTE)


def test_a_late_match_of_a_row_that_came_out_as_unmatched_mends_its_window(
    spark: SparkSession, joined: Joined
) -> None:
    place, rows = joined()
    landed(spark, place, rows, "on", event(1, "alone"), event(60), of(60))
    assert place.known()[DAY, "alone"][-2:] == (0, 1)
    landed(spark, place, rows, "late", of(5, "alone"))
    assert place.known()[DAY, "alone"][-2:] == (1, 1)
    (row,) = (one for one in place.gold(TABLE).to_pylist() if one["key"] == "alone")
    assert (row["status"], row["revision"]) == ("corrected", 1)


@LONG
@pytest.mark.parametrize("late", ["left", "right"])
def test_what_the_engine_drops_though_its_window_is_open_is_there_when_it_closes(
    spark: SparkSession, tmp_path: Path, late: str
) -> None:
    """A row is late by its own time, and the window behind it closes by the range later."""
    place, rows = a_place(tmp_path), list[Row]()
    landed(spark, place, rows, "both", event(1), of(2, "b"), event(30), of(25, "b"))
    assert watermark(place) == epoch_ms(DAY + 20 * MINUTE)
    # Before the watermark; the windows from 10 minutes on are open up to 27 minutes and more.
    new = [event(19)] if late == "left" else [of(19.5)]
    rest = [event(18, "b")] if late == "left" else [event(20.5)]
    landed(spark, place, rows, "late", *new, *rest)
    landed(spark, place, rows, "on", event(90), of(90))
    assert check(place, rows) > epoch_ms(DAY + 70 * MINUTE)


# Points that only joins have, and where the tests below end a run.
KILLS = [
    ("clock row", "before"),
    ("clock row", "after"),
    ("old clock rows removed", "before"),
    ("old clock rows removed", "after"),
    ("reader of another bronze noted", "before"),
    ("reader of another bronze noted", "after"),
]


@pytest.mark.parametrize(
    ("point", "when"),
    [
        *(pytest.param(*kill, marks=LONG) for kill in KILLS[:4]),
        pytest.param("windows of the stream", "before", marks=LONG),
        ("windows of the stream", "after"),
    ],
)
def test_a_kill_between_changes_no_watermark(
    spark: SparkSession, joined: Joined, monkeypatch: pytest.MonkeyPatch, point: str, when: str
) -> None:
    monkeypatch.setattr(clocks, "_OFTEN", 1)
    place, rows = joined()
    new = [event(60), of(45)]
    place.land_rows("killed.json", new)
    rows += new

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == (point, when):
            raise RuntimeError(f"ended {when} {point}")

    monkeypatch.setattr(commit_point, "on_reach", reached)
    assert run_warm(spark, place, "killed").error is not None
    monkeypatch.setattr(commit_point, "on_reach", None)
    # The other side goes on meanwhile.
    PartnerPlace(place.root, name=OTHER).append([of(80)])
    rows.append(of(80))
    succeed(spark, place, "again")
    check(place, rows)
    assert watermark(place) == expected_watermark(rows)


@LONG
@pytest.mark.parametrize(("point", "when"), KILLS[4:])
def test_a_reader_is_noted_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, when: str
) -> None:
    place, rows = a_place(tmp_path), [event(1), of(2)]
    place.land_rows("both.json", rows)

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == (point, when):
            raise RuntimeError(f"ended {when} {point}")

    monkeypatch.setattr(commit_point, "on_reach", reached)
    assert run_warm(spark, place, "killed").error is not None
    monkeypatch.setattr(commit_point, "on_reach", None)
    partner = PartnerPlace(tmp_path, name=OTHER)
    assert len(other_readers(partner.warehouse)) == (1 if when == "after" else 0)
    succeed(spark, place, "again")
    assert len(other_readers(partner.warehouse)) == 1
    landed(spark, place, rows, "on", event(70), of(70))


def test_without_anything_new_on_either_side_there_is_nothing_for_spark(
    joined: Joined,
) -> None:
    place, _ = joined()
    assert isinstance(run_preflight(place.run("look")), NothingNew)
    PartnerPlace(place.root, name=OTHER).append([of(60)])
    found = run_preflight(place.run("look"))
    assert isinstance(found, SparkNeeded)
    assert OTHER_BRONZE in found.because


def test_pins_say_what_the_query_has_read_of_the_other_bronze(
    spark: SparkSession, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    place.land_rows("more.json", [event(9), of(10)])

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == ("windows of the stream", "before") and not came:
            came.append(of(3))
            partner.append(came)

    came: list[Row] = []
    monkeypatch.setattr(commit_point, "on_reach", reached)
    result = succeed(spark, place, "second")
    monkeypatch.setattr(commit_point, "on_reach", None)
    bronze = partner.warehouse.bronze.existing()
    assert result.tables[TABLE].inputs[OTHER_BRONZE] == bronze.version() - 1
    state = gold_state(DeltaTable(place.places.gold(TABLE)), place.kind.operator.inputs)
    assert state.inputs[OTHER_BRONZE] == bronze.version() - 1


@LONG
def test_another_or_an_older_table_of_the_other_pipeline_is_a_loss(
    spark: SparkSession, joined: Joined, tmp_path: Path
) -> None:
    place, rows = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    kept = tmp_path / "kept"
    (place.root / OTHER / "bronze").rename(kept)
    gone = run_warm(spark, place, "gone").error
    assert gone is not None
    assert gone.type == "TableLost"
    assert f"{OTHER}/bronze is not there" in gone.message
    partner.make()
    partner.append([of(2)])
    replaced = run_warm(spark, place, "replaced").error
    assert replaced is not None
    assert "is another table" in replaced.message
    check(place, rows)


def test_clock_rows_that_are_gone_are_a_loss(
    spark: SparkSession, joined: Joined, tmp_path: Path
) -> None:
    place, _ = joined()
    Path(place.places.clock(TABLE, 1, "left")).rename(tmp_path / "kept")
    error = run_warm(spark, place, "gone").error
    assert error is not None
    assert error.type == "TableLost"
    assert "clocks/left is not there" in error.message


def test_without_the_other_bronze_nothing_runs(spark: SparkSession, tmp_path: Path) -> None:
    place = a_place(tmp_path)
    place.land("1.json", [])
    error = run_warm(spark, place, "alone").error
    assert error is not None
    assert "has not run yet" in error.message


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (join_table("left", before=1, after=8), "join.within"),
        pytest.param(join_table("inner", before=1), "join.type", marks=LONG),
        pytest.param(join_table("left", before=1, group_by=()), "group_by", marks=LONG),
    ],
)
def test_a_changed_join_is_refused_before_anything_runs(
    spark: SparkSession, joined: Joined, changed: JoinTable, what: str
) -> None:
    place, _ = joined()
    other = replace(place, kind=Kind("changed", changed, joins(changed)))
    error = run_warm(spark, other, "changed").error
    assert error is not None
    assert what in error.message
    assert "tidemark migrate" in error.message


def test_a_clock_row_that_does_not_arrive_fails_the_run_and_publishes_nothing(
    spark: SparkSession, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, rows = joined()
    place.land_rows("on.json", [event(60), of(60)])
    monkeypatch.setattr(steps, "clocks_observed", lambda running: {})
    error = run_warm(spark, place, "blind").error
    assert error is not None
    assert error.type == "EngineChanged"
    check(place, rows)


@LONG
@pytest.mark.parametrize("seed", range(200))
def test_random_runs_of_both_sides_are_what_one_batch_gives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Lateness on both sides, silence, held runs, ended runs, rows that come meanwhile."""
    draw = Random(seed)
    how = draw.choice(["inner", "left"])
    before, after = draw.choice([(0, 7), (3, 0), (2, 9), (0, 15)])
    length, slide, offset = draw.choice([(10, 10, 0), (15, 5, 2)])
    place = a_place(tmp_path, join_table(how, before, after, length, slide, offset=offset))
    rows: list[Row] = []
    held = False
    for number, new in enumerate(joined_landings(seed, runs=draw.randint(4, 7))):
        place.land_rows(f"{number}.json", new)
        rows += new
        if draw.random() < 0.3:
            ending = draw.choice(["clock row", "windows of the stream", "recomputed windows"])
            at_end = draw.choice(["before", "after"])

            def reached(
                name: str,
                at: str,
                given: tuple[object, ...],
                wanted: tuple[str, str] = (ending, at_end),
            ) -> None:
                if (name, at) == wanted:
                    raise RuntimeError("ended")

            monkeypatch.setattr(commit_point, "on_reach", reached)
            run_warm(spark, place, f"killed-{number}")
            monkeypatch.setattr(commit_point, "on_reach", None)
            if draw.random() < 0.5:
                meanwhile = [of(40 * number + draw.uniform(0, 60), draw.choice("ab"))]
                PartnerPlace(tmp_path, name=OTHER).append(meanwhile)
                rows += meanwhile
        held = draw.random() < 0.2
        scheduled = DAY + (timedelta(days=2) if draw.random() < 0.1 else timedelta(0))
        succeed(spark, place, f"run-{number}", hold=held, scheduled=scheduled)
        if not held:
            check(place, rows)
            assert watermark(place) >= expected_watermark(rows)
    succeed(spark, place, "last")
    check(place, rows)


@pytest.mark.long
def test_upkeep_between_runs_takes_a_join_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    place, rows = a_place(tmp_path), list[Row]()
    for number in range(2):
        new = [event(40 * number), of(40 * number + 2), event(40 * number + 9, "b")]
        landed(spark, place, rows, f"run-{number}", *new)
    checked = check_pipeline(place.pipeline, place.settings)
    assert {one.state.verdict for one in checked if one.state} == {StateVerdict.HEALTHY}
    for one in checkpoints_in_use(place.pipeline, place.warehouse):
        told = judge_checkpoint(read_checkpoint(one.place), datetime.now(UTC))
        assert told.verdict is CheckpointVerdict.CLEAN_END
        assert told.damage == ()
    kept = housekeep_pipeline(place.pipeline, place.settings, "upkeep", datetime.now(UTC))
    check_no_housekeeping_refused(place.name, kept)
    landed(spark, place, rows, "after", event(110), of(110))
    landed(spark, place, rows, "late", of(44), of(120))


def test_the_other_pipelines_upkeep_knows_who_reads_its_bronze(
    joined: Joined,
) -> None:
    place, _ = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    reader = OtherReader(pipeline=place.name, table=TABLE)
    assert other_readers(partner.warehouse) == (reader,)
    partner.append([of(50)])
    query, repair = readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri]
    assert query.who == f"the query of {reader.name}"
    assert repair.who == f"the repair of late rows of {reader.name}"
    for found in (query, repair):
        assert found.first <= partner.warehouse.bronze.existing().version()
        assert found.waiting is not None
    # A publish that moves no frontier may leave gold behind: no run has to mend that.
    assert query.advice is not None
    assert repair.advice is None


@LONG
def test_a_column_that_the_other_bronze_lacks_yet_is_one_clear_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other pipeline's file has it, and no run of that pipeline since."""
    table = join_table("left").model_copy(
        update={"measures": {"amount": "sum(amount)", "cost": f"sum({OTHER}.tax)"}}
    )
    place = place_of(tmp_path, Kind("joins", table, joins(table)))
    place.land_rows("1.json", [event(1), of(2)])
    monkeypatch.setitem(PARTNER["source"]["columns"], "tax", "long")
    error = run_warm(spark, place, "first").error
    assert error is not None
    assert "The bronze of orders has no column 'tax' yet" in error.message
    assert error.retry_can_help
    assert place.bronze().num_rows == 1


@LONG
def test_a_join_may_read_no_column_of_the_other_side(spark: SparkSession, tmp_path: Path) -> None:
    measures = {"amount": "sum(amount)", "cost": "cast(null as long)"}
    table = join_table("left").model_copy(update={"measures": measures})

    def model(rows: Sequence[Row]) -> Known:
        every = joins(table)(rows)
        return {row: (end, amount, None, *more) for row, (end, amount, _, *more) in every.items()}

    place, rows = place_of(tmp_path, Kind("joins", table, model)), list[Row]()
    landed(spark, place, rows, "first", event(1), of(2), event(3, "b"))
    landed(spark, place, rows, "second", event(40), of(41), of(4, "b"))
    landed(spark, place, rows, "third", event(80), of(81), event(2))
    assert audit(spark, place).outcome == "equal"


@LONG
def test_clock_rows_of_former_runs_go_and_runs_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, rows = a_place(tmp_path), list[Row]()
    monkeypatch.setattr(clocks, "_OFTEN", 1)
    for number in range(3):
        landed(spark, place, rows, f"run-{number}", event(40 * number), of(40 * number + 2))
        assert watermark(place) == expected_watermark(rows)
    held = DeltaTable(place.places.clock(TABLE, 1, "left")).to_pyarrow_dataset().to_table()
    assert held.column("run").to_pylist() == ["run-2"]
