"""A standalone cluster of Spark's on this machine alone: a master and workers of one core each."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kit.patience import PATIENCE_SECONDS

_HERE = "127.0.0.1"


@contextmanager
def cluster(
    folder: Path, workers: int = 2, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The master's URL, once all workers are with it. `environment`: that of the workers, whose
    executors inherit it, beside this process's."""
    with ExitStack() as stack:
        master = stack.enter_context(
            _daemon(folder / "master.log", "master.Master", "--port", "0", variables={})
        )
        url = master.said(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            stack.enter_context(
                _daemon(
                    folder / f"worker{number}.log",
                    "worker.Worker",
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), url),
                    variables=environment or {},
                )
            )
        if workers:
            master.said(*["Registering worker"] * workers)
        yield url


class _Daemon:
    """A started daemon, known by what it logs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    def said(self, *patterns: str) -> str:
        """Wait until the log has as many lines like this; the group of the last, where it has."""
        end = time.monotonic() + PATIENCE_SECONDS
        pattern = patterns[0]
        while len(found := re.findall(pattern, self.log.read_text())) < len(patterns):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)
        return str(found[-1]) if found else ""


@contextmanager
def _daemon(
    log: Path, name: str, *arguments: str, variables: Mapping[str, str]
) -> Iterator[_Daemon]:
    spark_class = Path(os.environ["SPARK_HOME"], "bin", "spark-class")
    command = [str(spark_class), f"org.apache.spark.deploy.{name}", "--host", _HERE]
    command += ["--webui-port", "0", *arguments]
    # The archive and the flags that set-up made are for short jobs.
    own = {"SPARK_DAEMON_JAVA_OPTS": "-Dspark.ui.enabled=false", "SPARK_NO_DAEMONIZE": "1"}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **own, **variables}
        )
    try:
        yield _Daemon(process, log)
    finally:
        process.terminate()
        process.wait(30)
