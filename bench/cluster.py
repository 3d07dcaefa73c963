"""A standalone Spark cluster on loopback, for as long as it is needed."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DEPLOY = "org.apache.spark.deploy"
_PATIENCE_SECONDS = 180
_WORKER_MEMORY = "2g"


class ClusterFailed(Exception):
    """The cluster did not come up."""


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """A master and workers of one core each; yields the master's URL. All are ended afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    port, page = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1"]
    processes = [
        _start(folder, "master", f"{_DEPLOY}.master.Master", *here, "--port", str(port),
               "--webui-port", str(page))
    ]  # fmt: skip
    try:
        for number in range(workers):
            memory = ["--cores", "1", "--memory", _WORKER_MEMORY]
            place = ["--work-dir", str(folder / f"work-{number}"), "--webui-port", "0"]
            name = f"worker-{number}"
            processes.append(
                _start(folder, name, f"{_DEPLOY}.worker.Worker", *here, *memory, *place, master)
            )
        _wait_for_workers(f"http://127.0.0.1:{page}/json/", workers, folder)
        yield master
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def _start(folder: Path, name: str, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    spark_class = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-class"
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [str(spark_class), main_class, *arguments],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )


def _wait_for_workers(page: str, workers: int, folder: Path) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(page, timeout=5) as answer:
            if answer.read().count(b'"ALIVE"') >= workers + 1:  # the master says it of itself
                return
        time.sleep(0.2)
    raise ClusterFailed(f"{workers} workers did not register in time; the logs are in {folder}.")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
