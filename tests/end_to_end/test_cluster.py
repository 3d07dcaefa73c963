"""Runs on a standalone cluster of Spark's, whose root is an object store; and what a cluster lacks.

Master, workers, executors, driver and the store are processes of their own, all on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidemark
from tests.kit.cluster import cluster
from tests.kit.packed import BASE_PYTHON, packed_python
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import REPOSITORY, Place, clicks, query
from tests.storage.s3 import s3_server
from tidemark.pipeline.places import FIRST_GENERATION, Places
from tidemark.storage.files import list_files, write_bytes
from tidemark.version import told_version

pytestmark = pytest.mark.process

ROOT = "s3://lake/tidemark"
ROWS = 3_000
# More than the 32 MB of lines that the driver judges by itself.
MANY_ROWS = 600_000


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@dataclass(frozen=True)
class OnCluster:
    """A pipeline below a root on the store, run by the command."""

    folder: Path
    root: str
    options: Mapping[str, str]
    master: str

    @property
    def places(self) -> Places:
        return Places(self.root, "clicks")

    def land(self, number: int, count: int = ROWS) -> None:
        rows = (
            {
                "at": f"2026-07-01T10:{(10 * number + i % 20) % 60:02}:00Z",
                "key": f"key{i % 50}",
                "amount": i,
            }
            for i in range(count)
        )
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        write_bytes(f"{self.root}/landing/{number}.json", text.encode(), self.options)

    def start(self, **variables: str) -> subprocess.Popen[str]:
        Place(self.folder, clicks()).write_file()
        own = {
            "TIDEMARK_ROOT": self.root,
            "TIDEMARK_PIPELINES": str(self.folder / "pipelines"),
            "TIDEMARK_STORAGE_OPTIONS": json.dumps(dict(self.options)),
            "PYSPARK_PYTHON": sys.executable,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tidemark", "run", "clicks", "--master", self.master],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | own | variables,
            cwd=REPOSITORY,
            start_new_session=True,
        )

    def run(self, **variables: str) -> tuple[int, str]:
        process = self.start(**variables)
        said, _ = process.communicate(timeout=HUNG_SECONDS)
        return process.returncode, said

    def planned(self) -> int:
        """How many batches the aggregate's checkpoint has."""
        checkpoint = self.places.query_checkpoint("per_10m", FIRST_GENERATION)
        return len(list_files(f"{checkpoint}/offsets", self.options))

    def table(self, uri: str) -> pa.Table:
        found = DeltaTable(uri, storage_options=dict(self.options))
        return pa.table(found.to_pyarrow_dataset().to_table())


def on(folder: Path, store: Mapping[str, str], master: str, name: str) -> OnCluster:
    return OnCluster(folder, f"{ROOT}/{name}", store, master)


def kill_all(process: subprocess.Popen[str]) -> None:
    """The command and its job, which is in a session of its own and would outlive it."""
    job = psutil.Process(process.pid).children(recursive=True)
    assert any("java" in one.name() for one in job)
    for one in (*job, process):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.communicate()


@pytest.mark.long
def test_gold_is_right_on_a_cluster_with_its_root_on_a_store_after_a_kill(
    tmp_path: Path, store: Mapping[str, str], master: str
) -> None:
    place = on(tmp_path, store, master, "gold")
    place.land(0)
    code, said = place.run()
    assert code == 0, said
    place.land(1)
    planned = place.planned()
    job = place.start()
    wait_for_more(place, planned, job)
    kill_all(job)
    place.land(2)
    code, said = place.run()
    assert code == 0, said
    is_right(place, 3 * ROWS)


def is_right(place: OnCluster, rows: int) -> None:
    """Bronze has so many rows, and gold is their aggregate."""
    bronze = place.table(place.places.bronze)
    assert bronze.num_rows == rows
    asked = (
        "SELECT time_bucket(INTERVAL '10 minutes', \"at\"), key, count(*), sum(amount) "
        "FROM bronze GROUP BY ALL ORDER BY ALL"
    )
    gold = place.table(place.places.gold("per_10m"))
    of_gold = "SELECT window_start, key, events, amount FROM gold ORDER BY ALL"
    assert query(of_gold, gold=gold) == query(asked, bronze=bronze)


@pytest.mark.long
def test_executors_judge_large_input_and_write_bronze_to_the_store(
    tmp_path: Path, store: Mapping[str, str], master: str
) -> None:
    place = on(tmp_path, store, master, "large")
    place.land(0, MANY_ROWS)
    code, said = place.run()
    assert code == 0, said
    is_right(place, MANY_ROWS)
    # What the driver judges by itself becomes one file a date.
    table = DeltaTable(place.places.bronze, storage_options=dict(store))
    assert len(table.file_uris()) > 1


@pytest.mark.long
def test_executors_with_a_plain_python_judge_large_input_by_a_packed_one(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    archive = packed_python(tmp_path / "environment.tar.gz")
    plain = {"PATH": os.defpath, "PYSPARK_PYTHON": "", "PYTHONPATH": ""}
    with cluster(tmp_path / "cluster", 1, plain) as bare:
        place = on(tmp_path, store, bare, "packed")
        place.land(0, MANY_ROWS)
        code, said = place.run(PYSPARK_PYTHON=BASE_PYTHON)
        assert code == 1, said
        assert "EngineMissing" in said
        assert "The executors' Python has no module tidemark" in said
        code, said = place.run(
            PYSPARK_PYTHON="./environment/bin/python",
            TIDEMARK_SPARK=json.dumps({"spark.archives": f"{archive}#environment"}),
        )
    assert code == 0, said
    is_right(place, MANY_ROWS)


def wait_for_more(place: OnCluster, planned: int, job: subprocess.Popen[str]) -> None:
    end = time.monotonic() + HUNG_SECONDS
    while place.planned() == planned:
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.long
def test_executors_without_the_jars_of_the_driver_end_a_run_before_its_first_batch(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    with cluster(tmp_path / "cluster", 1, {"SPARK_DIST_CLASSPATH": ""}) as bare:
        place = on(tmp_path, store, bare, "jars")
        place.land(0)
        code, said = place.run()
    assert code == 1, said
    assert "EngineMissing" in said
    assert "lack io.delta.sql.DeltaSparkSessionExtension" in said
    assert "org.apache.hadoop.fs.s3a.S3AFileSystem" in said
    assert "SPARK_DIST_CLASSPATH" in said
    assert not list_files(f"{place.root}/clicks/checkpoints", store)


@pytest.mark.long
def test_executors_of_a_stale_image_end_a_run_before_its_first_batch(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    """The same release, and one line of its code is another."""
    stale = tmp_path / "image"
    shutil.copytree(Path(tidemark.__file__).parent, stale / "tidemark")
    line = stale / "tidemark" / "judge" / "exact.py"
    line.write_text(line.read_text() + "\n")
    with cluster(tmp_path / "cluster", 1, {"PYTHONPATH": str(stale)}) as other:
        place = on(tmp_path, store, other, "stale")
        place.land(0)
        code, said = place.run()
    assert code == 1, said
    assert f"EngineMissing: The driver has Tidemark {told_version()}, and executors have" in said
    assert "Nothing was read or written" in said
    assert not list_files(f"{place.root}/clicks/checkpoints", store)


@pytest.mark.long
def test_executors_with_another_python_end_a_run_before_its_first_batch(
    tmp_path: Path, store: Mapping[str, str], master: str
) -> None:
    place = on(tmp_path, store, master, "python")
    place.land(0)
    code, said = place.run(PYSPARK_PYTHON="/usr/bin/no-such-python")
    assert code == 1, said
    assert "EngineMissing" in said
    assert "The executors have no /usr/bin/no-such-python" in said


def test_a_driver_without_the_jars_of_its_store_says_which_and_that_no_retry_helps(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    place = on(tmp_path, store, "local[1]", "driver")
    place.land(0)
    jars = Path(os.environ["SPARK_DIST_CLASSPATH"].removesuffix("/*"))
    of_delta = ":".join(str(jar) for jar in jars.glob("delta-*"))
    code, said = place.run(SPARK_DIST_CLASSPATH=of_delta, SPARK_SUBMIT_OPTS="")
    assert code == 1, said
    assert "EngineMissing" in said
    assert "The class org.apache.hadoop.fs.s3a.S3AFileSystem is not on the class path" in said
    assert "can help" not in said


@pytest.mark.long
def test_a_cluster_without_free_cores_ends_a_run_after_the_time_that_is_set(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    with cluster(tmp_path / "cluster", 0) as empty:
        place = on(tmp_path, store, empty, "cores")
        place.land(0)
        code, said = place.run(TIDEMARK_CLUSTER__WAIT_SECONDS="3")
    assert code == 75, said
    assert "ClusterBusy" in said
    assert "had a core free for this run for 3 s" in said


@pytest.mark.long
def test_a_master_that_does_not_answer_ends_a_run_and_a_retry_can_help(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    place = on(tmp_path, store, "spark://127.0.0.1:9", "master")
    place.land(0)
    code, said = place.run(TIDEMARK_CLUSTER__WAIT_SECONDS="150")
    assert code == 75, said
    assert "The master spark://127.0.0.1:9 does not answer" in said


@pytest.mark.long
def test_a_folder_for_event_logs_that_is_not_there_is_named_with_what_to_do(
    tmp_path: Path, store: Mapping[str, str]
) -> None:
    place = on(tmp_path, store, "local[1]", "events")
    place.land(0)
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "s3a://lake/events"}
    code, said = place.run(TIDEMARK_SPARK=json.dumps(events))
    assert code == 1, said
    assert "the folder of its event logs, s3a://lake/events, is not there" in said
