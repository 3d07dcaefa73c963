"""Trials and runs from Python, as in a notebook: in a running event loop, and interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import tidemark
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import Place, clicks, sorted_rows
from tidemark.errors import ChecksFailed
from tidemark.notebook import TrialResult
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result

ROWS = [
    *({"at": f"2026-01-01T10:{n % 60:02}:00Z", "key": "ab"[n % 2], "amount": n} for n in range(90)),
    "no JSON",
    {"at": "2026-01-01T11:40:00Z", "key": "a", "amount": 7},
]
# Texts of one form compare as their times do.
ORACLE = """
    SELECT "at"[:15] || '0:00Z' AS window_start, key, count(*), sum(amount)::BIGINT
    FROM read_json('{}', format='newline_delimited', ignore_errors=true,
        columns={{"at": 'VARCHAR', key: 'VARCHAR', amount: 'BIGINT'}})
    WHERE "at" IS NOT NULL GROUP BY ALL ORDER BY ALL
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path / "root")
    place.land("1.json", ROWS)
    place.write_file()
    (tmp_path / "tmp").mkdir()
    for name, value in {**place.variables, "TMPDIR": str(tmp_path / "tmp")}.items():
        monkeypatch.setenv(name, value)
    return place


def files_below(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def counted(gold: pa.Table) -> list[tuple[str, str, int, int]]:
    return sorted(
        (f"{row['window_start']:%Y-%m-%dT%H:%M:%SZ}", row["key"], row["events"], row["amount"])
        for row in gold.to_pylist()
    )


@pytest.mark.second
@pytest.mark.process
def test_what_is_tried_and_run_within_an_event_loop_is_what_the_command_would_give(
    place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline, environment = tidemark.load("clicks"), dict(os.environ)
    before, threads = files_below(place.root), threading.enumerate()

    async def cells() -> tuple[TrialResult, RunResult]:
        trial = pipeline.try_(91)
        assert files_below(place.root) == before
        return trial, pipeline.run(master="local[1]")

    trial, run = asyncio.run(cells())
    assert (dict(os.environ), threading.enumerate()) == (environment, threads)
    assert not [*(tmp_path / "tmp").glob("tidemark-try-*")]
    said = capfd.readouterr()
    assert "clicks: the first 91 lines of its source, of 1 file\n" in said.err
    assert "ingest batch 0: 91 rows" in said.err
    assert not said.out

    assert (trial.accepted.num_rows, trial.rejects.num_rows, trial.faults) == (90, 1, ())
    assert trial.rejects["reason"].to_pylist() == ["malformed"]
    assert (trial.result.rows.read, trial.result.outcome) == (91, "succeeded")
    assert repr(trial) == trial.report.strip()
    for line in ("per_10m: 12 rows", "rejects: 1 row", "ledger: "):
        assert line in trial.report

    (file,) = Path(place.places.results).glob("*.json")
    assert run == read_result(RunResult, str(file), {})
    assert (run.rows.read, run.rows.accepted, run.held, run.error) == (92, 91, False, None)
    gold = pipeline.read("per_10m")
    assert sorted_rows(gold) == sorted_rows(place.gold())
    with duckdb.connect() as connection:
        expected = connection.execute(ORACLE.format(place.root / "landing" / "1.json")).fetchall()
    assert counted(gold) == expected
    tried = counted(trial.tables["per_10m"])
    assert tried == [row for row in expected if not row[0].startswith("2026-01-01T11")]
    assert trial.tables["per_10m"].to_pandas()["events"].sum() == 90
    assert pipeline.read("per_10m", final_only=True, columns=["key"]).column_names == ["key"]

    idle = pipeline.run()
    assert (idle.rows.read, idle.without_spark is None) == (0, False)
    assert sorted_rows(pipeline.read("per_10m")) == sorted_rows(gold)


@pytest.mark.process
def test_a_run_that_its_checks_hold_raises_them_and_a_trial_without_a_row_says_so(
    place: Place,
) -> None:
    table = {**clicks()["tables"]["per_10m"], "checks": [{"fail": "events < 3"}]}
    tidemark.write(
        clicks(tables={"per_10m": table}), place.root / "pipelines/clicks.yaml", replace=True
    )
    pipeline = tidemark.load("clicks")
    with pytest.raises(ChecksFailed, match="events < 3") as failed:
        pipeline.run()
    (file,) = Path(place.places.results).glob("*.json")
    assert str(failed.value).endswith(f"\nIt was the run {file.stem} of clicks.")
    assert pipeline.read("per_10m").num_rows == 0

    place.land("1.json", ["no JSON", '{"key": 1}'])
    trial = pipeline.try_()
    assert (trial.accepted.num_rows, trial.rejects.num_rows) == (0, 2)
    (fault,) = trial.faults
    assert fault == "Each of the 2 rows was rejected: correct the file."
    assert fault in repr(trial)


@pytest.mark.process
def test_an_interrupt_ends_all_processes_of_the_run_and_the_next_one_goes_on(place: Place) -> None:
    script = "import tidemark\npipeline = tidemark.load('clicks')\npipeline.run()\n"
    # As a notebook's kernel hears it; what a shell starts in the background may ignore it.
    heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", heard + script], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "session done" in line:
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == -signal.SIGINT, said
    assert "KeyboardInterrupt" in said
    root = str(place.root).encode()
    assert [
        path for path in Path("/proc").glob("[0-9]*/cmdline") if root in _read(path)
    ] == []  # fmt: skip
    again = tidemark.load("clicks").run()
    assert (again.outcome, again.rows.accepted) == ("succeeded", 91)
    assert tidemark.read("clicks", "per_10m").num_rows == 13


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
