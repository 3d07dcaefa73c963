"""A pipeline that was renamed goes on as its undisturbed twin does, and what could be done before
can be done behind it; killed, a repetition does the rest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.generations import migrate
from tests.end_to_end.test_folds import event as fold_event
from tests.end_to_end.test_folds import place_at
from tests.end_to_end.test_retractions import SOURCE, landed, row
from tests.kit.decoded import files_holding
from tests.kit.replaying import mended, replayed
from tests.kit.retracting import retracted
from tests.kit.rewinding import rewind_warm, rewound
from tests.kit.running import REPOSITORY, Place, clicks, sorted_rows, succeed
from tests.kit.windows import at
from tests.operators.contract.joins import OTHER, PARTNER
from tests.operators.contract.kinds import as_json
from tests.streaming.audits import audit, backfill, nothing_written
from tidemark.gold.other_readers import other_readers
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.losses import find_losses
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.maintain import maintain_pipeline
from tidemark.upkeep.pipeline_housekeeping import housekeep_pipeline
from tidemark.upkeep.renaming import plan_rename, rename

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
FORMER, NAME = "zebra_before", "okapi_since"
MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
PLAIN = {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": MEASURES}
TABLES: dict[str, Any] = {
    "per_10m": {
        **PLAIN,
        "views": {"busy": {"having": "events > 0"}},
        "checks": [{"warn": "length(key) < 10"}],
    },
    "visits": {**PLAIN, "window": {"session": "10 minutes"}, "output_mode": "append"},
    "named": {**PLAIN, "window": {"length": "1 hour"}, "group_by": ["rates.kind"]},
    "again": {**PLAIN, "stream": "recompute"},
    "matched": {
        "join": {
            "with": OTHER,
            "on": {"key": "id"},
            "within": {"before": "1 minute", "after": "7 minutes"},
            "type": "left",
        },
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"amount": "sum(amount)", "cost": f"sum({OTHER}.cost)"},
    },
}
LOOKUP = {"rates": {"file": "dims/rates.csv", "on": "key", "columns": {"kind": "string"}}}
# What is history: told by nobody as what is.
HISTORY = re.compile(
    r"(results|retractions|replays|rewinds|data_docs)/"
    r"|[a-z0-9_./-]+/_delta_log/|ops/[a-z]+/part-|lease/"
)


@dataclass
class Filed(Place):
    """A place whose pipeline is that of its file, as it is there."""

    @property
    def pipeline(self) -> Pipeline:
        return load_pipeline(self.root / "pipelines" / f"{self.name}.yaml")

    def renamed(self) -> Filed:
        """With its file under the new name, and nothing else."""
        file = self.root / "pipelines" / f"{self.name}.yaml"
        file.rename(file.with_stem(NAME))
        return replace(self, name=NAME)


@dataclass
class Story:
    """Runs and acts; kept as it is behind them, and what gold is behind one run more."""

    spark: SparkSession
    place: Filed
    act: str
    twin: dict[str, Any]

    def again(self) -> Filed:
        forget(self.spark)
        self.place.again()
        return self.place


def forget(spark: SparkSession) -> None:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def run(spark: SparkSession, place: Filed, number: int, *rows: Any) -> None:
    """A run of both pipelines, over as many rows each."""
    landed(place, number, *rows)
    told = [row(*one) for one in rows if not isinstance(one, str)]
    theirs = [{"ordered": one["at"], "id": one["key"], "cost": one["amount"]} for one in told]
    other = replace(place, name=OTHER)
    other.land(f"{number}.json", theirs, "landing_orders")
    succeed(spark, other, f"theirs-{number}")
    succeed(spark, place, f"run-{number}")


def on(spark: SparkSession, place: Filed) -> dict[str, Any]:
    """One run more, with late rows, and what gold and the ledger are behind it."""
    run(spark, place, 9, (4, "b", 2, "late"), (66, "a", 3, "later"), (180, "b", 1, "new"), "{")
    return golds(place)


def golds(place: Filed) -> dict[str, Any]:
    found: dict[str, Any] = {one: sorted_rows(place.gold(one)) for one in place.pipeline.tables}
    ledger = place.table(place.places.ledger)
    return {**found, "ledger": sorted_rows(ledger, without=("pipeline", "written_at"))}


def renamed(place: Filed) -> Filed:
    place = place.renamed()
    do(place)
    return place


def do(place: Filed) -> None:
    plan = plan_rename(FORMER, NAME, place.settings)
    rename(plan, place.settings, datetime.now(UTC), "Ada", "a better name")


def check_whole(spark: SparkSession, place: Filed) -> None:
    assert find_losses(place.pipeline, place.warehouse) == ()
    assert audit(spark, place).outcome == "equal"
    lines = place.table(place.places.ledger).to_pylist()
    assert {one["pipeline"] for one in lines} == {place.name}
    assert all(one["difference"] in (0, None) for one in lines)
    source = Ledgered(place.pipeline, place.warehouse, seeds_of(place.pipeline, place.warehouse))
    rebuilt = rebuilt_lines(source)
    assert all(one.difference in (0, None) for one in rebuilt)


def command(place: Filed, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidemark", *words],
        env=os.environ | place.variables, capture_output=True, text=True, cwd=REPOSITORY,
    )  # fmt: skip


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    content = clicks(source=SOURCE, tables=TABLES, lookup=LOOKUP)
    place = Filed(tmp_path_factory.mktemp("renamed") / "root", content, FORMER)
    Place(place.root, PARTNER, OTHER).write_file()
    place.write_file()
    (place.root / "dims").mkdir(parents=True)
    (place.root / "dims/rates.csv").write_text("key,kind\na,x\nb,y\n")
    run(spark, place, 0, (0, "a", 5, "a0"), (3, "b", 1, "b0"), "no JSON")
    run(spark, place, 1, (62, "b", 1, "b1"), (64, "a", 7, "a1"), (0, "a", 5, "a0"), "[]")
    run(spark, place, 2, (3, "b", 9, "b2"), (90, "a", 1, "a3"), (95, "b", 4, "b3"))
    rewound(spark, place, "run-1")
    succeed(spark, place, "behind")
    ids = {one["raw"]: one["id"] for one in place.rejects().to_pylist()}
    replayed(spark, place, mended=mended(place, {"id": ids["[]"], "raw": row(5, "c", 2, "m")}))
    succeed(spark, place, "behind-replay")
    backfill(spark, place, at(10), at(11))
    result = retracted(spark, place, where="key = 'a' and amount = 7")
    assert result.change is not None
    maintain_pipeline(place.pipeline, place.settings, "maintain", datetime.now(UTC))
    housekeep_pipeline(place.pipeline, place.settings, "keep", datetime.now(UTC))
    place.keep()
    if kept := os.environ.get("KEEP_ROOT"):
        __import__("shutil").copytree(place.root, kept, dirs_exist_ok=True)
    twin = on(spark, place)
    check_whole(spark, place)
    return Story(spark, place, result.change.id, twin)


def test_it_goes_on_as_its_twin_does(spark: SparkSession, story: Story) -> None:
    place = story.again()
    assert any(files_holding(Path(place.places.checkpoints), FORMER))
    place = place.renamed()
    with nothing_written(place.root):
        shown = command(place, "rename", FORMER, NAME)
    assert shown.returncode == 0, shown.stderr
    assert "Nothing was changed" in shown.stdout
    done = command(place, "rename", FORMER, NAME, "--apply", "--reason", "a better name")
    assert done.returncode == 0, done.stderr
    assert "Renamed" in done.stdout
    assert f"The bronze of {OTHER} is kept for matched of {NAME}" in done.stdout
    assert not (place.root / FORMER).exists()
    assert unfinished_act(place.warehouse) is None
    readers = other_readers(Warehouse.of(OTHER, place.settings))
    assert [one.name for one in readers] == [f"matched of {NAME}"]
    left = files_holding(Path(place.places.folder), FORMER)
    assert [one for one in left if not HISTORY.match(one)] == []
    assert files_holding(place.root / OTHER, FORMER) == []
    for name in ("ledger", "runs", "upkeep", "quality"):
        assert {one["pipeline"] for one in rows_of(place, name)} == {NAME}
    (act,) = [one for one in rows_of(place, "upkeep") if one["kind"] == "rename"]
    assert (act["verdict"], act["reason"]) == (f"was {FORMER}", "a better name")

    standing = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert standing.state is not PipelineState.NEW
    forget(spark)
    assert on(spark, place) == story.twin
    check_whole(spark, place)
    lease = sorted((place.root / NAME / "lease").iterdir())
    assert len(lease) == 1


def rows_of(place: Filed, name: str) -> list[dict[str, Any]]:
    return list(place.table(getattr(place.places, name)).to_pylist())


def test_what_is_told_of_it_is_told_under_its_new_name(spark: SparkSession, story: Story) -> None:
    place = renamed(story.again())
    for words in (
        ("status", NAME),
        ("rejects", "list", NAME),
        ("ledger", "show", NAME),
        ("explain", NAME, "per_10m", "--at", "2026-07-01T10:03:00Z", "--where", "key = 'b'"),
        ("lease", "show", NAME),
        ("checkpoint", "doctor", NAME),
        ("rename", FORMER, NAME),
    ):
        told = command(place, *words)
        print(words, told.returncode, told.stdout[-1500:], told.stderr[-700:])
    again = command(place, "rename", FORMER, NAME, "--apply")
    assert again.returncode == 1
    assert "is there already" in " ".join(again.stderr.split())
    for words in (("status", NAME), ("rejects", "list", NAME), ("ledger", "show", NAME)):
        told = command(place, *words)
        assert told.returncode == 0, told.stderr
        assert FORMER not in told.stdout


def test_acts_of_before_are_taken_back_behind_it(spark: SparkSession, story: Story) -> None:
    place = renamed(story.again())
    retracted(spark, place, undo=story.act, reason="was right")
    check_whole(spark, place)
    refused = rewind_warm(spark, place, "run-1", reason="back").error
    assert refused is not None
    assert "Rejects were replayed since" in refused.message
    undone = rewind_warm(spark, place, "behind-replay", reason="back")
    assert undone.error is None, undone.error
    succeed(spark, place, "since")
    check_whole(spark, place)
    assert undone.change is not None
    back = rewind_warm(spark, place, undo=undone.change.id)
    assert back.error is None, back.error
    succeed(spark, place, "on")
    check_whole(spark, place)


def test_it_is_migrated_and_maintained_behind_it(spark: SparkSession, story: Story) -> None:
    place = renamed(story.again())
    assert on(spark, place) == story.twin
    migrated = migrate(spark, place, rebuild=True)
    assert migrated.error is None, migrated.error
    succeed(spark, place, "migrated")
    maintain_pipeline(place.pipeline, place.settings, "maintain", datetime.now(UTC))
    housekeep_pipeline(place.pipeline, place.settings, "keep", datetime.now(UTC))
    check_whole(spark, place)
    rolled = command(place, "migrate", NAME, "--rollback", "per_10m")
    assert rolled.returncode == 0, rolled.stderr
    forget(spark)
    succeed(spark, place, "back")
    check_whole(spark, place)


ENDS = """
import os, sys
from tidemark import commit_point
from tidemark.cli.main import app
when, point, left = sys.argv[1], sys.argv[2], [int(sys.argv[3])]
def end(reached, moment, _):
    if (moment, reached) == (when, point):
        left[0] -= 1
        if not left[0]:
            os._exit(9)
commit_point.on_reach = end
app(sys.argv[4:])
"""


@pytest.mark.parametrize(
    ("when", "point", "time"),
    [
        ("before", "folder of a pipeline renamed", 1),
        ("after", "folder of a pipeline renamed", 1),
        ("after", "rows of ops renamed", 2),
        pytest.param("after", "pipeline stopped for an act", 1, marks=LONG),
        pytest.param("before", "contract recorded", 2, marks=LONG),
        pytest.param("after", "reader of another bronze noted", 1, marks=LONG),
        pytest.param("before", "pipeline released after an act", 1, marks=LONG),
        pytest.param("after", "pipeline released after an act", 1, marks=LONG),
    ],
)
def test_its_process_killed_the_same_command_does_the_rest(
    spark: SparkSession, story: Story, when: str, point: str, time: int
) -> None:
    place = story.again().renamed()
    words = ("rename", FORMER, NAME, "--apply", "--reason", "a better name")
    ended = subprocess.run(
        [sys.executable, "-c", ENDS, when, point, str(time), *words],
        env=os.environ | place.variables, capture_output=True, text=True, cwd=REPOSITORY,
    )  # fmt: skip
    assert ended.returncode == 9, ended.stderr
    is_released = (when, point) == ("after", "pipeline released after an act")
    is_moved = not (place.root / FORMER).exists()
    if is_moved and not is_released:
        stopped = command(place, "run", NAME)
        assert stopped.returncode == 1
        assert f"tidemark rename {FORMER} {NAME} --apply" in " ".join(stopped.stderr.split())
    if not is_released:
        done = command(place, *words)
        assert done.returncode == 0, done.stderr
    assert unfinished_act(place.warehouse) is None
    assert [one["kind"] for one in rows_of(place, "upkeep")].count("rename") == 1
    forget(spark)
    assert on(spark, place) == story.twin
    check_whole(spark, place)


@LONG
def test_state_of_a_fold_names_its_files_by_their_path_and_so_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path / "root")
    place.write_file()
    place.land("0.json", as_json([fold_event(0), fold_event(1), fold_event(40)]))
    succeed(spark, place, "run-0")
    assert any(
        "_metadata/v2" in one
        for one in files_holding(Path(place.places.checkpoints), str(place.root))
    )
    file = place.root / "pipelines" / "clicks.yaml"
    file.rename(file.with_stem(NAME))
    told = command(place, "rename", "clicks", NAME, "--apply")
    assert told.returncode == 1
    assert "stream: recompute" in told.stderr
    assert Path(place.places.folder).exists()
