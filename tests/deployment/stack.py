"""The containers of docker-compose.yaml, under names, ports and volumes of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from deltalake import DeltaTable

from demo.api import AirflowApi, DagRun
from demo.environment import AirflowHome
from demo.land import without_schedule
from demo.runs import PATIENCE_SECONDS, wait_until
from tests.kit.running import query
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.storage.lease.lease import LeaseRecord, read_lease

REPOSITORY = Path(__file__).parents[2]
ROOT = "s3://tidemark/warehouse"
PORTS = ("AIRFLOW_PORT", "SPARK_PORT", "STORE_PORT", "HISTORY_PORT")
# What waits minutes for a process to come back does so for less; all else is as users have it.
QUICKER = """\
services:
  scheduler: &quicker
    environment:
      TIDEMARK_LEASE_SECONDS: "30"
      AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT: "30"
      AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL: "5"
  dag-processor: *quicker
  api-server: *quicker
"""


@dataclass
class Stack:
    """A folder like a clone's, as far as Compose looks at it, and what runs of it."""

    folder: Path
    project: str

    @property
    def variables(self) -> dict[str, str]:
        lines = (self.folder / ".env").read_text(encoding="utf-8").splitlines()
        pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
        return {name: value for name, _, value in pairs}

    def secret(self, name: str) -> str:
        return (self.folder / ".secrets" / name).read_text(encoding="utf-8")

    @property
    def options(self) -> dict[str, str]:
        """Of the store, as this machine reaches it."""
        return {
            "AWS_ACCESS_KEY_ID": self.secret("store_access_key"),
            "AWS_SECRET_ACCESS_KEY": self.secret("store_secret_key"),
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.variables['STORE_PORT']}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }

    def compose(self, *arguments: str, seconds: float = 600) -> str:
        """What the command said; it has to end well."""
        command = ["docker", "compose", "--project-name", self.project]
        command += ["--file", "docker-compose.yaml", "--file", "quicker.yaml", *arguments]
        # Variables of this shell would come before those of .env.
        keep = {n: v for n, v in os.environ.items() if not n.startswith(("TIDEMARK", "AIRFLOW"))}
        ended = subprocess.run(
            command, cwd=self.folder, env=keep, capture_output=True, text=True, timeout=seconds
        )
        assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def up(self) -> float:
        """All of it, healthy; after how many seconds."""
        begin = time.monotonic()
        self.compose("up", "--wait")
        return time.monotonic() - begin

    def tidemark(self, *arguments: str) -> str:
        return self.compose("exec", "--no-TTY", "drivers", "tidemark", *arguments)

    def audit(self, dag: str) -> str:
        """As docs/compose.md says."""
        submit = ["sh", "include/deploy/entrypoint.sh", "spark-submit"]
        submit += ["--master", "spark://spark-master:7077", "jobs/audit.py", "--pipeline", dag]
        return self.compose("exec", "--no-TTY", "drivers", *submit)

    def land(self, dag: str, *files: Path) -> None:
        """As docs/compose.md says."""
        into = self.folder / "warehouse" / "landing" / dag
        into.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, into)
        self.compose("run", "--rm", "land")

    def api(self) -> AirflowApi:
        """Logged in."""
        port, password = int(self.variables["AIRFLOW_PORT"]), self.secret("airflow_password")
        api = AirflowApi(AirflowHome(self.folder, port, password))
        api.login()
        return api

    def start(self, dag: str, run_id: str) -> None:
        self.api().trigger(dag, run_id, datetime.now(UTC))

    def end(self, dag: str, run_id: str, seconds: float = 600) -> DagRun:
        api = self.api()
        what, tasks = f"The end of {run_id}", lambda: api.run(dag, run_id).tasks
        wait_until(lambda: api.run(dag, run_id).ended, tasks, what, seconds)
        return api.run(dag, run_id)

    def states(self, dag: str, run_id: str) -> dict[str, str | None]:
        return {task.task: task.state for task in self.api().run(dag, run_id).tasks}

    def pipeline(self, dag: str) -> Pipeline:
        return load_pipeline(self.folder / "include" / "pipelines" / f"{dag}.yaml")

    def lease(self, dag: str) -> LeaseRecord | None:
        return read_lease(Places(ROOT, dag).lease, self.options)

    def applications(self) -> list[dict[str, Any]]:
        """Those that run on the cluster now, as its master tells them."""
        url = f"http://127.0.0.1:{self.variables['SPARK_PORT']}/json/"
        return httpx.get(url, trust_env=False).raise_for_status().json()["activeapps"]

    def workers(self) -> int:
        url = f"http://127.0.0.1:{self.variables['SPARK_PORT']}/json/"
        return httpx.get(url, trust_env=False).raise_for_status().json()["aliveworkers"]

    def table(self, place: str) -> DeltaTable:
        return DeltaTable(place, storage_options=self.options)


def wait(what: str, done: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    wait_until(done, lambda: None, what, seconds)


def new_stack(folder: Path) -> Stack:
    """Its files, with free ports and passwords of its own; nothing is started."""
    shutil.copy(REPOSITORY / "docker-compose.yaml", folder)
    (folder / "quicker.yaml").write_text(QUICKER, encoding="utf-8")
    shutil.copytree(REPOSITORY / "include" / "deploy", folder / "include" / "deploy")
    # A run on the schedule would come between those of a test.
    without_schedule(REPOSITORY / "include" / "pipelines", folder / "include" / "pipelines")
    subprocess.run(["sh", "include/deploy/compose_env.sh"], cwd=folder, check=True)
    with (folder / ".env").open("a", encoding="utf-8") as env:
        for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True):
            print(f"{name}={port}", file=env)
    return Stack(folder, f"tidemark-test-{os.getpid()}")


def free_ports(number: int) -> Sequence[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def gold_is_the_aggregate(stack: Stack, dag: str) -> None:
    """Each table equals DuckDB's own query over bronze, and each landed line is in bronze or
    rejects."""
    places = Places(ROOT, dag)
    bronze = stack.table(places.bronze).to_pyarrow_table()
    for name, table in stack.pipeline(dag).tables.items():
        columns = ["window_start", *table.group_by, *table.measures]
        gold = stack.table(places.gold(name)).to_pyarrow_table().select(columns)
        found = query(f"SELECT {', '.join(columns)} FROM gold", gold=gold)
        assert sorted(found, key=str) == sorted(query(SQL[name], bronze=bronze), key=str), name


def counted(stack: Stack, dag: str) -> tuple[int, int]:
    """Rows of bronze and of rejects."""
    places = Places(ROOT, dag)
    tables = (stack.table(one).to_pyarrow_table() for one in (places.bronze, places.rejects))
    bronze, rejects = (table.num_rows for table in tables)
    return bronze, rejects


SQL = {
    "status_1h": """
        SELECT time_bucket(INTERVAL '1 hour', "timestamp") AS window_start, status_code,
            count(*), count_if(status >= 400), sum(bytes)::BIGINT
        FROM bronze GROUP BY ALL
    """,
    "path_1d": """
        SELECT time_bucket(INTERVAL '1 day', "timestamp") AS window_start, path, count(*)
        FROM bronze GROUP BY ALL
    """,
    "spot_10m": """
        SELECT window_start, "spotId", count(*), count_if(mobile) FROM (
            SELECT *, time_bucket(INTERVAL '5 minutes', "timestamp")
                - unnest([INTERVAL '0 minutes', INTERVAL '5 minutes']) AS window_start FROM bronze
        ) GROUP BY ALL
    """,
}
