"""Airflow's REST API, as far as the demo needs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from demo.environment import USER, AirflowHome, DemoFailed

ENDED = ("success", "failed")
# A slow machine's server may take long to answer.
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class TaskState:
    """A task of a Dag run; `seconds` is None until it has ended."""

    task: str
    state: str | None
    try_number: int
    seconds: float | None


@dataclass(frozen=True)
class DagRun:
    """A Dag run as it is now."""

    dag: str
    run_id: str
    state: str
    tasks: tuple[TaskState, ...]

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class AirflowApi:
    """A client that is logged in from its first call on; `is_healthy` needs no login."""

    def __init__(self, home: AirflowHome) -> None:
        # No proxy is asked for an address on loopback.
        self._client = httpx.Client(
            base_url=home.address, timeout=_PATIENCE_SECONDS, trust_env=False
        )
        self._password = home.password

    def close(self) -> None:
        self._client.close()

    def is_healthy(self) -> bool:
        """Do scheduler and Dag processor answer? The status is 200 also when they do not."""
        try:
            health = (
                self._client.get("/api/v2/monitor/health", timeout=30).raise_for_status().json()
            )
        except httpx.HTTPError:
            return False
        needed = ("metadatabase", "scheduler", "dag_processor")
        return all((health.get(name) or {}).get("status") == "healthy" for name in needed)

    def login(self) -> None:
        login = {"username": USER, "password": self._password}
        token = self._checked(self._ask("POST", "/auth/token", login))["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def knows(self, dag: str) -> bool:
        answer = self._ask("GET", f"/api/v2/dags/{dag}")
        return answer.status_code != httpx.codes.NOT_FOUND and bool(self._checked(answer))

    def import_errors(self) -> list[str]:
        found = self._checked(self._ask("GET", "/api/v2/importErrors"))["import_errors"]
        return [f"{error['filename']}:\n{error['stack_trace']}" for error in found]

    def unpause(self, dag: str) -> None:
        self._checked(self._ask("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False}))

    def trigger(
        self, dag: str, run_id: str, stands_for: datetime, params: dict[str, Any] | None = None
    ) -> None:
        body: dict[str, Any] = {"logical_date": stands_for.isoformat(), "dag_run_id": run_id}
        if params:
            body["conf"] = params
        self._checked(self._ask("POST", f"/api/v2/dags/{dag}/dagRuns", body))

    def runs(self, dag: str) -> list[str]:
        """The ids of a Dag's runs, in the order in which they were to start."""
        found = self._checked(self._ask("GET", f"/api/v2/dags/{dag}/dagRuns?order_by=run_after"))
        return [run["dag_run_id"] for run in found["dag_runs"]]

    def returned(self, dag: str, run_id: str, task: str, key: str = "return_value") -> Any:
        """What a task left in XCom."""
        place = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/{key}"
        return self._checked(self._ask("GET", f"{place}?deserialize=true"))["value"]

    def run(self, dag: str, run_id: str) -> DagRun:
        place = f"/api/v2/dags/{dag}/dagRuns/{run_id}"
        state = self._checked(self._ask("GET", place))["state"]
        tasks = self._checked(self._ask("GET", f"{place}/taskInstances"))["task_instances"]
        return DagRun(dag, run_id, state, tuple(_task(task) for task in tasks))

    def _ask(self, method: str, place: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            return self._client.request(method, place, json=body)
        except httpx.TransportError as error:
            told = f"{type(error).__name__}: {error}"
            raise DemoFailed(f"Airflow did not answer {method} {place}: {told}") from error

    def _checked(self, answer: httpx.Response) -> Any:
        if answer.is_error:
            request = f"{answer.request.method} {answer.request.url}"
            raise DemoFailed(f"Airflow answered {answer.status_code} to {request}: {answer.text}")
        return answer.json()


def _task(given: dict[str, Any]) -> TaskState:
    return TaskState(given["task_id"], given["state"], given["try_number"], given["duration"])
