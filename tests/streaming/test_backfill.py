"""A backfill brings closed windows to what bronze says, and touches nothing else."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.killed import killed
from tests.kit.running import Place, query, sorted_rows, succeed
from tests.kit.windows import at
from tests.operators.contract.kinds import DAY, KINDS, MINUTE, TABLE, place_of
from tests.operators.contract.kinds import event as row_at
from tests.streaming.audits import (
    accept_by_hand,
    audit,
    backfill,
    backfill_warm,
    event,
    files_below,
    gold_of,
    nothing_written,
)
from tidemark.gold.plan import GoldState
from tidemark.gold.published import publish_note
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import epoch_ms
from tidemark.recompute.backfill_result import BackfillResult, backfill_lines
from tidemark.runs.acceptance import CheckOverride
from tidemark.storage.delta.notes import as_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DERIVED = ("status", "revision", "updated_by")
BY_HAND = """
    SELECT make_timestamptz(epoch_us(b.at) // 600000000 * 600000000) AS start, key,
        count(*) AS events, sum(amount)::BIGINT AS amount
    FROM bronze b GROUP BY ALL
"""


def land_first(spark: SparkSession, root: Path) -> Place:
    """Eight windows in 10:00-10:40 that are closed (up to 10:41), two open ones from 10:50."""
    place = Place(root)
    rows = [event(10, m, key, m) for m in (0, 11, 22, 33, 51) for key in ("a", None)]
    place.land("1.json", rows)
    succeed(spark, place, "run-1")
    return place


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return land_first(spark, tmp_path_factory.mktemp("backfill") / "root")


@pytest.fixture
def place(landed: Place, tmp_path: Path) -> Place:
    """A copy in which no run can go on (checkpoints hold absolute paths), but a backfill can."""
    return landed.copied(tmp_path / "root")


def correct_bronze(place: Place) -> None:
    """One window gets another value, and one loses its only row."""
    bronze = DeltaTable(place.places.bronze)
    bronze.update({"amount": "amount + 100"}, predicate="key = 'a' AND amount = 11")
    bronze.delete("key IS NULL AND amount = 22")


def revisions(place: Place) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {
        (row["window_start"].minute, row["key"]): (row["amount"], row["status"], row["revision"])
        for row in place.gold().to_pylist()
        if row["updated_by"] != "run-1"
    }


@dataclass(frozen=True)
class Mended:
    """A place whose bronze was corrected, and then filled: gold's state before, and the result."""

    place: Place
    before: GoldState
    result: BackfillResult


@pytest.fixture(scope="module")
def mended(spark: SparkSession, landed: Place, tmp_path_factory: pytest.TempPathFactory) -> Mended:
    place = landed.copied(tmp_path_factory.mktemp("mended") / "root")
    correct_bronze(place)
    before = gold_state(gold_of(place))
    asked = {"run_id": "mend", "reason": "ticket 7"}
    return Mended(place, before, backfill(spark, place, at(10), at(10, 40), **asked))


def test_corrected_rows_of_bronze_come_into_gold_as_one_commit_with_revisions(
    spark: SparkSession, mended: Mended
) -> None:
    place, before, result = mended.place, mended.before, mended.result
    after = gold_state(gold_of(place))
    assert revisions(place) == {(10, "a"): (111, "corrected", 1)}
    assert place.gold().num_rows == 9
    assert (result.published_windows, result.appended, result.gold) == (2, 2, before.version + 1)
    kept = replace(after, version=before.version, changes=before.changes)
    assert (kept, after.changes) == (
        before,
        DeltaTable(place.places.changes("per_10m", 1)).version(),
    )
    assert audit(spark, place).outcome == "equal"
    by_hand = query(BY_HAND, bronze=place.bronze())
    in_gold = query("SELECT window_start, key, events, amount FROM gold", gold=place.gold())
    assert sorted(in_gold, key=repr) == sorted(by_hand, key=repr)


def test_the_history_and_the_accounts_say_that_it_was_a_backfill(mended: Mended) -> None:
    place = mended.place
    told = "SELECT cause, run, minute(window_start), amount, rows, batch >= 0 FROM changes"
    history = query(f"{told} WHERE cause = 'backfill' ORDER BY 3", changes=place.changes())
    assert history == [
        ("backfill", "mend", 10, 111, 1, True),
        ("backfill", "mend", 20, None, 0, True),
    ]
    lines = query(
        "SELECT run, windows, published, in_bronze, balanced FROM l WHERE kind = 'backfill'",
        l=place.table(place.places.ledger),
    )
    assert lines == [("mend", 7, 7, 7, True)]
    told = "SELECT run, outcome, reason FROM r WHERE trigger = 'backfill'"
    runs = query(told, r=place.table(place.places.runs))
    assert runs == [("mend", "succeeded", "ticket 7")]


@pytest.mark.long
def test_a_dry_run_tells_the_same_and_writes_no_file(spark: SparkSession, place: Place) -> None:
    correct_bronze(place)
    shutil.rmtree(place.places.lease)
    with nothing_written(place.root):
        looked = backfill(spark, place, at(10), at(10, 40), dry_run=True)
    assert looked.found == backfill(spark, place, at(10), at(10, 40)).found
    told = "\n".join(backfill_lines(looked))
    assert "windows with another value: 1" in told
    assert "2026-07-01T10:10:00Z key=a: (amount=11) → (amount=111)" in told
    assert "windows that go, because bronze has no row of them: 1" in told
    assert told.endswith("dry run: nothing was written")


def guarded(place: Place, **check: Any) -> Place:
    """The same place, where its table has a check."""
    table = {**place.content["tables"]["per_10m"], "checks": [check]}
    return replace(place, content={**place.content, "tables": {"per_10m": table}})


def test_a_failed_check_keeps_a_backfill_from_gold_and_changes_until_somebody_accepts_it(
    spark: SparkSession, place: Place
) -> None:
    correct_bronze(place)
    place = guarded(place, fail="amount < 100")
    tables = [Path(place.places.gold("per_10m")), Path(place.places.changes("per_10m", 1))]
    before = [files_below(table) for table in tables]
    with nothing_written(Path(place.places.quality)):
        looked = backfill(spark, place, at(10), at(10, 40), dry_run=True)
    assert looked.checks == ("check failed: per_10m: amount < 100: 1 of 1 rows break it",)
    error = backfill_warm(spark, place, at(10), at(10, 40)).error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("ChecksFailed", False)
    assert "window_start=2026-07-01T10:10:00+00:00" in error.message
    assert "amount=111" in error.message
    assert "nothing was appended" in error.message
    assert [files_below(table) for table in tables] == before
    known = CheckOverride("a refund, known", "ada")
    published = backfill(spark, place, at(10), at(10, 40), run_id="again", accepted=known)
    assert published.checks == ("check overridden: per_10m: amount < 100: 1 of 1 rows break it",)
    assert revisions(place) == {(10, "a"): (111, "corrected", 1)}
    told = query(
        "SELECT run, passed, accepted, accepted_by FROM q WHERE starts_with(\"check\", 'amount') "
        "ORDER BY time, accepted IS NOT NULL",
        q=place.table(place.places.quality),
    )
    assert told == [
        ("backfill", False, None, None),
        ("again", False, None, None),
        ("again", False, "a refund, known", "ada"),
    ]


@pytest.mark.long
def test_what_a_killed_backfill_left_is_held_to_the_checks_too(
    spark: SparkSession, place: Place
) -> None:
    correct_bronze(place)
    with killed("before", "ledger"):
        assert backfill_warm(spark, place, at(10), at(10, 40)).error is not None
    assert query("SELECT count(*) FROM c WHERE cause = 'backfill'", c=place.changes()) == [(2,)]
    error = backfill_warm(spark, guarded(place, fail="amount < 100"), at(10), at(10, 40)).error
    assert error is not None
    assert error.type == "ChecksFailed"
    assert backfill(spark, place, at(10), at(10, 40)).published_windows == 2


@pytest.mark.long
def test_a_warning_lets_a_backfill_pass_and_is_told_and_so_is_the_range(
    spark: SparkSession, place: Place
) -> None:
    correct_bronze(place)
    result = backfill(spark, guarded(place, warn="amount < 100"), at(10), at(10, 40))
    assert result.checks == ("warning: per_10m: amount < 100: 1 of 1 rows break it",)
    assert result.published is not None
    range_ms = (result.published.start_ms, result.published.end_ms)
    assert range_ms == (epoch_ms(at(10, 10)), epoch_ms(at(10, 30)))
    # As after a try that died behind gold's commit, with another publish in between.
    note = publish_note("run-2", at(12))
    gold = gold_of(place)
    write_deltalake(
        gold, gold.to_pyarrow_table(), mode="overwrite",
        commit_properties=CommitProperties(
            custom_metadata=as_metadata(note),
            app_transactions=[Transaction("changes", result.changes or 0)],
        ),
    )  # fmt: skip
    again = backfill(spark, place, at(10), at(10, 40))
    assert (again.published_windows, again.published) == (None, result.published)
    assert backfill(spark, place, at(10), at(10, 40), run_id="other").published is None


def test_windows_that_only_go_are_held_to_no_expectation(spark: SparkSession, place: Place) -> None:
    DeltaTable(place.places.bronze).delete("key IS NULL AND amount = 22")
    most = {"ExpectColumnMaxToBeBetween": {"column": "amount", "max_value": 100}}
    result = backfill(spark, guarded(place, fail=most), at(10), at(10, 40))
    assert (result.checks, result.published_windows) == ((), 1)


@pytest.mark.long
def test_where_nothing_differs_gold_stays_at_its_version(spark: SparkSession, place: Place) -> None:
    version = gold_of(place).version()
    result = backfill(spark, place, at(10), at(10, 40))
    assert (result.published_windows, gold_of(place).version()) == (None, version)


@pytest.mark.long
def test_windows_outside_of_the_range_stay(spark: SparkSession, place: Place) -> None:
    correct_bronze(place)
    backfill(spark, place, at(10, 20), at(10, 40))
    assert (revisions(place), place.gold().num_rows) == ({}, 9)


def test_open_windows_are_refused_with_the_frontier_and_the_largest_range(
    spark: SparkSession, place: Place
) -> None:
    correct_bronze(place)
    version = gold_of(place).version()
    error = backfill_warm(spark, place, at(10, 5), at(10, 50)).error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("BackfillRefused", False)
    assert "gold is closed up to 2026-07-01T10:41:00Z" in error.message
    assert "--from 2026-07-01T10:05:00Z --to 2026-07-01T10:40:00Z" in error.message
    assert gold_of(place).version() == version
    assert backfill(spark, place, at(10, 5), at(10, 40)).published_windows == 2


@pytest.mark.long
def test_changes_that_wait_for_their_publish_are_not_taken_along(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = land_first(spark, tmp_path)
    place.land("2.json", [event(10, 1, "late", 5), event(10, 52, "a", 5)])
    held = succeed(spark, place, "run-2", hold=True)
    correct_bronze(place)
    before = {table: files_below(tmp_path / "clicks" / table) for table in ("bronze", "per_10m")}
    error = backfill_warm(spark, place, at(10), at(10, 40)).error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("UnpublishedChanges", True)
    assert "(run run-2)" in error.message
    for table, files in before.items():
        assert files_below(tmp_path / "clicks" / table) == files
    assert held.tables["per_10m"].changes > gold_state(gold_of(place)).changes
    accept_by_hand(place)
    succeed(spark, place, "run-3")
    assert backfill(spark, place, at(10), at(10, 40)).published_windows == 2
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_killed_before_gold_and_repeated_it_appends_and_revises_once(
    spark: SparkSession, place: Place
) -> None:
    correct_bronze(place)
    with killed("before", "gold"):
        assert backfill_warm(spark, place, at(10), at(10, 40), run_id="first").error
    assert revisions(place) == {}
    result = backfill(spark, place, at(10), at(10, 40), run_id="second")
    assert (result.appended, result.published_windows) == (0, 2)
    assert revisions(place) == {(10, "a"): (111, "corrected", 1)}
    counts = "SELECT count(*) FROM t WHERE {} = 'backfill'"
    assert query(counts.format("cause"), t=place.changes()) == [(2,)]
    assert query(counts.format("kind"), t=place.table(place.places.ledger)) == [(1,)]
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_what_a_killed_backfill_left_is_overruled_where_bronze_changed_again(
    spark: SparkSession, place: Place
) -> None:
    bronze = DeltaTable(place.places.bronze)
    before = bronze.version()
    correct_bronze(place)
    with killed("before", "gold"):
        assert backfill_warm(spark, place, at(10), at(10, 40)).error
    bronze = DeltaTable(place.places.bronze)
    bronze.restore(before)
    rows = sorted_rows(place.gold())
    backfill(spark, place, at(10), at(10, 40), run_id="again")
    assert sorted_rows(place.gold()) == rows
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_the_next_run_publishes_what_a_killed_backfill_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = land_first(spark, tmp_path)
    correct_bronze(place)
    with killed("before", "gold"):
        assert backfill_warm(spark, place, at(10), at(10, 40)).error
    accept_by_hand(place)
    succeed(spark, place, "run-2")
    assert revisions(place) == {(10, "a"): (111, "corrected", 1)}
    assert audit(spark, place).outcome == "equal"


def test_rows_of_gold_that_were_changed_by_hand_are_not_forgotten(
    spark: SparkSession, place: Place
) -> None:
    correct_bronze(place)
    gold_of(place).delete("key IS NULL AND amount = 33")
    for _ in range(2):
        error = backfill_warm(spark, place, at(10), at(10, 20)).error
        assert error is not None
        assert error.type == "TableLost"
        assert "(DELETE, " in error.message


@pytest.mark.long
def test_a_window_in_gold_twice_is_refused(spark: SparkSession, place: Place) -> None:
    from deltalake import write_deltalake

    row = gold_of(place).to_pyarrow_table().slice(0, 1)
    write_deltalake(place.places.gold("per_10m"), row, mode="append")
    accept_by_hand(place)
    error = backfill_warm(spark, place, at(10), at(10, 40)).error
    assert error is not None
    assert error.type == "BackfillRefused"
    assert "more than once" in error.message


@pytest.mark.long
def test_rows_deleted_and_ingested_again_come_to_what_was_right_from_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = land_first(spark, tmp_path / "mended")
    DeltaTable(place.places.bronze).delete("at < '2026-07-01T10:30:00Z'")
    corrected = [event(10, 0, "a", 5), event(10, 12, "new", 6)]
    place.land("again.json", corrected)
    accept_by_hand(place)
    succeed(spark, place, "run-2")
    # Windows that the corrected rows touch are repaired as late ones; the others still stand.
    assert audit(spark, place).tables["per_10m"].found.only_in_gold == 5
    result = backfill(spark, place, at(10), at(10, 40))
    assert result.found.only_in_gold == 5
    assert audit(spark, place).outcome == "equal"
    right = Place(tmp_path / "right")
    kept = [event(10, m, key, m) for m in (33, 51) for key in ("a", None)]
    right.land("1.json", [*corrected, *kept])
    succeed(spark, right, "run-1")
    assert sorted_rows(place.gold(), DERIVED) == sorted_rows(right.gold(), DERIVED)


@pytest.mark.long
def test_the_stream_goes_on_as_if_there_had_been_no_backfill(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = [land_first(spark, tmp_path / name) for name in ("filled", "plain")]
    filled, plain = places
    for place in places:
        correct_bronze(place)
        accept_by_hand(place)
    checkpoints = Path(filled.places.folder) / "checkpoints"
    before = files_below(checkpoints)
    backfill(spark, filled, at(10), at(10, 40))
    assert files_below(checkpoints) == before
    runs = []
    for place in places:
        place.land("2.json", [event(10, 1, "late", 5), event(10, 52), event(11, 5)])
        runs.append(succeed(spark, place, "run-2").tables["per_10m"])
    same = {"changes": 0, "gold": 0, "rests_on": {}}
    assert runs[0].model_copy(update=same) == runs[1].model_copy(update=same)
    outside = "SELECT * FROM g WHERE minute(window_start) NOT IN (10, 20)"
    rows = [sorted(query(outside, g=place.gold()), key=repr) for place in places]
    assert rows[0] == rows[1]
    backfill(spark, plain, at(10), at(10, 40))
    assert sorted_rows(filled.gold(), DERIVED) == sorted_rows(plain.gold(), DERIVED)


@pytest.mark.parametrize("name", ["sessions-append", "folds"])
def test_a_range_is_refused_whose_rows_hang_together_with_what_starts_outside(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """A row between two others is taken out by hand: their session is two, one on each date."""
    place = place_of(tmp_path / "root", KINDS[name])
    rows = [row_at(minute) for minute in (-6, -5, -4, 0, 4, 5, 6)]
    newest = row_at(90, "newest")
    place.land_rows("1.json", [*rows, newest])
    succeed(spark, place, "run-1")
    before = place.known()
    assert before == place.model(rows)
    DeltaTable(place.places.bronze).delete(f"at = '{DAY.isoformat()}'")
    accept_by_hand(place)
    half_an_hour = 30 * MINUTE
    for start, end, told in (
        (DAY - half_an_hour, DAY, "--from 2026-06-30T23:30:00Z --to 2026-07-01T00:04:01Z."),
        (DAY, DAY + half_an_hour, "--from 2026-06-30T23:54:00Z --to 2026-07-01T00:30:00Z."),
    ):
        refused = backfill_warm(spark, place, start, end, table=TABLE).error
        assert refused is not None
        assert (refused.type, refused.retry_can_help) == ("BackfillRefused", False)
        assert refused.message.endswith(f"Nothing was written. Take at least {told}")
    assert place.known() == before
    backfill(spark, place, DAY - 6 * MINUTE, DAY + half_an_hour, table=TABLE)
    assert place.known() == place.model([row for row in rows if row["at"] != DAY])
    assert audit(spark, place).outcome == "equal"
