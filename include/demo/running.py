"""A running Airflow as a context: healthy inside it, gone after it, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from demo.api import AirflowApi
from demo.environment import AirflowHome
from demo.runs import wait_until
from demo.screen import Screen
from demo.services import Services

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def running_airflow(
    screen: Screen, home: AirflowHome, environment: Mapping[str, str]
) -> Iterator[tuple[Services, AirflowApi]]:
    """Start Airflow, wait until it is healthy and log in; stop it when the block ends.

    Raises DemoFailed when a process ends by itself or Airflow does not become healthy.
    """
    services = Services(environment, home.folder / "services")
    with closing(AirflowApi(home)) as api:
        try:
            _start(screen, home, services, api)
            yield services, api
        finally:
            _stop(screen, services)


def _start(screen: Screen, home: AirflowHome, services: Services, api: AirflowApi) -> None:
    services.logs.mkdir(parents=True, exist_ok=True)
    with screen.step("Starting Airflow on 127.0.0.1") as tell:
        tell("making its metadata database (SQLite)")
        services.migrate()
        tell(f"API server, scheduler and Dag processor, port {home.port}")
        services.start()
        wait_until(api.is_healthy, services.check, "A healthy Airflow")
        api.login()


def _stop(screen: Screen, services: Services) -> None:
    """A second Ctrl-C does not interrupt it: it takes some seconds at most."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        with screen.step("Stopping Airflow"):
            services.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
