"""What every kind of operator keeps: its closed rows are a function of bronze alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.late_model import EPOCH
from tests.kit.running import run_warm, succeed
from tests.operators.contract.joins import join_table, joins, sides
from tests.operators.contract.kinds import (
    DAY,
    KINDS,
    MINUTE,
    TABLE,
    Kind,
    KindPlace,
    Known,
    Row,
    as_json,
    event,
    landings_of,
    of,
    place_of,
)
from tests.operators.contract.told import check_stories
from tests.streaming.audits import accept_by_hand, audit, backfill_warm
from tidemark import commit_point
from tidemark.gold.state import gold_state
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.operators.operator import BRONZE, Operator
from tidemark.operators.other_inputs import reading
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.difference import ChangeVerdict
from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.runs.lookups import copy_lookups
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.runs.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
POINTS = ("windows of the stream", "recomputed windows", "gold")
COPIES = ("lookup copied", "copies of lookups dropped")

# Windows, sessions and recomputed tables run and are killed in more ways elsewhere: here they run
# with the long tests.
IN_SHORT = ("joins-left", "folds", "windows-update-where")
IN_SPARK = [
    pytest.param(
        kind,
        id=name,
        marks=() if name in IN_SHORT else LONG,
    )
    for name, kind in KINDS.items()
]

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
in_spark = pytest.mark.parametrize("kind", IN_SPARK)
# Each example makes a table.
fewer = settings(max_examples=settings.default.max_examples // 2)
rows_of_a_day = st.lists(
    # Over a midnight, so that what hangs together lies on two dates.
    st.builds(
        event,
        st.integers(-40, 300),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2, -1]),
    ),
    min_size=1,
    max_size=30,
)


# Close to each other, and over a midnight.
rows_of_an_hour = st.lists(
    st.builds(event, st.integers(-30, 30), st.just("a")), min_size=4, max_size=12
)


@pytest.fixture(scope="module", autouse=True)
def _known_to_spark() -> None:
    importlib.import_module("tests.operators.contract.streamed_stretches")


# Without Spark.


@each_kind
def test_identity_and_values_share_no_column_and_hold_those_of_every_kind(kind: Kind) -> None:
    operator = kind.operator
    names = (*operator.identity, *operator.values)
    assert len(set(names)) == len(names)
    assert "window_start" in operator.identity
    assert {"window_end", "rows"} <= set(operator.values)
    assert BRONZE in operator.inputs


@pytest.mark.slow
@each_kind
@fewer
@given(rows=rows_of_a_day, close=st.integers(0, 300))
def test_no_row_that_is_open_starts_before_what_a_checkpoint_is_seeded_from(
    kind: Kind, rows: Sequence[Row], close: int
) -> None:
    closed_to = DAY + close * MINUTE
    with bronze_of(rows) as bronze:
        first = instant_of(kind.operator.rows_in(bronze).first_needed_ms(epoch_ms(closed_to)))
    opened = {row: values for row, values in kind.model(rows).items() if values[0] > closed_to}
    assert all(identity[0] >= first for identity in opened)
    # Nor does an input row before it change what is open.
    seeded = kind.model([row for row in rows if row["at"] >= first])
    assert {row: seeded.get(row) for row in opened} == opened


@pytest.mark.slow
@each_kind
@given(rows=rows_of_a_day, start=st.integers(0, 300), minutes=st.integers(1, 200))
def test_a_range_holds_rows_by_their_start_and_says_where_the_last_ends(
    kind: Kind, rows: Sequence[Row], start: int, minutes: int
) -> None:
    first, last = DAY + start * MINUTE, DAY + (start + minutes) * MINUTE
    found = kind.operator.starting_in(first, last)
    if found is None:
        return
    assert first <= found.first_start <= found.last_start
    held = [
        values
        for identity, values in kind.model(rows).items()
        if found.first_start <= identity[0] <= found.last_start
    ]
    assert all(values[0] <= found.last_end for values in held)


@each_kind
def test_what_is_open_first_and_what_is_kept_first_are_where_ranges_begin(kind: Kind) -> None:
    operator, close = kind.operator, DAY + 61 * MINUTE
    opened = operator.first_open_start(epoch_ms(close))
    for first in (opened, operator.first_kept_start(epoch_ms(close))):
        found = operator.starting_in(first, first + timedelta(days=1))
        assert found is not None
        assert found.first_start == first
    before = operator.starting_in(DAY - timedelta(days=1), opened)
    assert before is not None
    assert before.last_end <= close or not kind.has_fixed_lengths


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sessions-append", "sessions-append-where"])
@fewer
@given(rows=rows_of_a_day, asked=st.integers(0, 30), first=st.integers(0, 300))
def test_where_rows_lie_bronze_gives_the_whole_rows(
    name: str, rows: Sequence[Row], asked: int, first: int
) -> None:
    kind = KINDS[name]
    operator, expected = kind.operator, kind.model(rows)
    ends = DAY + first * MINUTE, DAY + (first + 40) * MINUTE
    known = [identity for identity in expected if identity[0].minute % 2 == asked % 2]
    times = pa.array([start for start, _ in known], pa.timestamp("us", "UTC"))
    given_rows = pa.table({"window_start": times, "key": pa.array([k for _, k in known], "string")})
    with bronze_of(rows) as bronze:
        found = operator.rows_in(bronze).rows_in_bronze(given_rows)
        ending = operator.rows_in(bronze).ending(*ends)
        counted = operator.rows_in(bronze).count_touched(found)
        counted_ending = operator.rows_in(bronze).count_ending(*ends)
        assert counted_ending == sum(ending.column("rows").to_pylist())
    assert located(found) == {row: ends_and_rows(expected[row]) for row in known}
    assert counted == sum(rows_of for _, rows_of in located(found).values())
    assert located(ending) == {
        row: ends_and_rows(values)
        for row, values in expected.items()
        if ends[0] <= values[0] <= ends[1]
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("windows-append-recomputed", "windows-append-recomputed-where"),
        *("lookup-update", "lookup-append"),
    ],
)
@fewer
@given(rows=rows_of_a_day, first=st.integers(0, 300))
def test_windows_that_are_recomputed_are_listed_by_their_ends(
    tmp_path_factory: pytest.TempPathFactory, name: str, rows: Sequence[Row], first: int
) -> None:
    place = place_of(tmp_path_factory.mktemp("place"), KINDS[name])
    place.change_lookups()
    assert len([*copy_lookups(place.run("copying"))]) == 2 * place.kind.looks_up
    operator = reading(place.kind.operator, place.warehouse)
    ends = DAY + first * MINUTE, DAY + first * 2 * MINUTE
    with bronze_of(rows) as bronze:
        found = operator.rows_in(bronze).ending(*ends)
        counted = operator.rows_in(bronze).count_ending(*ends)
    listed = [tuple(row[name] for name in operator.identity) for row in found.to_pylist()]
    expected = {
        row: values for row, values in place.model(rows).items() if ends[0] <= values[0] <= ends[1]
    }
    assert sorted(listed, key=str) == sorted(expected, key=str)
    assert counted == sum(values[-1] for values in expected.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sessions-append", "folds", "sliding"])
@fewer
@given(
    rows=rows_of_an_hour,
    kept=st.lists(st.booleans(), min_size=12, max_size=12),
    came=rows_of_an_hour,
    start=st.integers(-30, 30),
    minutes=st.integers(1, 40),
)
def test_what_differs_in_a_range_that_is_whole_shares_rows_with_nothing_outside(
    name: str,
    rows: Sequence[Row],
    kept: Sequence[bool],
    came: Sequence[Row],
    start: int,
    minutes: int,
) -> None:
    """A backfill puts there what bronze gives for it by now; rows that are of two stretches of a
    key then are in gold twice, and those that gold had are in none."""
    kind, operator = KINDS[name], KINDS[name].operator
    now = [*(row for row, stays in zip(rows, kept, strict=False) if stays), *came[:3]]
    known, expected = kind.model(rows), kind.model(now)
    windows = operator.starting_in(DAY + start * MINUTE, DAY + (start + minutes) * MINUTE)
    if windows is None:
        return
    inside = {one for one in (*known, *expected) if is_in(windows, one[0])}
    differ = {one: expected.get(one, known.get(one)) for one in inside
              if expected.get(one) != known.get(one)}  # fmt: skip
    gold = ds.dataset(as_table(operator, known))
    with bronze_of(now) as bronze:
        changed = as_table(operator, differ)
        found = operator.rows_in(bronze).hanging_with(changed, gold, "true")
    is_whole = found is None or all(is_in(windows, one) for one in found)
    assert is_whole or not kind.has_fixed_lengths
    if not is_whole or kind.has_fixed_lengths:
        return
    of_bronze = {one: values for one, values in expected.items() if one in inside}
    after = {one: values for one, values in known.items() if one not in inside} | of_bronze
    stretches = {(one[1], one[0], values[0]) for one, values in after.items()}
    for key, begin, end in stretches:
        assert not any(key == k and begin < b <= end for k, b, _ in stretches), (key, begin)
    if name == "folds":
        return
    for row in now:
        if any(lies_in(row, known[one], one) for one in differ if one in known):
            assert any(lies_in(row, values, one) for one, values in after.items()), row


def is_in(windows: RowRange, start: datetime) -> bool:
    return windows.first_start <= start <= windows.last_start


def lies_in(row: Row, values: tuple[Any, ...], identity: tuple[Any, ...]) -> bool:
    return row["key"] == identity[1] and identity[0] <= row["at"] <= values[0]


def as_table(operator: Operator, known: Mapping[tuple[Any, ...], Any]) -> pa.Table:
    """Identities and ends."""
    kinds = {"window_start": pa.timestamp("us", "UTC"), "key": pa.string(), "number": pa.int64()}
    schema = pa.schema([(name, kinds[name]) for name in operator.identity])
    schema = schema.append(pa.field("window_end", kinds["window_start"]))
    listed = [dict(zip(schema.names, (*one, values[0]), strict=True))
              for one, values in known.items()]  # fmt: skip
    return pa.Table.from_pylist(listed, schema)


def test_a_session_of_many_days_is_found_whole_from_any_of_its_rows() -> None:
    kind = KINDS["sessions-append"]
    days, other = 9, [event(-30), event(9 * 24 * 60 + 30)]
    rows = [*(event(minute) for minute in range(0, days * 24 * 60, 5)), *other]
    middle = pa.table(
        {
            "window_start": pa.array([DAY + timedelta(days=5)], pa.timestamp("us", "UTC")),
            "key": ["a"],
        }
    )
    with bronze_of(rows) as bronze:
        found = kind.operator.rows_in(bronze).rows_in_bronze(middle)
        first = kind.operator.rows_in(bronze).first_needed_ms(epoch_ms(DAY + timedelta(days=6)))
    last = DAY + timedelta(days=days) - 5 * MINUTE
    assert located(found) == {(DAY, "a"): (last + 6 * MINUTE, len(rows) - 2)}
    assert first == epoch_ms(DAY)


def ends_and_rows(values: tuple[Any, ...]) -> tuple[Any, int]:
    return values[0], values[-1]


def located(found: Any) -> Known:
    return {
        (row["window_start"], row["key"]): (row["window_end"], row["rows"])
        for row in found.to_pylist()
    }


@contextmanager
def bronze_of(rows: Sequence[Row]) -> Iterator[DeltaTable]:
    """A table as bronze is, in two files for each date."""
    with TemporaryDirectory() as folder:
        for part in (rows[::2], rows[1::2]):
            columns = {
                "at": pa.array([row["at"] for row in part], pa.timestamp("us", "UTC")),
                "key": pa.array([row["key"] for row in part], "string"),
                "amount": pa.array([row["amount"] for row in part], "int64"),
                "_event_date": pa.array([row["at"].date() for row in part], pa.date32()),
            }
            write_deltalake(folder, pa.table(columns), mode="append", partition_by=["_event_date"])
        yield DeltaTable(folder)


@each_kind
def test_another_definition_is_refused_and_the_same_is_no_difference(kind: Kind) -> None:
    assert list(kind.operator.definition_changes("t", kind.table)) == []
    assert kind.changed
    for other in kind.changed:
        found = list(kind.operator.definition_changes("t", other))
        assert [one.verdict for one in found] == [ChangeVerdict.NEW_GENERATION] * len(found) != []


@each_kind
def test_a_watermark_that_stays_leaves_nothing_due(kind: Kind) -> None:
    assert kind.operator.why_due(1_000, 1_000) is None


# In Spark: each kind's runs, in the warm session.


def closed(known: Known, close_ms: int) -> Known:
    # Not in milliseconds: what ends a microsecond after the frontier is open.
    return {row: values for row, values in known.items() if values[0] <= instant_of(close_ms)}


def close_ms(place: KindPlace) -> int:
    return gold_state(DeltaTable(place.places.gold(TABLE))).close_ms


def check_gold(place: KindPlace, rows: Sequence[Row]) -> None:
    """Gold is what one batch over all rows gives, as far as it shows them."""
    expected, frontier = place.model(rows), close_ms(place)
    known = place.known()
    assert closed(known, frontier) == closed(expected, frontier)
    if place.kind.emits_open_rows:
        assert known == expected
    elif place.kind.shows_closed_rows_only:
        assert known == closed(known, frontier)
    else:
        # What is open stands there as soon as the engine, or a late row, ends it.
        assert known.items() <= expected.items()
    status = {row["status"] for row in place.gold(TABLE).to_pylist()
              if row["window_end"] <= instant_of(frontier)}  # fmt: skip
    assert status <= {"final", "corrected"}


SLIDING_JOIN = join_table("left", before=1, length=15, slide=5)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        *(KINDS[name] for name in ("sliding", "sessions-append", "folds", "joins-inner")),
        Kind("joins-sliding", SLIDING_JOIN, joins(SLIDING_JOIN)),
    ],
    ids=lambda kind: kind.name,
)
def test_rows_of_the_first_instant_of_1970_and_late_ones_beside_it(
    spark: SparkSession, tmp_path: Path, kind: Kind
) -> None:
    """What is 0 is a time there, and no lack of one; sliding windows start before."""

    def early(rows: Sequence[Row]) -> list[Row]:
        left, right = sides(rows)
        some = [*left, *right] if kind.joins else left
        return [{**row, "at": EPOCH + (row["at"] - DAY)} for row in some]

    place = place_of(tmp_path, kind)
    run_all(spark, place, [early(rows) for rows in (
        [event(0), of(0), event(3), event(0, "b")],
        [event(40), of(41), event(1, "b")],
        [event(0), of(0), of(2), event(80), of(81)],
        [event(2), of(3, "b"), event(81), of(82)],
    )])  # fmt: skip
    assert audit(spark, place).outcome == "equal"


def run_all(spark: SparkSession, place: KindPlace, landed: Sequence[Sequence[Row]]) -> list[Row]:
    rows: list[Row] = []
    for number, new in enumerate(landed):
        place.land_rows(f"{number}.json", new)
        rows += new
        succeed(spark, place, f"run-{number}")
        check_gold(place, rows)
    return rows


# Late rows land in the last run and the one after it; what ends last is a row of every kind that
# is open.
SEED = 371


def runs_of(kind: Kind) -> int:
    """Two; after the first the windows of stretches and days, which are as long, are all open."""
    if kind.name.startswith("days"):
        return 4
    return {"stretches": 3, "folds-where": 5, "lookup-append": 3}.get(kind.name, 2)


@pytest.fixture(scope="module", params=IN_SPARK)
def ran(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[KindPlace, list[Row]]:
    """Runs with late rows, gold compared after each."""
    kind: Kind = request.param
    place = place_of(tmp_path_factory.mktemp(kind.name) / "root", kind)
    rows = run_all(spark, place, landings_of(kind, SEED, runs=runs_of(kind)))
    place.keep()
    return place, rows


def again(ran: tuple[KindPlace, list[Row]]) -> tuple[KindPlace, list[Row]]:
    """As the runs have left it, whatever a test has done since."""
    place = ran[0].again()
    assert isinstance(place, KindPlace)
    return place, list(ran[1])


def run_of(place: KindPlace) -> Run:
    return Run(place.pipeline, place.settings, "look", epoch_ms(DAY))


def test_after_runs_with_late_rows_the_ledger_can_be_built_again_and_balances(
    ran: tuple[KindPlace, list[Row]],
) -> None:
    place, rows = again(ran)
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    assert [line for line in lines if line.difference] == []
    assert sum(line.accepted or 0 for line in lines if line.kind == "ingest") == len(sides(rows)[0])
    late = [line for line in lines if line.kind == "late"]
    assert late, "the landings have no late row: this shows nothing"
    landed = landings_of(place.kind, SEED, runs_of(place.kind))
    others = [row for changes, new in enumerate(landed, 1) for row in new
              if not place.kind.counts(row, changes)]  # fmt: skip
    assert sum(line.not_counted or 0 for line in lines) == len(others)
    assert bool(others) == place.kind.counts_some
    assert any(line.kind == "lookup" for line in lines) == place.kind.looks_up


def test_the_stories_of_its_rows_have_their_values_their_rows_and_their_lines(
    ran: tuple[KindPlace, list[Row]],
) -> None:
    """Nothing is written, so the place is that of the runs."""
    place, rows = again(ran)
    if place.kind.name == "stretches":
        pytest.skip("a kind of the suite alone, whose starts no story knows")
    told = check_stories(place, rows)
    assert any(value.cause != "stream" for story in told.values() for value in story.values)


def test_without_anything_new_there_is_nothing_for_spark(
    ran: tuple[KindPlace, list[Row]],
) -> None:
    place, _ = again(ran)
    assert isinstance(run_preflight(run_of(place)), NothingNew)


@LONG
def test_without_anything_new_a_run_changes_nothing(
    spark: SparkSession, ran: tuple[KindPlace, list[Row]]
) -> None:
    place, rows = again(ran)
    before = place.known()
    succeed(spark, place, "again", scheduled=DAY)
    assert place.known() == before
    check_gold(place, rows)


def test_an_audit_finds_gold_equal_and_a_backfill_brings_back_what_was_damaged(
    spark: SparkSession, ran: tuple[KindPlace, list[Row]]
) -> None:
    place, _ = again(ran)
    before, gold = place.known(), DeltaTable(place.places.gold(TABLE))
    whole = gold.to_pyarrow_dataset().to_table()
    (key,) = place.kind.operator.table.group_by
    closed = whole.filter(pc.field("status") != "provisional")
    damaged = next(filter(None, closed.column(key).to_pylist()))
    gold.delete(f"{key} = '{damaged}' AND status <> 'provisional'")
    invented = closed.slice(0, 1).set_column(whole.column_names.index(key), key, [["invented"]])
    write_deltalake(gold, invented, mode="append")
    found = audit(spark, place).tables[TABLE].found
    assert (found.only_in_bronze > 0, found.only_in_gold) == (True, 1)
    accept_by_hand(place)
    result = backfill_warm(spark, place, *whole_range(place), table=TABLE)
    assert result.error is None, result.error
    assert place.known() == before
    assert audit(spark, place).outcome == "equal"
    if place.kind.name != "stretches":
        told = check_stories(place, ran[1])
        causes = {value.cause for story in told.values() for value in story.values}
        assert "backfill" in causes


@pytest.mark.parametrize("by", [0, 1], ids=["same values", "other values"])
def test_rows_that_were_deleted_and_landed_again_are_in_gold_and_stay_there(
    spark: SparkSession, ran: tuple[KindPlace, list[Row]], by: int
) -> None:
    """Bronze has as many rows as before, at the same times; and a backfill removes none of them."""
    place, rows = again(ran)
    bronze = DeltaTable(place.places.bronze)
    needed = place.kind.operator.rows_in(bronze).first_needed_ms(close_ms(place))
    first_open = instant_of(needed)
    wrong = [row for row in sides(rows)[0] if row["at"] < first_open]
    assert wrong, "all that the landings have is open: this shows nothing"
    bronze.delete(f"at < '{first_open.isoformat()}'")
    accept_by_hand(place)
    mended = [{**row, "amount": row["amount"] + by} if (row["amount"] or 0) > 0 else row
              for row in wrong]  # fmt: skip
    place.land("mended.json", as_json(mended))
    rows = [*mended, *(row for row in rows if row not in wrong)]
    succeed(spark, place, "landed again")
    check_gold(place, rows)
    known = place.known()
    result = backfill_warm(spark, place, *whole_range(place), table=TABLE)
    assert result.error is None, result.error
    assert place.known() == known
    assert audit(spark, place).outcome == "equal"


def whole_range(place: KindPlace) -> tuple[Any, Any]:
    """The widest range of closed rows."""
    return DAY - timedelta(days=2), place.kind.operator.first_open_start(close_ms(place))


def test_an_idle_source_is_sealed_and_what_comes_later_is_late(
    spark: SparkSession, ran: tuple[KindPlace, list[Row]]
) -> None:
    place, rows = again(ran)
    kind, days_later = place.kind, DAY + timedelta(days=2)
    assert any(values[0] > instant_of(close_ms(place)) for values in place.model(rows).values())
    succeed(spark, place, "idle", scheduled=days_later)
    # In milliseconds, so that nothing ends behind it.
    last_end = kind.last_end(rows)
    assert close_ms(place) == epoch_ms(last_end + timedelta(microseconds=999))
    assert place.known() == place.model(rows)
    new = [event(5), *([{**event(4), "side": "right"}] if kind.joins else [])]
    rows += new
    place.land_rows("late.json", new)
    succeed(spark, place, "late", scheduled=days_later)
    assert place.known() == place.model(rows)
    if kind.name != "stretches":
        check_stories(place, rows)


@pytest.mark.parametrize(
    ("when", "points"),
    [
        # By then the engine has appended, or late rows were computed again: the next run has both.
        ("after", POINTS[:2]),
        pytest.param("after", ("clock row", *COPIES, *POINTS), marks=LONG),
        pytest.param("before", ("clock row", *COPIES, *POINTS), marks=LONG),
    ],
    ids=["after the two appends", "after each", "before each"],
)
def test_a_run_that_ends_at_one_point_after_the_other_and_goes_on_is_as_if_it_had_not(
    spark: SparkSession,
    ran: tuple[KindPlace, list[Row]],
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    points: Sequence[str],
) -> None:
    place, rows = again(ran)
    runs = runs_of(place.kind)
    new = landings_of(place.kind, SEED, runs + 1)[runs]
    place.land_rows("new.json", new)
    for point in (one for one in points if one in reached_by(place.kind)):
        # No two of these runs have the same copies of what they look up, nor has the last one.
        ended(spark, place, monkeypatch, point, when)
        place.change_lookups()
    succeed(spark, place, "again")
    check_gold(place, [*rows, *new])


def reached_by(kind: Kind) -> tuple[str, ...]:
    """The commit points that runs of a kind reach."""
    clocks = ("clock row",) if kind.joins else ()
    return (*clocks, *(COPIES if kind.looks_up else ()), *POINTS)


def ended(
    spark: SparkSession, place: KindPlace, monkeypatch: pytest.MonkeyPatch, point: str, when: str
) -> None:
    """A run that ends itself there."""

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == (point, when):
            raise RuntimeError(f"ended {when} {point}")

    monkeypatch.setattr(commit_point, "on_reach", reached)
    error = run_warm(spark, place, f"{when} {point}").error
    monkeypatch.setattr(commit_point, "on_reach", None)
    assert error is not None
    assert f"ended {when} {point}" in error.message


@LONG
@in_spark
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_ends_at_a_point_and_goes_on_is_as_if_it_had_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, when: str
) -> None:
    points = reached_by(kind)
    # Of 181 the late rows of an inner join have no match, and touch no window.
    seed = 182 if kind.name.startswith("joins-inner") else 181
    place, landed = place_of(tmp_path, kind), landings_of(kind, seed, runs=2 + len(points))
    rows = run_all(spark, place, landed[:2])
    for number, point in enumerate(points, 2):
        place.land_rows(f"{number}.json", landed[number])
        rows += landed[number]
        ended(spark, place, monkeypatch, point, when)
        succeed(spark, place, f"again-{number}")
        check_gold(place, rows)


# Rows that merge, and go.


def test_a_late_row_between_two_closed_stretches_makes_them_one_in_one_commit_of_gold(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, KINDS["stretches"])
    rows = [event(1), event(6), event(100)]
    place.land("1.json", as_json(rows))
    succeed(spark, place, "first")
    gold = DeltaTable(place.places.gold(TABLE))
    assert len(place.known()) == 2
    place.land("2.json", as_json([event(3.5)]))
    before = gold.version()
    succeed(spark, place, "late")
    assert DeltaTable(gold.table_uri).version() == before + 1
    assert place.known() == closed(place.kind.model([*rows, event(3.5)]), close_ms(place))
    (row,) = place.gold(TABLE).to_pylist()
    assert (row["rows"], row["status"], row["revision"]) == (3, "corrected", 1)
    gone = [row for row in place.changes(TABLE).to_pylist() if not row["rows"]]
    assert [(row["window_start"], row["cause"]) for row in gone] == [(DAY + 6 * MINUTE, "late")]
