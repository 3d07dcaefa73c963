"""Gauges through Airflow's own StatsD client, to a receiver on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability.stats import initialize

from tests.airflow.test_stream_operator import SUCCEEDED
from tidemark.airflow.metrics import gauge_run, gauge_state
from tidemark.runs.results.result import RunResult

LATE = {"rows": 3, "partly": 1, "assigned": 5, "windows": 2}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(0.2)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(receiver.getsockname()[1]))
        yield receiver
    monkeypatch.undo()
    configure()


def configure() -> None:
    """As a task's process does when it starts."""
    initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def received(receiver: socket.socket) -> list[str]:
    found = []
    try:
        while True:
            found.append(receiver.recv(65_535).decode())
    except TimeoutError:
        return found


def send() -> None:
    table = {
        **SUCCEEDED["tables"]["page_1h"],
        "late": LATE,
        "watermark_after_ms": 1_795_255_000_000,
    }
    gauge_run(RunResult.model_validate({**SUCCEEDED, "tables": {"page_1h": table}}))
    gauge_state("visits", "page_1h", 4_096)


def test_a_run_sends_its_rows_late_rows_lag_and_state(
    receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    configure()
    send()
    assert received(receiver) == [
        "airflow.tidemark.visits.rows_read:10|g",
        "airflow.tidemark.visits.rows_accepted:8|g",
        "airflow.tidemark.visits.rows_rejected:2|g",
        "airflow.tidemark.visits.page_1h.late_rows:4|g",
        "airflow.tidemark.visits.page_1h.lag_seconds:209.0|g",
        "airflow.tidemark.visits.page_1h.state_bytes:4096|g",
    ]


def test_nothing_is_sent_unless_airflows_metrics_are_on(receiver: socket.socket) -> None:
    configure()
    send()
    assert received(receiver) == []


def test_a_table_without_a_watermark_has_no_lag(
    receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    configure()
    table = {**SUCCEEDED["tables"]["page_1h"], "watermark_after_ms": 0}
    gauge_run(RunResult.model_validate({**SUCCEEDED, "tables": {"page_1h": table}}))
    assert not [line for line in received(receiver) if "lag" in line]
