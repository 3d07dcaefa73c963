"""A person's rows are erased: a search that decodes every file below the root finds them before,
and nothing after; and ended at each of its commit points, an act is finished by a repetition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_retractions import SOURCE, landed, row, tidemark, told
from tests.kit.decoded import files_holding
from tests.kit.erasing import erase_warm, erased
from tests.kit.killed import killed
from tests.kit.replaying import mended, replayed
from tests.kit.retracting import retract_warm, retracted
from tests.kit.rewinding import rewind_warm
from tests.kit.running import (
    Place,
    accept_changed_file,
    append_a_row_again,
    clicks,
    run_warm,
    sorted_rows,
    succeed,
)
from tests.streaming.audits import audit
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.unfinished_act import unfinished_act

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
When = Literal["before", "after"]
PERSON = "person-7Qx2mVb9LkTz4WcRf8HsJd1Np6Yg3UeA"
THEIRS = {"where": f"key = '{PERSON}'", "texts": (PERSON,)}
MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
TABLES = {
    "per_10m": {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": MEASURES,
        "views": {"busy": {"having": "events > 0"}},
        "checks": [{"warn": "length(key) < 10"}],
    },
    "visits": {
        "window": {"session": "10 minutes"},
        "group_by": ["key"],
        "measures": MEASURES,
        "output_mode": "append",
    },
}
# Theirs are a duplicate, one that is no JSON, one that is corrected late, and open windows.
RUNS: tuple[list[Any], ...] = (
    [(0, "a", 5, "a0"), (1, PERSON, 5, "twin"), (3, "b", 1, "b0"), "no JSON", f"no {PERSON}"],
    [(62, "b", 1, "b1"), (64, PERSON, 7, "p1"), (66, PERSON, 2, "p2"), "[]"],
    [(3, PERSON, 9, "p3"), (90, "a", 1, "a3"), (95, PERSON, 4, "p4"), (1, PERSON, 5, "twin")],
)  # fmt: skip
POINTS = [
    ("erasure planned", 1),
    ("pipeline stopped for an act", 1),
    ("erased rows taken out", 1),
    ("erased rows taken out", 3),
    ("gold of another generation", 2),
    ("upkeep recorded", 1),
    ("erasure recorded", 1),
    ("values blanked", 1),
    ("log checkpoint written", 2),
    ("unneeded files removed", 1),
    ("plan of an erasure removed", 1),
    ("pipeline released after an act", 1),
]
SHORT = [("erasure recorded", "before"), ("unneeded files removed", "before")]
STORES = ("memory", "rocksdb")


@dataclass
class Story:
    """Three runs and a retraction; kept as it is behind them."""

    spark: SparkSession
    place: Place

    def again(self) -> Place:
        """As it was kept. Spark has read these tables, and would know them by their versions."""
        forget(self.spark)
        return self.place.again()


def forget(spark: SparkSession) -> None:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def three_runs(spark: SparkSession, root: Path, store: str) -> Place:
    content = clicks(source=SOURCE, tables=TABLES, advanced={"state": {"store": store}})
    place = Place(root, content)
    for number, rows in enumerate(RUNS):
        landed(place, number, *rows)
        succeed(spark, place, f"run-{number}")
    return place


@pytest.fixture(scope="module", params=STORES)
def story(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Story:
    place = three_runs(spark, tmp_path_factory.mktemp("erased") / "root", request.param)
    assert held_in(place, "checkpoints/per_10m/1/state")
    retracted(spark, place, where=f"key = '{PERSON}' and amount = 2")
    # Where their windows are open, the state of the generation in use has them.
    landed(place, 3, (97, PERSON, 1, "p5"), (98, "a", 1, "a5"))
    succeed(spark, place, "run-3")
    of_results = Path(place.places.results, "run-0.json")
    of_results.parent.mkdir(exist_ok=True)
    of_results.write_text(f'{{"error": "{PERSON}"}}')
    place.keep()
    return Story(spark, place)


def held_in(place: Place, below: str = "") -> list[str]:
    """What of the pipeline's folder holds the value."""
    return files_holding(Path(place.places.folder, below), PERSON)


def check_whole(spark: SparkSession, place: Place) -> None:
    """Gold is the batch aggregate of bronze, each line of the ledger balances, and so does each
    that it has once it is built anew."""
    assert audit(spark, place).outcome == "equal"
    lines = place.table(place.places.ledger).to_pylist()
    assert all(line["difference"] in (0, None) for line in lines)
    source = Ledgered(place.pipeline, place.warehouse, seeds_of(place.pipeline, place.warehouse))
    rebuilt = rebuilt_lines(source)
    assert all(line.difference in (0, None) for line in rebuilt)
    acts = [(line["published"], line["in_bronze"]) for line in lines if line["kind"] == "erase"]
    assert all(erased == lost for erased, lost in acts)
    again = [line.published for line in rebuilt if line.kind == "erase"]
    assert sorted(again) == sorted(erased for erased, _ in acts) != []


def others(place: Place) -> dict[str, Any]:
    """What people read that is nobody's but others'."""
    return {name: [row for row in rows if PERSON not in row] for name, rows in told(place).items()}


def test_nothing_below_the_root_holds_a_value_that_the_same_search_has_found(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    before, known = held_in(place), others(place)
    parts = {name.partition("/")[0] for name in before}
    assert parts >= {
        *("bronze", "rejects", "retracted", "checkpoints", "per_10m", "visits", "ops", "results"),
        "retractions",
    }
    inner = "\n".join(before)
    for part in ("ops/upkeep/", "ops/quality/", "per_10m/gold/_delta_log/", "per_10m/views/busy/",
                 "checkpoints/per_10m/1/state/", "checkpoints/per_10m/2/state/",
                 "per_10m/changes/", "per_10m/changes-2/", "rejects/part"):  # fmt: skip
        assert part in inner, (part, inner)

    shown = erased(spark, place, dry_run=True, **THEIRS)
    assert held_in(place) == before
    assert shown.rows == {"bronze": 5, "retracted": 1, "rejects": 2}
    assert shown.windows == {"per_10m": 3, "visits": 2}
    assert sorted(name.rpartition("/")[2] for name in shown.sources) == [
        *(f"{number}.json" for number in range(4))
    ]
    assert PERSON not in shown.model_dump_json()
    result = erased(spark, place, by="Ada", **THEIRS)
    assert (result.rows, result.windows) == (shown.rows, shown.windows)
    assert PERSON not in result.model_dump_json()

    for file in result.sources:
        Path(file.removeprefix("file://")).unlink()
    assert files_holding(place.root, PERSON) == []
    assert unfinished_act(place.warehouse) is None
    assert others(place) == known == told(place)
    check_whole(spark, place)
    assert place.table(place.places.rejects).num_rows == 2
    assert place.table(place.places.view("per_10m", "busy")).num_rows == place.gold().num_rows
    upkeep = [one for one in place.table(place.places.upkeep).to_pylist() if one["kind"] == "erase"]
    assert [(one["by"], one["reason"]) for one in upkeep] == [("Ada", "a request")]

    # It goes on, and what comes again is taken like any other.
    forget(spark)
    landed(place, 4, (4, "b", 2, "late"), (99, PERSON, 3, "p9"), (190, "a", 1, "n"))
    succeed(spark, place, "later")
    assert PERSON in place.bronze().column("key").to_pylist()
    assert place.bronze().num_rows == 8
    check_whole(spark, place)
    erased(spark, place, **THEIRS)
    Path(place.root, "landing", "4.json").unlink()
    assert files_holding(place.root, PERSON) == []
    check_whole(spark, place)


def test_behind_it_nothing_goes_back(spark: SparkSession, story: Story) -> None:
    place = story.again()
    (act,) = (one.name for one in Path(place.places.retractions).iterdir())
    erased(spark, place, **THEIRS)
    before = told(place)
    back = retract_warm(spark, place, undo=act).error
    assert back is not None
    assert "behind which nothing goes back" in back.message or "no row that" in back.message
    rewound = rewind_warm(spark, place, "run-1", dry_run=True).error
    assert rewound is not None
    assert "rows were erased since" in rewound.message
    rolled = tidemark(place, "migrate", "clicks", "--rollback", "per_10m", "--dry-run")
    assert rolled.exit_code == 1
    assert "an erasure has removed" in rolled.output
    assert told(place) == before


def test_what_is_refused_changes_nothing(spark: SparkSession, story: Story) -> None:
    place = story.again()
    before = told(place)
    for asked, words in (
        ({"where": f"key = '{PERSON}'"}, "3 rejects of clicks give no row by today's file"),
        ({"where": "key = 'nobody'", "texts": ("nobody",)}, "No row of clicks"),
        ({"where": "amount", "texts": ("x",)}, "no condition"),
        ({}, "No erasure of clicks was begun"),
        ({**THEIRS, "reason": None}, "--reason"),
    ):
        error = erase_warm(spark, place, **asked).error
        assert error is not None
        assert words in error.message, error
    assert told(place) == before
    assert unfinished_act(place.warehouse) is None


def test_rows_of_frozen_windows_stay_and_are_told_and_a_row_that_may_be_in_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root", clicks())
    now = datetime.now(UTC)
    for number, days in enumerate((4, 0)):
        at = f"{now - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"
        place.land(f"{number}.json", [{"at": at, "key": PERSON, "amount": 1 + days}])
        succeed(spark, place, f"run-{number}")
    place.content = clicks(keep="3 days")
    assert accept_changed_file(place) == ["keep"]
    old = erase_warm(spark, place, where="amount = 5").error
    assert old is not None
    assert "which are frozen (`keep`)" in old.message
    assert place.gold().num_rows == 2
    stays = erased(spark, place, where="amount = 1").stays
    assert stays[0] == "1 row of gold of per_10m, of frozen windows (`keep`)"
    assert place.gold().column("amount").to_pylist() == [5]


@LONG
def test_rejects_go_by_the_row_that_their_text_gives_and_so_do_those_that_were_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root", clicks(source=SOURCE))
    landed(place, 0, (0, "a", 1, "a0"), (1, PERSON, 1, "p"), (1, PERSON, 1, "p"), "no JSON", "[]")
    succeed(spark, place, "run-0")
    (broken,) = (one["id"] for one in place.rejects().to_pylist() if one["raw"] == "no JSON")
    line = {"id": broken, "raw": row(5, PERSON, 2, "mended")}
    replayed(spark, place, mended=mended(place, line))
    succeed(spark, place, "run-1")
    assert {"rejects", "replayed"} <= {one.partition("/")[0] for one in held_in(place)}

    # None of the texts is in a reject; those of theirs go by the rows that they give.
    result = erased(spark, place, where=f"key = '{PERSON}'", texts=("nobody",))
    assert result.rows == {"bronze": 2, "rejects": 1, "replayed": 1}
    assert result.unread == 1
    assert held_in(place) == []
    assert place.rejects().column("raw").to_pylist() == ["[]"]
    check_whole(spark, place)


@LONG
def test_a_reject_on_which_an_expression_fails_is_asked_for_by_its_own_columns_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    derive = {"who": "upper(key)", "ratio": "10 / amount"}
    place = Place(tmp_path / "root", clicks(source={**SOURCE, "derive": derive}))
    landed(place, 0, (0, "a", 1, "a0"), (1, PERSON, 5, "p0"), (2, PERSON, 0, "p1"))
    succeed(spark, place, "run-0")
    (reason,) = place.rejects().column("reason").to_pylist()
    assert reason == "expression"
    own = erased(spark, place, dry_run=True, where=f"key = '{PERSON}'")
    assert (own.rows, own.unread) == ({"bronze": 1, "rejects": 1}, 0)

    where = f"who = '{PERSON.upper()}'"
    refused = erase_warm(spark, place, where=where).error
    assert refused is not None
    assert "1 rejects of clicks give no row by today's file" in refused.message
    left = erased(spark, place, dry_run=True, where=where, texts=("nobody",))
    assert (left.rows, left.unread) == ({"bronze": 1, "rejects": 0}, 1)
    result = erased(spark, place, where=where, texts=(PERSON,))
    assert (result.rows, result.unread) == ({"bronze": 1, "rejects": 1}, 0)
    assert held_in(place) == []


@LONG
def test_of_a_mended_reject_the_text_that_was_read_is_asked_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = [{"name": "negative", "reject": "amount < 0"}]
    place = Place(tmp_path / "root", clicks(source={**SOURCE, "rules": rules}))
    landed(place, 0, (0, "a", 1, "a0"), (1, PERSON, 5, "p0"), (2, PERSON, -5, "p1"), "none", "[]")
    succeed(spark, place, "run-0")
    ids = {one["raw"]: one["id"] for one in place.rejects().to_pylist()}
    (theirs,) = (name for raw, name in ids.items() if PERSON in raw)
    lines = (
        {"id": theirs, "raw": row(2, "b", 5, "p1")},
        {"id": ids["none"], "raw": row(3, "c", 1, "c0")},
        {"id": ids["[]"], "raw": row(4, PERSON, 2, "p2")},
    )
    replayed(spark, place, mended=mended(place, *lines))
    succeed(spark, place, "run-1")

    # Of one the text that was read is hit, of one that which mended it, and of one it is no row.
    refused = erase_warm(spark, place, where=f"key = '{PERSON}'").error
    assert refused is not None
    assert "1 rejects of clicks give no row by today's file" in refused.message
    result = erased(spark, place, where=f"key = '{PERSON}'", texts=("nobody",))
    assert result.rows == {"bronze": 2, "rejects": 0, "replayed": 2}
    assert result.unread == 1
    assert held_in(place) == []


@LONG
def test_a_mended_reject_of_which_no_text_can_be_asked_is_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root", clicks(source=SOURCE), max_line_bytes=5_000)
    landed(place, 0, (0, "a", 1, "a0"), "x" * 6_000, "[]")
    succeed(spark, place, "run-0")
    ids = {one["reason"]: one["id"] for one in place.rejects().to_pylist()}
    (other,) = (name for reason, name in ids.items() if reason != "too large")
    # A record that was too large is asked for by what mended it.
    lines = (
        {"id": ids["too large"], "raw": row(1, PERSON, 1, "p0")},
        {"id": other, "raw": {**row(2, "b", 1, "b0"), "amount": None}},
    )
    replayed(spark, place, mended=mended(place, *lines))
    columns = {**SOURCE["columns"], "amount": "long not null"}
    place.content = clicks(source={**SOURCE, "columns": columns})
    succeed(spark, place, "run-1")
    where = f"key = '{PERSON}'"
    found = erased(spark, place, dry_run=True, where=where, texts=("nobody",))
    assert (found.rows["replayed"], found.unread) == (1, 1)


@LONG
def test_by_a_column_that_is_out_of_the_file_rejects_are_found_by_a_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {**SOURCE["columns"], "note": "string"}
    place = Place(tmp_path / "root", clicks(source={**SOURCE, "columns": columns}))
    first, twin = ({**row(1, "a", amount, "twin"), "note": PERSON} for amount in (1, 2))
    place.land("0.json", [row(0, "b", 1, "b0"), first, twin])
    succeed(spark, place, "run-0")
    place.content = clicks(source=SOURCE)
    succeed(spark, place, "run-1")

    where = f"note = '{PERSON}'"
    refused = erase_warm(spark, place, where=where).error
    assert refused is not None
    assert "1 rejects of clicks give no row by today's file" in refused.message
    left = erased(spark, place, dry_run=True, where=where, texts=("nobody",))
    assert (left.rows, left.unread) == ({"bronze": 1, "rejects": 0}, 1)
    # A condition on other columns is asked of them.
    asked = erased(spark, place, dry_run=True, where="key = 'a'")
    assert (asked.rows, asked.unread) == ({"bronze": 1, "rejects": 1}, 0)
    result = erased(spark, place, where=where, texts=(PERSON,))
    assert (result.rows, result.unread) == ({"bronze": 1, "rejects": 1}, 0)
    assert held_in(place) == []


def cases() -> Iterator[Any]:
    for point, time in POINTS:
        for when in ("before", "after"):
            marks = () if (point, when) in SHORT else LONG
            yield pytest.param(point, time, when, marks=marks, id=f"{when} {point} {time}")


@pytest.mark.parametrize(("point", "time", "when"), [*cases()])
@pytest.mark.parametrize("story", STORES[:1], indirect=True)
def test_ended_anywhere_it_is_finished_by_a_repetition(
    spark: SparkSession, story: Story, point: str, time: int, when: When
) -> None:
    place = story.again()
    known = others(place)
    with killed(when, point, time):
        error = erase_warm(spark, place, **THEIRS).error
    assert error is not None
    assert error.type == "Killed", error
    begun = unfinished_act(place.warehouse)
    if begun is None and (when == "before" or point == "erasure planned"):
        erased(spark, place, **THEIRS)
    elif begun is not None:
        stopped = run_warm(spark, place, "meanwhile").error
        assert stopped is not None
        assert stopped.type == "ErasureUnfinished"
        standing = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
        assert "was begun and not finished" in standing.next_step
        erased(spark, place)
    assert held_in(place) == []
    assert told(place) == known
    check_whole(spark, place)
    assert not [
        one for one in Path(place.places.erasures).iterdir() if one.is_dir() and [*one.iterdir()]
    ]
    assert DeltaTable(place.places.bronze).to_pyarrow_dataset().count_rows() == 5


@LONG
@pytest.mark.parametrize("story", STORES[:1], indirect=True)
@pytest.mark.parametrize("table", ["bronze", "rejects", "retracted"])
def test_rows_that_others_append_since_the_plan_stop_it_and_stay(
    spark: SparkSession, story: Story, table: str
) -> None:
    place = story.again()
    with killed("after", "pipeline stopped for an act", 1):
        assert erase_warm(spark, place, **THEIRS).error is not None
    uri = str(getattr(place.places, table))
    theirs = append_a_row_again(uri)
    error = erase_warm(spark, place).error
    assert error is not None
    assert error.type == "ErasureUnproven"
    assert "got other rows in version" in error.message
    assert sorted_rows(place.table(uri)) == theirs
    assert unfinished_act(place.warehouse) is not None
