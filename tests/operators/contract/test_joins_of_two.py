"""Two pipelines, two tables: each query reads the other bronze at its own pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_generations_of_joins import PLAIN_KIND, JoinedPlace, migrated, of_join
from tests.kit.running import run_warm, succeed
from tests.operators.contract.joins import OTHER, PartnerPlace, Row, join_table, joins
from tests.operators.contract.kinds import MINUTE, TABLE, event, of
from tests.operators.contract.test_joins import OTHER_BRONZE, a_place, check, landed
from tests.streaming.audits import audit
from tidemark import commit_point
from tidemark.gold.other_readers import OtherReader, note_reader
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.storage.generation import generation_in_use
from tidemark.streaming.run import steps
from tidemark.upkeep.maintenance.readers import readers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.operators.contract.conftest import Joined
    from tidemark.streaming.progress import Progress
    from tidemark.streaming.run.aggregate import Aggregate
    from tidemark.streaming.run.queries import Running

SECOND = "u"


class TwoTables(JoinedPlace):
    """A second table that joins with the same other pipeline."""

    @property
    def pipeline(self) -> Pipeline:
        found = super().pipeline
        tables = {**found.tables, SECOND: join_table("inner", before=2)}
        return found.model_copy(update={"tables": tables})


def is_right(place: TwoTables, rows: Sequence[Row]) -> None:
    for name in (TABLE, SECOND):
        table = place.pipeline.tables[name]
        close = instant_of(gold_state(DeltaTable(place.places.gold(name))).close_ms)
        expected = joins(table)(rows)  # type: ignore[arg-type]
        operator = place.run("look").operator(name)
        known = {
            tuple(row[column] for column in operator.identity): tuple(
                row[column] for column in operator.values
            )
            for row in place.gold(name).to_pylist()
        }
        assert known == {row: of for row, of in expected.items() if of[0] <= close}


@pytest.mark.long
def test_two_tables_may_stand_for_different_versions_of_the_other_bronze(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = TwoTables(tmp_path, kind=a_place(tmp_path).kind)
    partner, start = PartnerPlace(tmp_path, name=OTHER), steps.start_aggregate
    rows = [event(1), of(2), event(30), of(31)]
    place.land_rows("1.json", rows)
    came = [of(4), of(32), of(60)]

    def one_after_the_other(spark: SparkSession, plan: Aggregate, progress: Progress) -> Running:
        if plan.name == SECOND:
            partner.append(came)
        running = start(spark, plan, progress)
        running.query.awaitTermination()
        return running

    monkeypatch.setattr(steps, "start_aggregate", one_after_the_other)
    result = succeed(spark, place, "apart")
    monkeypatch.setattr(steps, "start_aggregate", start)
    pins = [result.tables[name].inputs[OTHER_BRONZE] for name in (TABLE, SECOND)]
    assert pins[1] == pins[0] + 1
    # Each table is right by what it stands for.
    assert audit(spark, place).outcome == "equal"
    rows += came
    place.land_rows("2.json", [event(62)])
    rows.append(event(62))
    result = succeed(spark, place, "together")
    assert len({result.tables[name].inputs[OTHER_BRONZE] for name in (TABLE, SECOND)}) == 1
    is_right(place, rows)
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_upkeep_over_there_keeps_what_a_first_batch_that_did_not_end_has_planned(
    spark: SparkSession, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    longer = replace(place, kind=of_join(join_table("left", before=3)))
    migrated(spark, longer)
    before = readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri]
    assert [one for one in before if one.waiting is not None] == []

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == ("windows of the stream", "before"):
            raise RuntimeError("ended")

    monkeypatch.setattr(commit_point, "on_reach", reached)
    assert run_warm(spark, longer, "killed").error is not None
    monkeypatch.setattr(commit_point, "on_reach", None)
    found, *_ = readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri]
    assert found.waiting is not None
    succeed(spark, longer, "again")
    found, *_ = readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri]
    assert found.waiting is None


@pytest.mark.long
def test_upkeep_over_there_keeps_what_a_first_run_that_is_held_has_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = a_place(tmp_path), [event(1), of(2)]
    place.land_rows("1.json", rows)
    succeed(spark, place, "held", hold=True)
    partner = PartnerPlace(tmp_path, name=OTHER)
    read = partner.warehouse.bronze.existing().version()
    query, repair = readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri]
    assert (query.first, query.waiting) == (read + 1, None)
    assert repair.first == read
    assert repair.waiting is not None
    assert repair.advice is not None
    landed(spark, place, rows, "published", event(40), of(41))
    query, repair = readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri]
    assert (query.waiting, repair.waiting) == (None, None)


def test_upkeep_over_there_keeps_no_log_for_a_table_that_has_read_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So a migration to a join that did not end stops no maintenance, however short the log is."""
    place = JoinedPlace(tmp_path, kind=PLAIN_KIND)
    partner = PartnerPlace(tmp_path, name=OTHER)
    partner.make()
    for minute in range(3):
        partner.append([of(minute)])
    place.land_rows("1.json", [event(1)])
    succeed(spark, place, "first")
    for log in sorted((tmp_path / OTHER / "bronze" / "_delta_log").glob("*.json"))[:2]:
        partner.warehouse.bronze.existing().create_checkpoint()
        log.unlink()
    note_reader(partner.warehouse, OtherReader(pipeline=place.name, table=TABLE))
    assert readers(partner.pipeline, partner.settings)[partner.warehouse.bronze.uri] == ()


@pytest.mark.long
@pytest.mark.parametrize("late", [pytest.param(False, id="in-time"), pytest.param(True, id="late")])
def test_a_row_that_is_alone_for_some_runs_is_matched_when_its_match_comes(
    spark: SparkSession, tmp_path: Path, late: bool
) -> None:
    """The other side goes on with other keys, or stands still: until then nothing closes."""
    place, rows = a_place(tmp_path), list[Row]()
    landed(spark, place, rows, "both", event(1), event(3, "b"), of(2, "c"))
    for number in range(2):
        new = [event(20 + 20 * number, "d")]
        if late:
            new.append(of(20 + 20 * number, "d"))
        landed(spark, place, rows, f"run-{number}", *new)
    window = instant_of(0) + (event(0)["at"] - instant_of(0))
    assert ((window, "a") in place.known()) == late
    landed(spark, place, rows, "match", of(5), of(6, "b"))
    landed(spark, place, rows, "on", event(90), of(90))
    assert place.known()[window, "a"][-2:] == (1, 1)
    assert place.known()[window, "b"][-2:] == (1, 1)
    statuses = {(row["window_start"], row["key"]): row["status"] for row in _rows(place)}
    assert statuses[window, "a"] == ("corrected" if late else "final")


def _rows(place: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.gold(TABLE).to_pylist()
    return found


def test_another_delay_over_there_is_told_before_anything_is_written(
    spark: SparkSession, joined: Joined
) -> None:
    first, _ = joined()
    place = JoinedPlace(first.root, kind=first.kind)
    bronze, changes = place.bronze().num_rows, place.changes(TABLE).num_rows
    other = replace(place, delays=(10 * MINUTE, timedelta(minutes=6)))
    other.land_rows("2.json", [event(50), of(50)])
    error = run_warm(spark, other, "changed").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("PipelineChanged", False)
    assert f"watermark.delay of {OTHER}: 5 minutes → 6 minutes" in error.message
    assert (place.bronze().num_rows, place.changes(TABLE).num_rows) == (bronze, changes)
    assert generation_in_use(place.warehouse, TABLE) == 1
    succeed(spark, place, "as it was")


@pytest.mark.long
@pytest.mark.parametrize("how", ["restored", "copied back"])
def test_the_other_bronze_as_it_was_before_is_a_loss(
    spark: SparkSession, joined: Joined, tmp_path: Path, how: str
) -> None:
    place, rows = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    copytree(place.root / OTHER / "bronze", tmp_path / "kept")
    landed(spark, place, rows, "second", event(60), of(4), of(60))
    place.land_rows("3.json", [event(61)])
    if how == "restored":
        bronze = partner.warehouse.bronze.existing()
        bronze.restore(bronze.version() - 1)
    else:
        rmtree(place.root / OTHER / "bronze")
        copytree(tmp_path / "kept", place.root / OTHER / "bronze")
    error = run_warm(spark, place, "lost").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("TableLost", False)
    assert f"{OTHER}/bronze" in error.message
    check(place, rows)


@pytest.mark.long
def test_rows_of_the_other_pipeline_that_come_during_a_run_wait_for_the_next_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer holds another lease: nothing stops it between the queries' end and the repair."""
    place, partner = a_place(tmp_path), PartnerPlace(tmp_path, name=OTHER)
    rows = [event(1), of(2), event(60), of(60)]
    place.land_rows("1.json", rows)
    came, repair_tables = [of(3), of(70)], steps.repair_tables

    def meanwhile(*given: Any) -> Any:
        partner.append(came)
        return repair_tables(*given)

    monkeypatch.setattr(steps, "repair_tables", meanwhile)
    succeed(spark, place, "first")
    monkeypatch.setattr(steps, "repair_tables", repair_tables)
    check(place, rows)
    assert isinstance(run_preflight(place.run("look")), SparkNeeded)
    rows += came
    succeed(spark, place, "second")
    check(place, rows)
    assert isinstance(run_preflight(place.run("look")), NothingNew)
