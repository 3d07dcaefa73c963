"""The environment of Airflow's processes: what set-up wrote, and an Airflow of its own."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
USER = "admin"
CONNECTION = {"conn_type": "spark", "host": "local[2]"}


class DemoFailed(Exception):
    """The demo cannot go on; the message says why, and what to do."""


@dataclass(frozen=True)
class AirflowHome:
    """An Airflow on this machine: its folder, address and login."""

    folder: Path
    port: int
    password: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def prepare_home(folder: Path) -> AirflowHome:
    """An Airflow home at `folder`, with a login of its own; an earlier one keeps its login."""
    folder.mkdir(parents=True, exist_ok=True)
    passwords = folder / "passwords.json"
    if not passwords.exists():
        passwords.touch(mode=0o600)  # readable by nobody else, from the first byte on
        passwords.write_text(json.dumps({USER: secrets.token_urlsafe(12)}))
    return AirflowHome(folder, _free_port(), json.loads(passwords.read_text())[USER])


def set_up_environment() -> dict[str, str]:
    """This process's environment with `.tidemark/env` sourced into it, as a shell does."""
    file = REPOSITORY / ".tidemark" / "env"
    if not file.is_file():
        raise DemoFailed(f"There is no {file}: set-up has not run. Run `make setup` first.")
    sourced = subprocess.run(
        ["/bin/sh", "-c", '. "$1" && exec env -0', "sh", str(file)],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(entry.split("=", 1) for entry in sourced.stdout.split("\0") if entry)


def without(environment: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    """The environment less the variables that begin so."""
    return {n: v for n, v in environment.items() if not n.startswith(prefixes)}


def airflow_environment(
    base: Mapping[str, str], home: AirflowHome, *, quick: bool = False
) -> dict[str, str]:
    """`base`, with an Airflow on loopback, authenticated, in SQLite, with a LocalExecutor.

    `quick` looks for new Dags and tasks to run more often than a server should. A
    `spark_default` connection of the user's own is kept.
    """
    connection = base.get("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(CONNECTION))
    settings = {**_settings(home), **(_QUICK if quick else {})}
    return {
        **without(base, "AIRFLOW__"),
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_HOME": str(home.folder),
        "AIRFLOW_CONN_SPARK_DEFAULT": connection,
        # Airflow's processes talk to each other over loopback, whatever proxy there is.
        "NO_PROXY": _no_proxy(base),
        "no_proxy": _no_proxy(base),
        "PYTHONUNBUFFERED": "1",
    }


_QUICK = {
    "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
}


def _settings(home: AirflowHome) -> dict[str, str]:
    return {
        "CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        # So many Spark processes at most; also so many workers, which are forked ahead.
        "CORE__PARALLELISM": "2",
        # On a slow machine its processes answer each other later than Airflow expects.
        "CORE__DAGBAG_IMPORT_TIMEOUT": "300",
        "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
        "DAG_PROCESSOR__STALE_DAG_THRESHOLD": "600",
        "WORKERS__EXECUTION_API_TIMEOUT": "60",
        "CORE__EXECUTION_API_SERVER_URL": f"{home.address}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home.folder / "passwords.json"),
        "API__HOST": "127.0.0.1",
        "API__PORT": str(home.port),
        "API__WORKERS": "1",
        "API__BASE_URL": home.address,
        "API__SECRET_KEY": secrets.token_urlsafe(32),
        "API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
    }


def _no_proxy(base: Mapping[str, str]) -> str:
    given = base.get("NO_PROXY") or base.get("no_proxy")
    return ",".join(["127.0.0.1", "localhost", *([given] if given else [])])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
