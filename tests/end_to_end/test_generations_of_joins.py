"""Another range, other keys, other delays, another kind: a table that joins goes on from both
bronzes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import first_of
from tests.end_to_end.test_migrations_beside_runs import Meanwhile
from tests.kit.running import quiet, run_warm, succeed
from tests.operators.contract.joins import OTHER, PartnerPlace, Row, join_table, joins
from tests.operators.contract.kinds import DAY, MINUTE, TABLE, Kind, KindPlace, event, of, windows
from tests.streaming.audits import audit
from tidemark import commit_point
from tidemark.gold.other_readers import other_readers
from tidemark.gold.state import gold_state
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Join, Pipeline, Table, WindowTable
from tidemark.recompute.migration_result import MigrationResult
from tidemark.recompute.rollback import plan_rollback, roll_back
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.losses import find_losses
from tidemark.runs.requests import MigrationRequest
from tidemark.storage.generation import generation_in_use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.streaming.progress import Progress

DELAYS = (10 * MINUTE, 5 * MINUTE)
PLAIN = WindowTable.model_validate(
    {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", "amount": "sum(amount)"},
        "output_mode": "append",
    }
)


@dataclass
class JoinedPlace(KindPlace):
    """A table of a kind, where both pipelines have these delays."""

    delays: tuple[timedelta, timedelta] = DELAYS

    @property
    def pipeline(self) -> Pipeline:
        found = super().pipeline
        delayed = found.watermark.model_copy(update={"delay": self.delays[0]})
        changed: dict[str, Any] = {"watermark": delayed}
        if self.kind.joins:
            partner = found.partners[OTHER]
            others = partner.watermark.model_copy(update={"delay": self.delays[1]})
            changed["partners"] = {OTHER: partner.model_copy(update={"watermark": others})}
        return found.model_copy(update=changed)


def nothing_known(rows: Sequence[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    raise AssertionError("only an audit knows what this table gives")


def of_join(table: Table, model: bool = True) -> Kind:
    return Kind("joins", table, joins(table) if model else nothing_known)  # type: ignore[arg-type]


LEFT = join_table("left", before=1)
PLAIN_KIND = Kind("windows", PLAIN, windows(PLAIN))
MORE = LEFT.model_copy(
    update={"measures": {**LEFT.measures, "most": f"max({OTHER}.cost)", "events": "count(*)"}}
)
ON_OTHERS = LEFT.model_copy(
    update={
        "join": Join.model_validate(
            {"with": OTHER, "on": {"amount": "cost"}, "within": "9 minutes", "type": "left"}
        )
    }
)
# What it was, what it is, and the delays that it is with.
Change = tuple[Kind, Kind, tuple[timedelta, timedelta]]
CHANGES: dict[str, Change] = {
    "a longer range": (of_join(LEFT), of_join(join_table("left", before=4, after=20)), DELAYS),
    "windows": (of_join(LEFT), PLAIN_KIND, DELAYS),
    "a join of windows": (PLAIN_KIND, of_join(LEFT), DELAYS),
    "a longer delay over there": (of_join(LEFT), of_join(LEFT), (10 * MINUTE, 30 * MINUTE)),
    "a shorter range": (of_join(LEFT), of_join(join_table("left", before=0, after=2)), DELAYS),
    "inner": (of_join(LEFT), of_join(join_table("inner", before=1)), DELAYS),
    "left of inner": (of_join(join_table("inner", before=1)), of_join(LEFT), DELAYS),
    "other columns": (of_join(LEFT), of_join(ON_OTHERS, model=False), DELAYS),
    "other windows": (
        of_join(LEFT),
        of_join(join_table("left", before=1, length=15, slide=5)),
        DELAYS,
    ),
    "no key": (of_join(LEFT), of_join(join_table("left", before=1, group_by=())), DELAYS),
    "more measures": (of_join(LEFT), of_join(MORE, model=False), DELAYS),
    "a shorter delay": (of_join(LEFT), of_join(LEFT), (MINUTE, 5 * MINUTE)),
}


def landed(spark: SparkSession, place: JoinedPlace, rows: list[Row], name: str, *new: Row) -> None:
    if place.kind.joins:
        place.land_rows(f"{name}.json", list(new))
    else:
        # The other pipeline goes on whoever reads it.
        partner = PartnerPlace(place.root, name=OTHER)
        partner.make()
        partner.append([row for row in new if row.get("side")])
        place.land_rows(f"{name}.json", [row for row in new if not row.get("side")])
    rows += new
    succeed(spark, place, name)


def run_three_times(spark: SparkSession, place: JoinedPlace, rows: list[Row]) -> None:
    """Late rows of both sides have mended windows, and some windows are open."""
    minutes = (0, 4, 11, 22, 33, 36, 51)
    first = [event(m, key, m) for m in minutes for key in ("a", None)]
    landed(spark, place, rows, "run-1", *first, of(2), of(12, "b"), of(40), of(50))
    landed(spark, place, rows, "run-2", event(8, "a", 100), event(52, "b", 7), of(5), of(54, "b"))
    landed(spark, place, rows, "run-3", event(63, "a", 5), of(63), of(49.5), event(64, "b"))
    is_right(spark, place, rows)


def goes_on(spark: SparkSession, place: JoinedPlace, rows: list[Row]) -> None:
    new = (event(23, "a", 1_000), event(64, "b", 6), event(85, "a", 1), of(65), of(23.5), of(80))
    landed(spark, place, rows, "run-4", *new)
    is_right(spark, place, rows)
    landed(spark, place, rows, "run-5", event(24, "c", 9), event(140, "a", 2), of(25, "c"), of(141))
    succeed(spark, place, "run-6")
    is_right(spark, place, rows)


def is_right(spark: SparkSession, place: JoinedPlace, rows: Sequence[Row]) -> None:
    """Gold is what one batch gives of what is closed, and the ledger can be built again."""
    assert audit(spark, place).outcome == "equal"
    if place.kind.model is not nothing_known:
        of_table = [row for row in rows if place.kind.joins or not row.get("side")]
        close = instant_of(gold_state(DeltaTable(place.places.gold(TABLE))).close_ms)
        every = place.kind.model(of_table)
        assert place.known() == {row: of for row, of in every.items() if of[0] <= close}
    seeds = seeds_of(place.pipeline, place.warehouse)
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse, seeds))
    assert [line for line in lines if line.difference] == []


def migrate(
    spark: SparkSession,
    place: JoinedPlace,
    rebuild: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> MigrationResult:
    from tidemark.streaming.jobs.act import JobAct
    from tidemark.streaming.jobs.migrate import migrate_once

    return migrate_once(
        JobAct(
            place.run("migrate", trigger="migration"),
            MigrationRequest(pipeline=place.name, table=TABLE, dry_run=dry_run, rebuild=rebuild),
            progress or quiet(),
            datetime.now(UTC),
            session=lambda *_: spark,
        )
    )


def migrated(spark: SparkSession, place: JoinedPlace, **how: Any) -> MigrationResult:
    result = migrate(spark, place, **how)
    assert result.error is None, result.error
    return result


def a_place(tmp_path: Path, kind: Kind) -> JoinedPlace:
    return JoinedPlace(tmp_path, kind=kind)


def readers_of_other(place: JoinedPlace) -> int:
    return len(other_readers(PartnerPlace(place.root, name=OTHER).warehouse))


@pytest.mark.long
@pytest.mark.parametrize("change", first_of(CHANGES, 1))
def test_gold_is_right_behind_the_change_and_behind_the_way_back(
    spark: SparkSession, tmp_path: Path, change: str
) -> None:
    before, after, delays = CHANGES[change]
    place, rows = a_place(tmp_path, before), list[Row]()
    run_three_times(spark, place, rows)
    other = replace(place, kind=after, delays=delays)
    refused = run_warm(spark, other).error
    assert refused is not None
    assert (refused.type, refused.retry_can_help) == ("PipelineChanged", False)
    assert "tidemark migrate" in refused.message
    looked = migrate(spark, other, dry_run=True)
    assert looked.error is None, looked.error
    assert readers_of_other(place) == before.joins
    migrated(spark, other)
    assert readers_of_other(place) == after.joins
    assert not find_losses(other.pipeline, other.warehouse)
    is_right(spark, other, rows)
    goes_on(spark, other, rows)
    roll_back(
        plan_rollback(other.pipeline, other.warehouse, TABLE),
        other.warehouse,
        "back",
        datetime.now(UTC),
    )
    succeed(spark, place, "behind")
    is_right(spark, place, rows)


@pytest.mark.long
def test_what_is_open_comes_from_the_new_query_with_rows_of_both_sides_of_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first open window starts at 40 minutes; its first row matches one that lies before it."""
    place, rows = a_place(tmp_path, of_join(LEFT)), list[Row]()
    early = (event(1), of(30), event(40.2), of(39.5), event(45, "b"), of(46, "b"), event(58))
    landed(spark, place, rows, "first", *early, of(58, "c"))
    assert gold_state(DeltaTable(place.places.gold(TABLE))).close_ms < DAY.timestamp() * 1_000 + (
        50 * 60_000
    )
    longer = replace(place, kind=of_join(join_table("left", before=2, after=9)))
    migrated(spark, longer)
    landed(spark, longer, rows, "on", event(90), of(90))
    is_right(spark, longer, rows)
    told = [row for row in longer.changes(TABLE).to_pylist() if row["run"] == "on"]
    assert (DAY + 40 * MINUTE, "a") in {(row["window_start"], row["key"]) for row in told}
    assert {row["cause"] for row in told} == {"stream"}
    assert longer.known()[DAY + 40 * MINUTE, "a"][-2] == 1


@pytest.mark.long
def test_rows_of_either_side_that_come_while_windows_are_computed_are_caught_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = a_place(tmp_path, of_join(LEFT)), list[Row]()
    run_three_times(spark, place, rows)

    def meanwhile() -> None:
        landed(spark, place, rows, "beside", event(3, "b", 50), of(4, "b"), event(70), of(70))
        late = [of(24), of(11.5)]
        PartnerPlace(place.root, name=OTHER).append(late)
        rows.extend(late)

    longer = replace(place, kind=of_join(join_table("left", before=4, after=20)))
    migrated(spark, longer, progress=Meanwhile(meanwhile))
    is_right(spark, longer, rows)
    goes_on(spark, longer, rows)


@pytest.mark.long
def test_a_lost_clock_and_a_new_table_of_the_other_pipeline_are_mended_by_a_rebuild(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = a_place(tmp_path, of_join(LEFT)), list[Row]()
    run_three_times(spark, place, rows)
    Path(place.places.clock(TABLE, 1, "left")).rename(tmp_path / "kept")
    partner = PartnerPlace(place.root, name=OTHER)
    partner.warehouse.bronze.existing()
    Path(partner.warehouse.bronze.uri).rename(tmp_path / "kept-too")
    lost = run_warm(spark, place, "lost").error
    assert lost is not None
    assert f"--rebuild {TABLE}" in lost.message
    partner.make()
    again = [of(2), of(63)]
    partner.append(again)
    rows = [row for row in rows if not row.get("side")] + again
    migrated(spark, place, rebuild=True)
    assert generation_in_use(place.warehouse, TABLE) == 2
    is_right(spark, place, rows)
    goes_on(spark, place, rows)


# The point that only these migrations have.
KILLS = [("reader of another bronze forgotten", "before"),
         ("reader of another bronze forgotten", "after")]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("point", "when"), KILLS)
def test_a_migration_that_ends_behind_its_commit_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, when: str
) -> None:
    place, rows = a_place(tmp_path, of_join(LEFT)), list[Row]()
    landed(spark, place, rows, "first", event(1), of(2), event(40), of(40))
    plain = replace(place, kind=PLAIN_KIND)

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == (point, when):
            raise RuntimeError(f"ended {when} {point}")

    monkeypatch.setattr(commit_point, "on_reach", reached)
    assert migrate(spark, plain).error is not None
    monkeypatch.setattr(commit_point, "on_reach", None)
    assert readers_of_other(place) == (when == "before")
    landed(spark, plain, rows, "second", event(60))
    is_right(spark, plain, rows)
