"""Drivers that another process starts: what they get, how they end, and with whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from deploy.submit import for_driver
from tests.kit.patience import PATIENCE_SECONDS

DEPLOY = Path(__file__).parents[2] / "include" / "deploy"
SHELL = [str(DEPLOY / "bin" / "spark-submit"), "-c"]


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Not where it ended and nobody takes its status: a container's first process may not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def drivers(
    place: Path, spark_submit: str = "sh", **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The server, which starts a shell, or another program, under the name of spark-submit."""
    command = [sys.executable, "-m", "deploy.drivers", str(place), spark_submit]
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(DEPLOY.parent), **variables}
    server = subprocess.Popen(command, env=own)
    try:
        until(place.exists)
        yield server
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A socket's path has 107 bytes at most."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def place(short_path: Path) -> Iterator[Path]:
    found = short_path / "socket"
    with drivers(found, OF_THE_DRIVERS="theirs"):
        yield found


def asked(place: Path, script: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    own = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(DEPLOY.parent),
        "DRIVERS_SOCKET": str(place),
        **variables,
    }
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*SHELL, script, *arguments], env=own, stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.slow
def test_a_driver_says_what_it_says_to_who_asked_and_ends_as_it_ends(place: Path) -> None:
    script = 'printf "%s|" "$@"; echo to stderr >&2; exit 7'
    for _ in range(2):
        process = asked(place, script, "name", "a b", "ö")
        assert process.communicate() == ("a b|ö|", "to stderr\n")
        assert process.returncode == 7
    assert asked(place, "kill -9 $$").wait() == 128 + 9


def test_a_driver_gets_nothing_of_airflows(place: Path) -> None:
    secrets = {
        "AIRFLOW__CORE__FERNET_KEY": "secret",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD": "cat /run/secrets/airflow_database",
        "AIRFLOW_CONN_OTHER": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    told = {
        "TIDEMARK_ROOT": "s3://bucket/folder",
        "SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC",
        "AIRFLOW_CONN_EVENTS": "of Kafka",
    }
    process = asked(place, "env -0", DRIVERS_VARIABLES="AIRFLOW_CONN_EVENTS", **secrets, **told)
    said, _ = process.communicate()
    found = dict(one.split("=", 1) for one in said.split("\0") if one)
    assert not found.keys() & secrets.keys()
    assert told.items() <= found.items()
    assert found["OF_THE_DRIVERS"] == "theirs"


@pytest.mark.parametrize("connection", ["EVENTS-PROD", "EVENTS.PROD"])
def test_a_driver_gets_a_connection_whose_id_is_no_name_of_a_shell(
    short_path: Path, connection: str
) -> None:
    place, name = short_path / "socket", f"AIRFLOW_CONN_{connection}"
    tell = "import os, sys; print(os.environ.get(sys.argv[-1]))"
    with drivers(place, spark_submit=sys.executable):
        process = asked(place, tell, name, **{"DRIVERS_VARIABLES": name, name: "of Kafka"})
        assert process.communicate() == ("of Kafka\n", "")


def test_what_a_driver_does_not_get_is_not_sent_either() -> None:
    variables = {"AIRFLOW__API__SECRET_KEY": "secret", "TIDEMARK_ROOT": "/lake", "HOME": "/root"}
    assert for_driver(variables) == {"TIDEMARK_ROOT": "/lake"}


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_with_who_asked_all_processes_of_the_driver_end(
    place: Path, tmp_path: Path, sign: signal.Signals
) -> None:
    """The second one passes SIGTERM over, as a JVM that hangs does."""
    pids = tmp_path / "pids"
    deaf = "trap '' TERM; echo $$ >>" + str(pids) + "; while :; do sleep 0.05; done"
    script = f'echo $$ >>{pids}; sh -c "{deaf.replace("$$", chr(92) + "$$")}"'
    process = asked(place, script)
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    process.send_signal(sign)
    process.wait()
    until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))


@pytest.mark.slow
def test_a_process_of_the_driver_in_a_group_of_its_own_ends_too(
    place: Path, tmp_path: Path
) -> None:
    """As Spark's Python workers are."""
    pid = tmp_path / "pid"
    code = "import os, time; os.setpgid(0, 0); time.sleep(600)"
    process = asked(
        place, f"{sys.executable} -c '{code}' & echo $! >{pid}.n; mv {pid}.n {pid}; wait"
    )
    until(pid.exists)
    worker = int(pid.read_text())
    until(lambda: os.getpgid(worker) == worker)
    process.kill()
    process.wait()
    try:
        until(lambda: not is_running(worker))
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def test_where_no_driver_can_be_had_a_retry_can_help(short_path: Path) -> None:
    process = asked(short_path / "socket", "true")
    assert "No driver was started" in process.communicate()[1]
    assert process.returncode == 75
    with drivers(short_path / "other", PATH="/nowhere"):
        process = asked(short_path / "other", "true")
        assert "The driver ended without a status" in process.communicate()[1]
        assert process.returncode == 75


def test_a_driver_whose_container_ends_is_told_as_such(short_path: Path) -> None:
    with drivers(short_path / "socket") as server:
        process = asked(short_path / "socket", "echo started; sleep 60")
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        (driver,) = psutil.Process(server.pid).children()
        left = [driver, *driver.children()]
        server.kill()
        assert process.wait() == 75
    for one in left:
        one.kill()


def test_only_its_user_and_group_may_ask(place: Path) -> None:
    assert place.stat().st_mode & 0o777 == 0o770
