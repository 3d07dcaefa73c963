"""An executor or the driver is killed in the middle of a batch, some of its state written.

Executors are processes of their own here. What one of them held of the state is gone with it; its
partitions go on in another, which loads the version of the last commit from the checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import Place, clicks, query, run_job, sorted_rows, start_job
from tidemark.checkpoint.log import Checkpoint

pytestmark = [pytest.mark.process, pytest.mark.long]

# Two executors of one core: with this many tasks, most of a batch is still to come when the first
# partition's state is written.
CLUSTER, PARTITIONS = "local-cluster[2,1,1024]", 8
ROWS = 2_000
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


# A snapshot of each version, so that a killed batch leaves some that nobody committed.
EACH_VERSION = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "0"}


def content(store: str, spark: dict[str, str]) -> dict[str, Any]:
    state = {"shuffle_partitions": PARTITIONS, "state": {"store": store}}
    return clicks(advanced=state | {"spark": spark})


def land(place: Place, number: int) -> None:
    """Rows of two windows: one that was there before, one that follows."""
    rows = (
        {
            "at": f"2026-07-01T10:{10 * (number + i % 2) + i % 10:02}:00Z",
            "key": f"key{i % 300}",
            "amount": i,
        }
        for i in range(ROWS)
    )
    place.land(f"{number}.json", rows)


def after_one_run(root: Path, store: str, spark: dict[str, str] | None = None) -> Place:
    place = Place(root, content(store, spark or {}))
    land(place, 0)
    end = run_job(place, "first")
    assert end.exit_code == 0, end.output
    land(place, 1)
    return place


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = after_one_run(tmp_path_factory.mktemp("undisturbed"), "memory")
    end = run_job(place, "second")
    assert end.exit_code == 0, end.output
    return place


@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_a_batch_goes_on_where_an_executor_is_lost(
    tmp_path: Path, store: str, undisturbed: Place
) -> None:
    place = after_one_run(tmp_path, store)
    with running(place) as job:
        wait_for_state(place, job)
        executors_of(job)[0].kill()
        output, _ = job.communicate(timeout=HUNG_SECONDS)
    assert job.returncode == 0, output
    assert "Lost executor" in output
    assert_same(place, undisturbed)


@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_a_killed_drivers_batch_runs_again_from_the_last_commit(
    tmp_path: Path, store: str, undisturbed: Place
) -> None:
    place = after_one_run(tmp_path, store, EACH_VERSION)
    with running(place) as job:
        wait_for_state(place, job)
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate(timeout=HUNG_SECONDS)
    assert not (place.root / "killed.result.json").exists()
    end = run_job(place, "after")
    assert end.exit_code == 0, end.output
    assert_same(place, undisturbed)


@contextmanager
def running(place: Place) -> Iterator[subprocess.Popen[str]]:
    """The second run, with executors of its own; whatever comes of it, all of them are ended."""
    job = start_job(place, "killed", master=CLUSTER)
    try:
        yield job
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)


def wait_for_state(place: Place, job: subprocess.Popen[str]) -> None:
    """Until the first partition of the batch that the job runs has written its state."""
    checkpoint = Checkpoint(place.places.query_checkpoint("per_10m", 1), {})
    batch = (checkpoint.last_batch("commits") or 0) + 1
    written = Path(checkpoint.uri, "state", "0")
    end = time.monotonic() + HUNG_SECONDS
    while not (found := _changes(written, batch + 1)):
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)
    assert len(found) < PARTITIONS, "the batch had ended: nothing was in its middle"
    assert checkpoint.last_batch("commits") == batch - 1


def _changes(state: Path, version: int) -> list[Path]:
    return [*state.glob(f"*/{version}.delta"), *state.glob(f"*/{version}.changelog")]


def executors_of(job: subprocess.Popen[str]) -> list[psutil.Process]:
    family = psutil.Process(job.pid).children(recursive=True)
    return [one for one in family if EXECUTOR in one.cmdline()]


def assert_same(place: Place, undisturbed: Place) -> None:
    """Tables as an undisturbed run leaves them, and gold as one batch query has it."""
    facts, expected = facts_of(place), facts_of(undisturbed)
    assert facts == expected
    windows = query(
        """SELECT time_bucket(INTERVAL 10 MINUTES, "at"), key, count(*), sum(amount)::BIGINT
        FROM bronze GROUP BY ALL ORDER BY ALL""",
        bronze=place.bronze(),
    )
    columns = "window_start, key, events, amount"
    assert query(f"SELECT {columns} FROM gold ORDER BY ALL", gold=place.gold()) == windows


def facts_of(place: Place) -> dict[str, list[tuple[Any, ...]]]:
    batch = ("_batch", "_batch_time", "_file")
    rows = {name: sorted_rows(getattr(place, name)(), batch) for name in ("bronze", "rejects")}
    return rows | {"gold": sorted_rows(place.gold(), ("updated_by",))}
