"""Airflow's processes, started on this machine and stopped again, whatever happens between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from demo.environment import REPOSITORY, DemoFailed

MIGRATE = ("db", "migrate")
# Both would serve logs on all of the machine's addresses.
SERVICES = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
# The scheduler, asked to end, waits for running tasks: no longer than this.
PATIENCE_SECONDS = 10
_TAIL_LINES = 15


@dataclass
class Services:
    """The processes of one Airflow. Whoever starts them calls `stop`, which leaves none behind.

    Each leads a session of its own, so a Ctrl-C in the terminal reaches the demo only, which
    then ends them in order. What they print goes to files in `logs`, an existing folder.
    """

    environment: Mapping[str, str]
    logs: Path
    _running: dict[str, psutil.Popen] = field(default_factory=dict)

    def migrate(self) -> None:
        """Make or update the metadata database."""
        process = self._start("migrate", MIGRATE)
        if process.wait() != 0:
            raise DemoFailed(self._died("migrate"))
        del self._running["migrate"]

    def start(self, names: Iterable[str] = tuple(SERVICES)) -> None:
        """Start the services; they take a while until they answer."""
        for name in names:
            self._start(name, SERVICES[name])

    def crash(self, name: str) -> None:
        """Kill a service at once, and start it again; what it had started is left alone."""
        self._running[name].kill()
        self._running[name].wait()
        self._start(name, SERVICES[name])

    def check(self) -> dict[Path, int]:
        """How long the logs are that grow only while something advances: of the tasks and of the
        scheduler. Raise DemoFailed when a service has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise DemoFailed(self._died(name))
        of_tasks = Path(self.environment["AIRFLOW_HOME"], "logs").glob("dag_id=*/**/*.log")
        return {log: log.stat().st_size for log in (*of_tasks, self._log("scheduler"))}

    def processes(self) -> list[psutil.Process]:
        """The services and everything that they started, Spark included."""
        found: list[psutil.Process] = []
        for process in self._running.values():
            with suppress(psutil.NoSuchProcess):
                found += [process, *process.children(recursive=True)]
        return found

    def stop(self) -> None:
        """Ask the services to end, wait, and kill what is left of them and of their tasks."""
        family = self.processes()
        for process in self._running.values():
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        psutil.wait_procs(self._running.values(), timeout=PATIENCE_SECONDS)
        for left in {*family, *self.processes()}:
            with suppress(psutil.NoSuchProcess):
                left.kill()
        psutil.wait_procs(family, timeout=PATIENCE_SECONDS)
        self._running.clear()

    def _start(self, name: str, command: tuple[str, ...]) -> psutil.Popen:
        with self._log(name).open("ab") as log:
            self._running[name] = psutil.Popen(
                [sys.executable, "-m", "airflow", *command],
                env=dict(self.environment),
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._running[name]

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def _died(self, name: str) -> str:
        log = self._log(name)
        tail = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        status = self._running[name].returncode
        return f"Airflow's {name} ended with exit status {status}; {log} ends with:\n" + "\n".join(
            f"  {line}" for line in tail
        )
