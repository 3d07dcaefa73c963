"""Rows that were a mistake: out of bronze and gold as if they had never come, and back again; what
is refused; and ended at each of its commit points, an act is finished by a repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from tests.end_to_end.generations import migrate
from tests.kit.killed import killed
from tests.kit.retracting import retract_warm, retracted
from tests.kit.rewinding import rewind_warm
from tests.kit.running import Place, append_a_row_again, clicks, run_warm, sorted_rows, succeed
from tests.streaming.audits import accept_by_hand, audit
from tidemark.cli.main import app
from tidemark.errors import RetractionRefused
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.recompute.retract.refusals import check_not_frozen
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.storage.delta.history import schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
When = Literal["before", "after"]
MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
TABLES = {
    "per_10m": {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": MEASURES},
    "visits": {
        "window": {"session": "10 minutes"},
        "group_by": ["key"],
        "measures": MEASURES,
        "output_mode": "append",
    },
}
SOURCE = {
    "files": "landing/*.json*",
    "columns": {"at": "timestamp", "key": "string", "amount": "long", "id": "string"},
    "event_time": {"column": "at"},
    "unique": {"by": "id", "within": "2 hours"},
}
# Of these rows one is a duplicate, two are no rows, and some come late.
RUNS: tuple[list[Any], ...] = (
    [(0, "a", 5, "twin"), (3, "b", 1, "b0"), (31, "a", 1, "a0"), "no JSON"],
    [(62, "b", 1, "b1"), (64, "a", 7, "a1"), "[]"],
    [(3, "b", 9, "b2"), (35, "a", 2, "a2"), (90, "a", 1, "a3"), (95, "b", 4, "b3"),
     (1, "a", 5, "twin")],
)  # fmt: skip
WRONG = {"where": "key = 'a' and amount in (2, 7)"}
POINTS = [
    ("retraction planned", 1),
    ("pipeline stopped for an act", 1),
    ("rows copied to `retracted`", 1),
    ("rows taken out of bronze", 1),
    ("gold of another generation", 2),
    ("ledger", 3),
    ("upkeep recorded", 1),
    ("pipeline released after an act", 1),
]
POINTS_OF_UNDO = [("rows brought back to bronze", 1), ("rows taken out of `retracted`", 1)]
POINTS_OF_WIDENING = [("retracted rows with wider columns", 1)]
SHORT = [("rows taken out of bronze", "before"), ("rows taken out of `retracted`", "before")]


def row(minute: int, key: str, amount: int, name: str) -> dict[str, Any]:
    hour, minute = divmod(minute, 60)
    at = f"2026-07-01T{10 + hour}:{minute:02}:00Z"
    return {"at": at, "key": key, "amount": amount, "id": name}


def landed(place: Place, number: int, *rows: Any) -> None:
    place.land(f"{number}.json", [one if isinstance(one, str) else row(*one) for one in rows])


@dataclass
class Story:
    """Three runs; kept as it is behind them, and what is then, and after a retraction."""

    spark: SparkSession
    place: Place
    before: dict[str, Any]

    def again(self) -> Place:
        """As it was kept. Spark has read these tables, and would know them by their versions."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        return self.place.again()


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    content = clicks(source=SOURCE, tables=TABLES)
    place = Place(tmp_path_factory.mktemp("retracted") / "root", content)
    for number, rows in enumerate(RUNS):
        landed(place, number, *rows)
        succeed(spark, place, f"run-{number}")
    place.keep()
    return Story(spark, place, told(place))


def told(place: Place) -> dict[str, Any]:
    """What people read, without who wrote it and how often it changed."""
    own = ("updated_by", "status", "revision")
    found: dict[str, Any] = {
        name: sorted_rows(place.gold(name), without=own) for name in place.pipeline.tables
    }
    found["bronze"] = sorted_rows(place.bronze())
    return found


def check_ledger(place: Place) -> None:
    """Built anew it has the lines of ingest and of acts that it has."""
    lines = place.table(place.places.ledger).to_pylist()
    assert all(line["difference"] in (0, None) for line in lines)
    source = Ledgered(place.pipeline, place.warehouse, seeds_of(place.pipeline, place.warehouse))
    names = ("kind", "batch", "accepted", "rejected", "published", "in_bronze")
    kinds = ("ingest", "retract", "unretract")
    known = [tuple(line[one] for one in names) for line in lines if line["kind"] in kinds]
    rebuilt = [
        tuple(getattr(line, one) for one in names)
        for line in rebuilt_lines(source)
        if line.kind in kinds
    ]
    assert sorted(known, key=str) == sorted(rebuilt, key=str)


def check_whole(spark: SparkSession, place: Place) -> None:
    assert audit(spark, place).outcome == "equal"
    check_ledger(place)


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        (WRONG, lambda one: one["amount"] in (2, 7)),
        pytest.param({"file": "2.json"}, lambda one: "2.json" in one["_file"], marks=LONG),
        pytest.param({"of_run": "run-1"}, lambda one: "1.json" in one["_file"], marks=LONG),
    ],
    ids=["where", "file", "run"],
)
def test_gold_is_as_if_the_rows_had_never_come_and_as_before_once_they_are_back(
    spark: SparkSession, story: Story, asked: dict[str, str], gone: Callable[[Any], bool]
) -> None:
    place = story.again()
    bronze = place.bronze().to_pylist()
    wrong = [one for one in bronze if gone(one)]
    shown = retracted(spark, place, dry_run=True, **asked)
    assert told(place) == story.before
    assert not Path(place.places.retracted).exists()
    result = retracted(spark, place, by="Ada", **asked)
    assert result.changed == shown.changed
    assert all(one.windows for one in result.changed.values())
    assert result.change is not None
    assert result.change.rows == len(wrong) > 0
    kept = place.table(place.places.retracted).to_pylist()
    assert sorted(one["id"] for one in kept) == sorted(one["id"] for one in wrong)
    assert {(one["_retracted_by"], one["_reason"]) for one in kept} == {("Ada", "a mistake")}
    assert place.bronze().num_rows == len(bronze) - len(wrong)
    check_whole(spark, place)

    # One of them comes again, and is no duplicate; others come late.
    landed(place, 3, (64, "a", 70, wrong[0]["id"] + "!"), (4, "a", 50, "late"), (130, "b", 1, "n"))
    succeed(spark, place, "later")
    assert place.bronze().num_rows == len(bronze) - len(wrong) + 3
    check_whole(spark, place)

    retracted(spark, place, undo=result.change.id, reason="was right")
    assert place.table(place.places.retracted).num_rows == 0
    check_whole(spark, place)
    landed(place, 4, (1, "c", 3, "c"), (140, "c", 1, "d"))
    succeed(spark, place, "on")
    check_whole(spark, place)
    assert place.bronze().num_rows == len(bronze) + 5
    again = retract_warm(spark, place, undo=result.change.id)
    assert again.error is not None
    assert "it was taken back already" in again.error.message
    upkeep = place.table(place.places.upkeep).sort_by("time").to_pylist()
    acts = [one["retraction"] for one in upkeep if one["kind"] == "retract"]
    assert [one["undoes"] for one in acts] == [None, result.change.id]
    assert [one["reason"] for one in acts] == ["a mistake", "was right"]


def test_brought_back_at_once_all_is_as_before(spark: SparkSession, story: Story) -> None:
    place = story.again()
    result = retracted(spark, place, where="id <> 'twin'")
    assert place.bronze().column("id").to_pylist() == ["twin"]
    assert {place.gold(name).num_rows for name in TABLES} == {1}
    check_ledger(place)
    assert result.change is not None
    retracted(spark, place, undo=result.change.id)
    assert told(place) == story.before
    check_whole(spark, place)


def refusal(spark: SparkSession, place: Place, **asked: Any) -> str:
    before = told(place)
    error = retract_warm(spark, place, dry_run=True, **asked).error
    assert error is not None
    assert told(place) == before
    assert unfinished_act(place.warehouse) is None
    return error.message


def test_what_is_no_condition_or_names_no_rows_is_refused(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    for asked, words in (
        ({"where": "key = 'nobody'"}, "No row of bronze of clicks is one where key = 'nobody'"),
        ({"where": "amount"}, "no condition"),
        ({"where": "rand() > 0.5"}, "--where `rand() > 0.5`"),
        ({"where": "other = 1"}, "other"),
        ({"file": ".json"}, "3 files end so"),
        ({"file": "7.json"}, "no row is of a file that ends so"),
        ({"of_run": "run-7"}, "knows no batch with rows of such a run"),
        ({"undo": "20260701T000000Z"}, "holds no row that the retraction"),
    ):
        assert words in refusal(spark, place, **asked), asked
    unnamed = retract_warm(spark, place, where="key = 'a'", reason=None).error
    assert unnamed is not None
    assert "--reason" in unnamed.message


def test_what_is_not_published_has_to_be_first(spark: SparkSession, story: Story) -> None:
    place = story.again()
    landed(place, 3, (100, "a", 1, "n"))
    assert run_warm(spark, place, "held", hold=True).error is None
    held = retract_warm(spark, place, dry_run=True, **WRONG).error
    assert held is not None
    assert held.type == "UnpublishedChanges"
    assert held.retry_can_help


def test_a_row_of_a_frozen_window_stays_and_else_all_may_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root", clicks(keep="3 days"))
    now = datetime.now(UTC)
    place.land("0.json", [{"at": f"{now:%Y-%m-%dT%H:%M:%SZ}", "key": "a", "amount": 1}])
    succeed(spark, place, "run-0")
    check_not_frozen(place.run("later"), now)
    with pytest.raises(RetractionRefused, match="which are frozen"):
        check_not_frozen(place.run("later"), now - timedelta(days=4))

    # And all of bronze may go.
    change = retracted(spark, place, where="true").change
    assert change is not None
    assert (place.bronze().num_rows, place.gold().num_rows) == (0, 0)
    succeed(spark, place, "nothing")
    retracted(spark, place, undo=change.id)
    assert (place.bronze().num_rows, place.gold().num_rows) == (1, 1)


@LONG
def test_an_act_is_no_way_back_for_rewinds_and_generations_and_rows_that_came_since_bar_its_undo(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    change = retracted(spark, place, where="id = 'a1'").change
    assert change is not None
    rewound = rewind_warm(spark, place, "run-1", dry_run=True).error
    assert rewound is not None
    assert f"were retracted since, or brought back ({change.id})" in rewound.message
    rolled = tidemark(place, "migrate", "clicks", "--rollback", "per_10m", "--dry-run")
    assert rolled.exit_code == 1
    assert "were retracted, or brought back, since its query has read it" in rolled.output
    landed(place, 3, (64, "a", 8, "a1"))
    succeed(spark, place, "mended")
    assert "a1" in place.bronze().column("id").to_pylist()
    assert "1 of these rows have the same id" in refusal(spark, place, undo=change.id)


@LONG
def test_a_check_that_fails_keeps_it_back_unless_somebody_accepts(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    checks = [{"fail": "key = 'a'"}]
    tables = {**TABLES, "per_10m": {**TABLES["per_10m"], "checks": checks}}
    place.content = clicks(source=SOURCE, tables=tables)
    kept_back = retract_warm(spark, place, where="key = 'a' and id <> 'twin'")
    assert kept_back.error is not None
    assert kept_back.error.type == "ChecksFailed", kept_back.error
    assert told(place) == story.before
    done = retracted(spark, place, where="key = 'a' and id <> 'twin'", accept=True)
    assert done.checks
    assert audit(spark, place).outcome == "equal"


def cases(points: list[tuple[str, int]]) -> Iterator[Any]:
    for point, time in points:
        for when in ("before", "after"):
            marks = () if (point, when) in SHORT else LONG
            yield pytest.param(point, time, when, marks=marks, id=f"{when} {point}")


def end_at(spark: SparkSession, place: Place, point: str, time: int, when: When, **to: Any) -> None:
    """An act that is ended there, as the end of its process would."""
    with killed(when, point, time):
        error = retract_warm(spark, place, **to).error
    assert error is not None
    assert error.type == "Killed", error


def finish(spark: SparkSession, place: Place, **asked: str) -> None:
    """By a repetition; nothing else runs before."""
    begun = unfinished_act(place.warehouse)
    standing = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert ("was begun and not finished" in standing.next_step) == (begun is not None)
    if begun is not None:
        stopped = run_warm(spark, place, "meanwhile").error
        assert stopped is not None
        assert stopped.type == "RetractionUnfinished"
        rewound = rewind_warm(spark, place, "run-0").error
        assert rewound is not None
        assert rewound.type == "RetractionUnfinished"
        retracted(spark, place)
    elif place.warehouse.retracted.open() is None:
        retracted(spark, place, **asked)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, story: Story) -> dict[str, Any]:
    place = story.again()
    retracted(spark, place, **WRONG)
    return told(place)


@pytest.mark.parametrize(("point", "time", "when"), [*cases(POINTS)])
def test_ended_anywhere_it_is_finished_by_a_repetition(
    spark: SparkSession,
    story: Story,
    undisturbed: dict[str, Any],
    point: str,
    time: int,
    when: When,
) -> None:
    place = story.again()
    end_at(spark, place, point, time, when, **WRONG)
    finish(spark, place, **WRONG)
    assert told(place) == undisturbed
    assert place.table(place.places.retracted).num_rows == 2
    check_whole(spark, place)
    upkeep = place.table(place.places.upkeep).to_pylist()
    assert len([one for one in upkeep if one["kind"] == "retract"]) == 1


def test_a_further_try_of_the_task_that_began_it_finishes_it_and_no_other_request_does(
    spark: SparkSession, story: Story, undisturbed: dict[str, Any]
) -> None:
    place, mine = story.again(), {"run_id": "retract__manual__1", **WRONG}
    end_at(spark, place, "pipeline stopped for an act", 1, "after", **mine)
    for other in ({"run_id": "retract__manual__2"}, {"run_id": None}):
        refused = retract_warm(spark, place, **mine | other).error
        assert refused is not None
        assert refused.type == "RetractionRefused"
    retracted(spark, place, **mine)
    assert told(place) == undisturbed
    assert unfinished_act(place.warehouse) is None


@LONG
def test_rows_that_others_append_since_the_plan_stop_it_and_stay(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    end_at(spark, place, "pipeline stopped for an act", 1, "after", **WRONG)
    theirs = append_a_row_again(place.places.bronze)
    error = retract_warm(spark, place).error
    assert error is not None
    assert error.type == "RetractionUnproven"
    assert "got other rows in version" in error.message
    assert "The pipeline stays stopped" in error.message
    assert sorted_rows(place.bronze()) == theirs
    assert unfinished_act(place.warehouse) is not None


@pytest.mark.parametrize(("point", "time", "when"), [*cases(POINTS_OF_UNDO)])
def test_an_undo_that_is_ended_is_finished_by_a_repetition(
    spark: SparkSession, story: Story, point: str, time: int, when: When
) -> None:
    place = story.again()
    change = retracted(spark, place, **WRONG).change
    assert change is not None
    end_at(spark, place, point, time, when, undo=change.id)
    finish(spark, place)
    assert told(place) == story.before
    check_whole(spark, place)


@pytest.mark.parametrize(("point", "time", "when"), [*cases(POINTS_OF_WIDENING)])
def test_columns_that_became_wider_since_the_last_act_are_wider_in_what_was_retracted_too(
    spark: SparkSession, story: Story, point: str, time: int, when: When
) -> None:
    place = story.again()
    former = {"id": ["old"], "amount": [3], "_retraction": ["20260701T000000Z"]}
    kinds = [("id", pa.string()), ("amount", pa.int32()), ("_retraction", pa.string())]
    narrow = pa.table(former, schema=pa.schema(kinds))
    write_deltalake(place.places.retracted, narrow, partition_by=["_retraction"])
    end_at(spark, place, point, time, when, **WRONG)
    retracted(spark, place)
    found = DeltaTable(place.places.retracted)
    assert schema_of(found).field("amount").type == pa.int64()
    amounts = place.table(place.places.retracted).column("amount").to_pylist()
    assert sorted(amounts) == [2, 3, 7]


@LONG
@pytest.mark.process
def test_by_commands_rows_go_and_come_back(story: Story) -> None:
    place = story.again()
    asked = ("retract", "clicks", "--where", WRONG["where"])
    shown = tidemark(place, *asked)
    assert shown.exit_code == 0, shown.output
    assert "2 rows where key = 'a' and amount in (2, 7) would go out of bronze" in shown.output
    assert "nothing was changed: --apply does it" in shown.output
    assert told(place) == story.before
    done = tidemark(place, *asked, "--reason", "test data", "--apply")
    assert done.exit_code == 0, done.output
    (act,) = (one.name for one in Path(place.places.retractions).iterdir())
    assert f"--undo {act}" in done.output
    assert "2 rows taken out of bronze" in tidemark(place, "ledger", "show", "clicks").output
    back = tidemark(place, "retract", "clicks", "--undo", act, "--reason", "was right", "--apply")
    assert back.exit_code == 0, back.output
    assert told(place) == story.before


def test_a_reason_and_rows_are_asked_before_spark_starts(story: Story) -> None:
    place = story.again()
    assert tidemark(place, "retract", "clicks").exit_code == 2
    assert tidemark(place, "retract", "clicks", "--file", "0.json", "--apply").exit_code == 2
    both = tidemark(place, "retract", "clicks", "--file", "0.json", "--run", "run-0")
    assert both.exit_code == 2


def tidemark(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)


def test_rows_of_other_dates_stay_where_one_task_wrote_them_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks())
    days = ("2026-07-01", "2026-07-02", "2026-07-03")
    land = [
        {"at": f"{day}T10:0{minute}:00Z", "key": key, "amount": minute}
        for day in days
        for minute, key in enumerate("abc")
    ]
    place.land("1.json", land)
    succeed(spark, place, "first")
    # What stays of all dates is written by one task: a file for each, with one name.
    assert retract_warm(spark, place, where="key = 'a'").error is None
    names = {file.rpartition("/")[2] for file in DeltaTable(place.places.bronze).file_uris()}
    assert len(names) < len(days)
    assert retract_warm(spark, place, where=f"key = 'b' and at >= '{days[2]}'").error is None
    kept = [(day, key) for day in days for key in "bc" if (day, key) != (days[2], "b")]
    found = [(f"{row['at']:%Y-%m-%d}", row["key"]) for row in place.bronze().to_pylist()]
    assert sorted(found) == kept
    assert len(place.gold("per_10m").to_pylist()) == len(kept)
    assert audit(spark, place).outcome == "equal"


@pytest.mark.parametrize("undone", [False, True])
def test_a_table_that_was_out_of_the_file_meanwhile_is_computed_anew(
    spark: SparkSession, tmp_path: Path, undone: bool
) -> None:
    table = clicks()["tables"]["per_10m"]
    both = Place(tmp_path / "root", clicks(tables={"kept": table, "per_10m": table}))
    alone = replace(both, content={**both.content, "tables": {"kept": table}})
    day = "2026-07-01T10:0"
    both.land(
        "0.json", [{"at": f"{day}{n}:00Z", "key": k, "amount": 1} for n, k in enumerate("ax")]
    )
    succeed(spark, both, "first")
    result = retracted(spark, alone, where="key = 'x'")
    if undone:
        assert result.change is not None
        retracted(spark, alone, undo=result.change.id)
    both.land("1.json", [{"at": f"{day}5:00Z", "key": "a", "amount": 1}])
    error = run_warm(spark, both, "second").error
    assert error is not None
    assert error.type == "TableLost"
    assert "were retracted, or brought back" in error.message
    computed = migrate(spark, both, rebuild=True)
    assert computed.error is None, computed.error
    succeed(spark, both, "third")
    assert audit(spark, both).outcome == "equal"


def test_rows_go_at_the_first_try_where_gold_still_has_rows_that_were_removed_by_hand(
    spark: SparkSession, story: Story
) -> None:
    """Of windows that none of the retracted rows is in: gold does not tell these."""
    place = story.again()
    place.warehouse.bronze.existing().delete("id = 'b1'")
    accept_by_hand(place)
    retracted(spark, place, **WRONG)
    assert audit(spark, place).outcome == "equal"


def test_rows_of_a_window_that_another_row_fails_go_at_the_first_try(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The plan's verdict on it counts them, and bronze has them no more."""
    measures = {"events": "count(*)", "inverse": "sum(1000 / amount)"}
    tables = {name: {**table, "measures": measures} for name, table in TABLES.items()}
    place = Place(tmp_path / "root", clicks(source=SOURCE, tables=tables))
    landed(place, 0, (0, "b", 1, "first"))
    succeed(spark, place, "first")
    landed(place, 1, (1, "a", 0, "fails"), (2, "a", 5, "stays"), (3, "a", 7, "wrong"))
    succeed(spark, place, "fails")
    landed(place, 2, (62, "b", 1, "later"))
    succeed(spark, place, "closes")
    change = retracted(spark, place, where="amount = 7").change
    assert change is not None
    assert change.rows == 1
    assert [row["key"] for row in place.gold("visits").to_pylist()] == ["b"]
    check_whole(spark, place)
    # And once no row fails it, it is in gold.
    retracted(spark, place, where="amount = 0")
    found = [(row["key"], row["events"]) for row in place.gold("visits").to_pylist()]
    assert sorted(found) == [("a", 1), ("b", 1)]
    check_whole(spark, place)
