"""Pipelines with rules: what these reject is no accepted row in any respect, and what they count is
the same number however often a batch is begun."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.kit.rewinding import rewound
from tests.kit.running import SCHEDULED, Place, accept_changed_file, succeed
from tests.sources.contract.test_every_kind import EACH_POINT, fail_at
from tests.sources.contract.worlds import WORLDS, Topics
from tidemark.cli.main import app
from tidemark.ledger.ledger import replace_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.ledger.report import read_ledger
from tidemark.pipeline.instants import epoch_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEGATIVE = {"name": "negative amount", "reject": "amount < 0"}
RULES: list[dict[str, Any]] = [
    {"name": "no key", "count": "key is null"},
    NEGATIVE,
    # Fails on an amount of 0.
    {"name": "small", "reject": "100 / amount > 40"},
    {"name": "large", "count": "twice > 150"},
    {"name": "never", "count": "key = 'nobody'"},
]
RULED: dict[str, Any] = {"derive": {"twice": "amount * 2"}, "rules": RULES}
# Nothing else of the pipeline needs Spark to judge a row.
ALONE: dict[str, Any] = {
    "rules": [NEGATIVE, RULES[0], {"name": "large", "count": "amount > 75"}, RULES[2]]
}
WITHIN = timedelta(minutes=20)
ONCE = {"unique": {"by": "key", "within": "20 minutes"}}


def row(amount: int | None, key: str | None = "a", minute: int = 0) -> dict[str, Any]:
    at = datetime.fromisoformat("2026-07-01T10:00:00+00:00") + timedelta(minutes=minute)
    return {"at": at.isoformat(), "key": key, "amount": amount}


def rows(seed: int) -> list[dict[str, Any]]:
    """Of every kind; each with a time of its own, most of them later than those before."""
    chance = random.Random(seed)
    minutes = chance.sample(range(60 * 24), 150)
    return [
        row(
            chance.choice([None, *range(-5, 3), *range(-5, 100)]),
            chance.choice([*"abcdef", None]),
            minute,
        )
        for minute in sorted(minutes, key=lambda minute: minute + chance.randrange(60))
    ]


@dataclass
class Model:
    """All that is given, judged in plain Python: batch by batch, and within one by event time."""

    unique: bool = False

    def __post_init__(self) -> None:
        self.read = 0
        self.reasons: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self.accepted: list[dict[str, Any]] = []

    def batch(self, given: Sequence[dict[str, Any] | str]) -> None:
        self.read += len(given)
        self.reasons["malformed"] += sum(isinstance(one, str) for one in given)
        for one in sorted((r for r in given if isinstance(r, dict)), key=lambda r: str(r["at"])):
            if reason := self._reason(one):
                self.reasons[reason] += 1
                continue
            self.accepted.append(one)
            self.counted["no key"] += one["key"] is None
            self.counted["large"] += one["amount"] is not None and one["amount"] > 75

    def _reason(self, one: dict[str, Any]) -> str | None:
        amount = one["amount"]
        if amount is not None:
            if amount < 0:
                return "negative amount"
            if amount == 0:
                return "expression"
            if 100 / amount > 40:
                return "small"
        at = datetime.fromisoformat(one["at"])
        near = (abs(datetime.fromisoformat(r["at"]) - at) <= WITHIN
                for r in self.accepted if r["key"] == one["key"])  # fmt: skip
        return "duplicate" if self.unique and one["key"] is not None and any(near) else None

    def told(self) -> dict[str, Any]:
        events: Counter[Any] = Counter()
        amounts: dict[Any, int | None] = {}
        for one in self.accepted:
            window = (one["at"][:15] + "0", one["key"])
            events[window] += 1
            known = [n for n in (amounts.get(window), one["amount"]) if n is not None]
            amounts[window] = sum(known) if known else None
        return {
            "read": self.read,
            "accepted": len(self.accepted),
            "rejected": sum(self.reasons.values()),
            "reasons": +self.reasons,
            "counted": +self.counted,
            "gold": {window: (events[window], amounts[window]) for window in events},
        }


def told(place: Place) -> dict[str, Any]:
    """The same as the ledger, the rejects and gold tell it."""
    lines = place.table(place.places.ledger).to_pylist()
    lines = [line for line in lines if line["kind"] == "ingest" and line["rewound"] is None]
    assert all(line["balanced"] for line in lines)
    reasons: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for line in lines:
        reasons.update(json.loads(line["reasons"]))
        counted.update(json.loads(line["counted"] or "{}"))
    assert Counter(place.rejects()["reason"].to_pylist()) == reasons
    bronze = place.bronze().to_pylist()
    assert counted["no key"] == sum(one["key"] is None for one in bronze)
    assert counted["large"] == sum((one["twice"] or 0) > 150 for one in bronze)
    gold = {
        (f"{one['window_start']:%Y-%m-%dT%H:%M}", one["key"]): (one["events"], one["amount"])
        for one in place.gold().to_pylist()
    }
    counts = {name: sum(line[name] for line in lines) for name in ("read", "accepted", "rejected")}
    return {**counts, "reasons": reasons, "counted": counted, "gold": gold}


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "log":
        from tests.sources.contract import numbered_log_stream  # noqa: F401
    if request.param == "kafka":
        Topics.broker = request.getfixturevalue("broker")
    return str(request.param)


def as_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.streaming.ingest import judged_lines, spark_rows

    monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    monkeypatch.setattr(spark_rows, "FEW_ROWS", 0)


@pytest.mark.parametrize(
    ("kind", "few", "unique"),
    [
        pytest.param("delta", True, True, marks=pytest.mark.second),
        ("delta", False, True),
        ("files", True, False),
        pytest.param("files", False, False, marks=pytest.mark.long),
        pytest.param("log", False, True, marks=pytest.mark.long),
        pytest.param("csv", True, True, marks=pytest.mark.long),
        pytest.param("kafka", True, True, marks=pytest.mark.long),
    ],
    indirect=["kind"],
)
def test_tables_and_ledger_are_what_a_look_at_each_row_gives(
    spark: SparkSession,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: bool,
    unique: bool,
) -> None:
    if not few:
        as_tasks(monkeypatch)
    world = WORLDS[kind](tmp_path, **RULED, **(ONCE if unique else {}))
    model = Model(unique)
    counted: Counter[str] = Counter()
    for run in range(3):
        given: list[dict[str, Any] | str] = [*rows(3 * run + unique), "not JSON"]
        world.land(str(run % 2), given)
        model.batch(given)
        found = succeed(spark, world.place, f"run {run}").rows
        assert found.read == found.accepted + sum(found.rejected.values())
        counted.update(found.counted)
    assert told(world.place) == model.told()
    assert counted == +model.counted
    assert {"negative amount", "small", "expression"} < set(model.reasons)
    assert ("duplicate" in model.reasons) == unique
    # What a rule rejects has its condition, its values, its line and its place.
    for one in world.place.rejects().to_pylist():
        if one["reason"] == "negative amount":
            amount = json.loads(one["raw"])["amount"]
            assert one["detail"] == f"amount < 0 (amount = {amount})"
            assert None not in (one["id"], one["event_time"], *world.where(one))
        if one["reason"] == "expression":
            assert one["detail"].startswith("rule small: 100 / amount > 40 failed: [DIVIDE_BY_ZERO")


@pytest.mark.parametrize(
    ("kind", "few"),
    [
        ("log", True),
        ("delta", False),
        pytest.param("kafka", True, marks=pytest.mark.long),
    ],
    indirect=["kind"],
)
@pytest.mark.parametrize("point", EACH_POINT)
def test_a_repeated_batch_counts_and_rejects_the_same(
    spark: SparkSession,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: tuple[str, str],
    few: bool,
) -> None:
    if not few:
        as_tasks(monkeypatch)
    world = WORLDS[kind](tmp_path, **RULED, **ONCE)
    model = Model(unique=True)
    given = rows(5)
    world.land("0", given)
    model.batch(given)
    fail_at(spark, world, point)
    again = succeed(spark, world.place, "again").rows
    assert (again.accepted, again.counted) == (len(model.accepted), +model.counted)
    assert told(world.place) == model.told()
    given = rows(6)
    world.land("1", given)
    model.batch(given)
    succeed(spark, world.place, "next")
    assert told(world.place) == model.told()
    lines = rebuilt_lines(Ledgered(world.place.pipeline, world.place.warehouse))
    replace_ledger(world.place.warehouse.ledger, world.place.name, lines, SCHEDULED)
    assert told(world.place) == model.told()


def test_what_a_vanished_file_had_counted_stays_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its accepted rows are in bronze, and are not read again."""
    world = WORLDS["files"](tmp_path, **ALONE)
    world.land("0", [row(80), row(-1)])
    world.land("1", [row(90, None), row(-1), row(5)])
    fail_at(spark, world, ("accepted rows", "after"))
    world.lose("1")
    found = succeed(spark, world.place, "again").rows
    assert found.counted == {"large": 2, "no key": 1}
    assert found.rejected == {"changed file": 1, "negative amount": 1}
    [line] = [x for x in world.place.table(world.place.places.ledger).to_pylist() if x["reasons"]]
    assert (line["counted"], line["balanced"]) == ('{"large": 2, "no key": 1}', True)


def test_a_rejected_row_takes_no_id_from_a_good_one(spark: SparkSession, tmp_path: Path) -> None:
    world = WORLDS["files"](tmp_path, **RULED, **ONCE)
    world.land("0", [row(-1), row(0, minute=1), row(7, minute=2), row(8, minute=3)])
    assert succeed(spark, world.place, "one").rows.rejected == {
        "duplicate": 1, "expression": 1, "negative amount": 1,
    }  # fmt: skip
    world.land("0", [row(-1, "b"), row(90, "a", 4), row(-2, "a", 5)])
    world.land("1", [row(90, "b", 1)])
    found = succeed(spark, world.place, "two").rows
    assert found.rejected == {"duplicate": 1, "negative amount": 2}
    # A duplicate is counted by no rule.
    assert found.counted == {"large": 1}
    bronze = world.place.bronze().to_pylist()
    assert sorted((one["key"], one["amount"]) for one in bronze) == [("a", 7), ("b", 90)]


def test_a_rejected_row_moves_no_watermark_and_closes_no_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = WORLDS["files"](tmp_path, **ALONE)
    place = world.place
    world.land("0", [row(5, minute=15), row(-1, minute=600)])
    succeed(spark, place, "one")
    world.land("0", [row(6, minute=12), row(0, minute=600)])
    late = succeed(spark, place, "two").tables["per_10m"]
    begin = datetime.fromisoformat(row(1)["at"])
    watermark = begin + timedelta(minutes=15 - 10)
    assert (late.watermark_after_ms, late.late.rows) == (epoch_ms(watermark), 0)
    [window] = place.gold().to_pylist()
    assert (window["events"], window["status"]) == (2, "provisional")
    # An accepted one does, of the same time.
    world.land("0", [row(6, minute=600)])
    succeed(spark, place, "three")
    closed = {one["status"] for one in place.gold().to_pylist() if one["events"] == 2}
    assert closed == {"final"}


def test_a_batch_ends_by_the_rules_that_it_was_begun_with_and_the_next_by_the_new_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = WORLDS["files"](tmp_path, **RULED)
    given = [row(80), row(-1), row(50)]
    world.land("0", given)
    fail_at(spark, world, ("accepted rows", "after"))
    renamed = [{"name": "over 60", "reject": "amount > 60"}, {"name": "any", "count": "true"}]
    content = world.place.content
    changed = {**content, "source": {**content["source"], "rules": renamed}}
    place = replace(world.place, content=changed)
    found = succeed(spark, place, "finishes").rows
    assert (found.counted, found.rejected) == ({"large": 1}, {"negative amount": 1})
    world.land("1", given)
    found = succeed(spark, place, "takes the change").rows
    assert (found.counted, found.rejected) == ({"any": 2}, {"over 60": 1})
    # Bronze is not judged again.
    assert sorted(place.bronze()["amount"].to_pylist()) == [-1, 50, 50, 80]
    assert accept_changed_file(place) == []


def test_what_a_rewind_has_read_again_is_judged_by_the_rules_of_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = WORLDS["files"](tmp_path, **RULED)
    for number in range(2):
        world.land("0", [row(80), row(-1), row(2), row(50, None)])
        succeed(spark, world.place, f"run {number}")
    given = world.place.content
    rules = [NEGATIVE, {"name": "no key", "reject": "key is null"}, RULES[3]]
    changed = {**given, "source": {**given["source"], "rules": rules}}
    place = replace(world.place, content=changed)
    rewound(spark, place, "run 0")
    assert told(place)["counted"] == {"large": 1, "no key": 1}
    found = succeed(spark, place, "again").rows
    assert (found.counted, found.rejected) == ({"large": 1}, {"negative amount": 1, "no key": 1})
    reasons = {"negative amount": 2, "small": 1, "no key": 1}
    assert (told(place)["reasons"], told(place)["counted"]) == (reasons, {"large": 2, "no key": 1})


def test_status_and_ledger_tell_both_kinds_of_rules_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = WORLDS["files"](tmp_path, **RULED)
    world.place.write_file()
    for run in range(2):
        world.land("0", [row(80), row(-1), row(-1), row(90, None), "{"])
        succeed(spark, world.place, f"run {run}")
    env = world.place.variables
    shown = CliRunner().invoke(app, ["status", "clicks"], env=env).output
    assert "rejected of these runs: 2 malformed, 4 negative amount\n" in shown
    assert "counted of these runs: 4 large, 2 no key\n" in shown
    (told_of,) = json.loads(CliRunner().invoke(app, ["status", "clicks", "--json"], env=env).stdout)
    assert told_of["runs"][0]["reasons"] == {"malformed": 1, "negative amount": 2}
    assert told_of["runs"][0]["rules"] == {"large": 2, "no key": 1}
    report = read_ledger(world.place.warehouse.ledger, "clicks", 1)
    assert report is not None
    total = '10 read = 4 accepted + 6 rejected; counted {"large":4,"no key":2}'
    assert report.totals[0][-1] == total
    # A ledger that no run of this version has written yet.
    bare = WORLDS["files"](tmp_path / "bare")
    bare.land("0", [row(1)])
    succeed(spark, bare.place)
    report = read_ledger(bare.place.warehouse.ledger, "clicks", 1)
    assert report is not None
    assert report.totals[0][-1] == "1 read = 1 accepted + 0 rejected"


@pytest.mark.process
def test_a_trial_tells_both_kinds_of_rules_by_name(tmp_path: Path) -> None:
    world = WORLDS["files"](tmp_path, **RULED)
    world.land("0", [row(80), row(-1), row(0), row(90, None)])
    world.place.write_file()
    tried = CliRunner().invoke(app, ["try", "clicks"], env=world.place.variables)
    assert tried.exit_code == 0, tried.output
    assert "counted: 2 large, 1 no key\n" in tried.stdout
    assert "  negative amount: amount < 0 (amount = -1)\n" in tried.stdout
    assert "  expression: rule small: 100 / amount > 40 failed: [DIVIDE_BY_ZERO]" in tried.stdout
    assert '4 read = 2 accepted + 2 rejected; counted {"large":2,"no key":1}\n' in tried.stdout
