"""`tidemark maintain`: a plan, its act, a real kill at each of its writes, on a disk and on S3."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from tests.kit.running import Place, sorted_rows
from tests.kit.windows import at, window
from tests.runs.pipelines import ended, windows_of
from tests.storage.s3 import s3_server
from tidemark.cli.main import app
from tidemark.gold.reading import read
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.storage.delta import create
from tidemark.storage.files import list_files, write_bytes
from tidemark.upkeep.maintenance.maintain import maintain_pipeline, plan_maintenance

# The process ends itself at the Nth call of a function of maintenance, before or after its work.
DYING = """
import os, signal, sys
from itertools import count
from tidemark.upkeep.maintenance import carry_out
name, when, last = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
original, calls = getattr(carry_out, name), count(1)
def dying(*of):
    this = next(calls) == last
    if this and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    original(*of)
    if this and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
setattr(carry_out, name, dying)
from tidemark.cli.main import app
app(prog_name="tidemark")
"""
# Kills beside which nothing new is seen at the others, which run with the long tests.
SHORT = (("compact_table", "after"), ("remove", "before"))
RUNS = 12
NONE = timedelta(0)
AT_ONCE = Maintenance.model_construct(
    retention=NONE, log_retention=NONE, ops_retention=timedelta(days=1), result_retention=NONE
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A pipeline after many small runs: small files, a long log, old rows, leftovers."""
    place = Place(tmp_path_factory.mktemp("maintained") / "root")
    place.write_file()
    instant, windows = datetime.now(UTC), windows_of(place)
    # A query that has read nothing yet would need all of bronze's log.
    shutil.rmtree(place.places.checkpoints)
    for run in range(RUNS):
        windows.change(window(at(11, run), key=f"k{run}", total=run))
        windows.publish_at(at(10, 40), f"run-{run}")
        _bronze(place, run)
        ended(place, f"run-{run}", instant - timedelta(days=200 - run))
    ended(place, "run", at(12))
    DeltaTable(place.places.bronze, version=8).create_checkpoint()
    # As tables of an earlier version, whose writers made one every 100 commits.
    for log in place.root.glob("clicks/per_10m/*/_delta_log"):
        for path in (*log.glob("*.checkpoint.parquet"), *log.glob("_last_checkpoint")):
            path.unlink()
    leftover = place.root / "clicks/bronze/BATCH-1/part-0.parquet"
    leftover.parent.mkdir()
    leftover.write_bytes(b"12345")
    result = Path(place.places.result("run-0"))
    result.parent.mkdir()
    result.write_text("{}")
    for path in (leftover, result, *(place.root / "clicks/bronze/_delta_log").iterdir()):
        then = (instant - timedelta(days=50)).timestamp()
        os.utime(path, (then, then))
    place.keep()
    return place


@pytest.fixture
def place(ran: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """As the runs have left it, and as commands find it."""
    monkeypatch.setenv("TIDEMARK_ROOT", str(ran.root))
    monkeypatch.setenv("TIDEMARK_PIPELINES", ran.settings.pipelines)
    return ran.again()


def _bronze(place: Place, number: int) -> None:
    day = at(0, day=1 + number % 2)
    rows = pa.table({"at": pa.array([day], pa.timestamp("us", "UTC")), "n": [number],
                     "_event_date": pa.array([day.date()])})  # fmt: skip
    made = {} if number else {"configuration": create._PLAIN}
    write_deltalake(place.places.bronze, rows, mode="append", partition_by=["_event_date"], **made)


def maintain(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["maintain", "clicks", *arguments])


def content(place: Place) -> Mapping[str, Any]:
    """All rows that people and runs read."""
    places = place.places
    tables = {"bronze": places.bronze, "runs": places.runs}
    tables |= {"changes": places.changes("per_10m", 1), "gold": places.gold("per_10m")}
    return {name: sorted_rows(place.table(uri)) for name, uri in tables.items()}


def files(place: Place) -> set[str]:
    return {str(path.relative_to(place.root)) for path in place.root.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_plan_changes_nothing_and_the_act_does_what_it_says(place: Place) -> None:
    before, there = content(place), files(place)
    shown = maintain()
    assert shown.exit_code == 0, shown.output
    assert files(place) == there
    assert "due (nothing was changed: --apply does it)" in shown.output
    plans = {plan["name"]: plan for plan in json.loads(maintain("--json").stdout)}
    parts = {part["work"]: part for part in plans["bronze"]["parts"]}
    assert {work: part["going"] for work, part in parts.items()} == {
        "compaction": RUNS, "unused files": 1, "log": 8,
    }  # fmt: skip
    assert plans["results"]["parts"][0]["going"] == 1

    applied = maintain("--apply")
    assert applied.exit_code == 0, applied.output
    assert "bronze" in applied.output
    after = content(place)
    assert {**after, "runs": None} == {**before, "runs": None}
    # That of the run that published last, and what came after it.
    assert [row[1] for row in after["runs"]] == ["run"]
    assert len(DeltaTable(place.places.bronze).file_uris()) == 2
    assert not (place.root / "clicks/bronze/BATCH-1/part-0.parquet").exists()
    due = plan_maintenance(place.pipeline, place.settings, datetime.now(UTC))
    assert not any(plan.compact or plan.remove or plan.keep_rows is not None for plan in due)
    assert "log checkpoints to write: done" in maintain("--apply").output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "call", "when"),
    [
        pytest.param(
            *(name, call, when),
            marks=() if (name, when) in SHORT and call == 1 else pytest.mark.long,
        )
        for name, call in (
            *(("compact_table", 1), ("compact_table", 2)),
            *(("keep_rows", 1), ("write_checkpoint", 1), ("remove", 1)),
        )
        for when in ("before", "after")
    ],
)
def test_killed_at_any_write_nobody_loses_anything_and_a_repetition_finishes(
    place: Place, name: str, call: int, when: str
) -> None:
    before = content(place)
    command = [sys.executable, "-c", DYING, name, when, str(call), "maintain", "clicks", "--apply"]
    died = subprocess.run(command, check=False, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    killed = content(place)
    assert {**killed, "runs": None} == {**before, "runs": None}
    again = maintain("--apply")
    assert again.exit_code == 0, again.output
    assert {**content(place), "runs": None} == {**before, "runs": None}
    assert len(content(place)["runs"]) < len(before["runs"])
    due = plan_maintenance(place.pipeline, place.settings, datetime.now(UTC))
    assert not any(plan.compact or plan.remove or plan.keep_rows is not None for plan in due)
    assert [plan.refused for plan in due] == [None] * len(due)


@pytest.mark.slow
def test_a_held_lease_is_told_and_nothing_is_done(place: Place) -> None:
    there = files(place)
    with pipeline_lease(place.pipeline, place.settings, "run-1", "stream"):
        shown = maintain("--apply")
    assert shown.exit_code == 75
    assert {name for name in files(place) ^ there if "/lease/" not in name} == set()


@pytest.mark.slow
def test_changes_that_wait_for_their_publish_stop_the_maintenance_of_their_table(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows_of(place).change(window(at(13), key="held", total=1))
    assert maintain("--apply").exit_code == 0
    late = datetime.now(UTC) + timedelta(days=4)
    plans = {p.name: p for p in plan_maintenance(place.pipeline, place.settings, late)}
    waiting = plans["per_10m/changes"]
    assert waiting.refused is not None
    assert "the publish of per_10m has yet to read" in waiting.refused
    assert waiting.compact == {}
    assert waiting.remove == ()
    assert plans["per_10m/gold"].refused is None


@pytest.mark.slow
def test_on_object_storage_the_same_is_done_and_gold_reads_as_before(tmp_path: Path) -> None:
    with s3_server() as options:
        root = "s3://lake/ä b"
        settings = Settings(root=root, pipelines=str(tmp_path), storage_options=options)
        settings = settings.model_copy(update={"maintenance": AT_ONCE})
        gold = f"{root}/clicks/per_10m/gold"
        for number in range(12):
            _gold(gold, number, options)
        write_bytes(f"{gold}/window_date=2026-07-01/left.parquet", b"12345", options)
        pipeline = Place(tmp_path).pipeline
        later = datetime.now(UTC) + timedelta(minutes=1)
        maintain_pipeline(pipeline, settings, "m-1", later)
        table = DeltaTable(gold, storage_options=options)
        assert len(table.file_uris()) == 1
        assert not any("left.parquet" in name for name in list_files(gold, options))
        _gold(gold, 12, options)
        maintain_pipeline(pipeline, settings, "m-2", later)
        found = read("clicks", "per_10m", settings=settings)
        assert sorted(found["n"].to_pylist()) == [*range(13)]
        # The replaced files are gone, and the log begins with a checkpoint.
        names = {name.rpartition("/")[2] for name in list_files(gold, options)}
        assert sum(name.endswith(".parquet") and "checkpoint" not in name for name in names) == 2
        assert sorted(name for name in names if name.endswith(".json")) == [
            f"{12:020}.json", f"{13:020}.json",
        ]  # fmt: skip


def _gold(uri: str, number: int, options: dict[str, str]) -> None:
    start = at(10, number)
    rows = pa.table({"window_start": pa.array([start], pa.timestamp("us", "UTC")), "n": [number],
                     "window_date": pa.array([start.date()])})  # fmt: skip
    made = {} if number else {"configuration": create._PLAIN}
    write_deltalake(
        uri, rows, mode="append", partition_by=["window_date"], storage_options=options, **made
    )
