#!/usr/bin/env python3
"""Runs both samples through a real Airflow on this machine, prints what came of them, and stops.

`--keep` leaves Airflow running after that, `--stay` starts it on your own settings instead;
both until Ctrl-C. See `make demo` and `make airflow`.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

# Run as a script, Python looks for modules in this folder only, not in the one above it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console

from demo.api import AirflowApi
from demo.environment import (
    REPOSITORY,
    USER,
    AirflowHome,
    DemoFailed,
    airflow_environment,
    prepare_home,
    set_up_environment,
    without,
)
from demo.land import PARTS, SamplePart, land, without_schedule, write_settings
from demo.repairs import print_ledger, print_repairs
from demo.report import print_example, print_gold, print_rejects, print_runs
from demo.running import running_airflow
from demo.runs import explain, result_of, run_all, wait_until
from demo.screen import Screen
from demo.services import Services
from tidemark.pipeline.load import load_pipeline

DAGS = ("access_log", "ad_impressions")
# Its windows are short: rows of the second part come too late for those of the first.
REPAIRED = "ad_impressions"
EXAMPLE_SPOTS = (111, 222, 303)
STATE = REPOSITORY / ".tidemark"


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all went well. 1: the reason is on the screen. 130 and 143: ended by a signal."""
    given = _parser().parse_args(arguments)
    screen = Screen(Console())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        if given.stay:
            _stay(screen)
        else:
            _demo(screen, given.keep)
    except DemoFailed as error:
        screen.say(f"✗ {error}")
        return 1
    except KeyboardInterrupt:
        screen.say("\nEnded by Ctrl-C; everything that was started is stopped.")
        return 130
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave the demo's Airflow running until Ctrl-C"
    )
    parser.add_argument(
        "--stay", action="store_true", help="no demo: Airflow on your settings, until Ctrl-C"
    )
    return parser


def _demo(screen: Screen, keep: bool) -> None:
    folder = STATE / "demo"
    with _alone(STATE / "demo.lock", f"Another demo is using {folder}; end it first."):
        shutil.rmtree(folder, ignore_errors=True)
        home = prepare_home(folder / "airflow")
        environment = _demo_environment(folder)
        environment = airflow_environment(environment, home, quick=True)
        with running_airflow(screen, home, environment) as (services, api):
            demo = Demo(screen, folder, services, api, home, datetime.now(UTC))
            for part in PARTS:
                _run_part(demo, part)
            _run_without_news(demo)
            _print_tables(screen, folder)
            if keep:
                _wait_for_ctrl_c(screen, home, services)
    _print_farewell(screen, folder)


def _demo_environment(folder: Path) -> dict[str, str]:
    """None of the user's own settings, so that the demo touches nothing but its folder."""
    pipelines, settings = folder / "pipelines", folder / "settings.yaml"
    without_schedule(REPOSITORY / "include" / "pipelines", pipelines)
    write_settings(settings, folder / "warehouse", pipelines)
    environment = without(set_up_environment(), "TIDEMARK_", "AIRFLOW")
    return {**environment, "TIDEMARK_SETTINGS": str(settings)}


@dataclass(frozen=True)
class Demo:
    """What the demo's runs need. `began` is when it began; the last run stands for that time."""

    screen: Screen
    folder: Path
    services: Services
    api: AirflowApi
    home: AirflowHome
    began: datetime

    @property
    def root(self) -> Path:
        return self.folder / "warehouse"


def _run_part(demo: Demo, part: SamplePart) -> None:
    screen = demo.screen
    with screen.step(f"Landing part {part.number} of both samples"):
        landed = land(part, demo.root, demo.folder / "manifests", datetime.now(UTC))
    for pipeline, told in landed.items():
        screen.say(f"  {pipeline}: {told}")
    _wait_for_dags(screen, demo.services, demo.api)
    doing = f"Airflow runs both Dags on part {part.number}"
    _run(demo, DAGS, f"demo-part-{part.number}", part.before_the_last, doing, f"Part {part.number}")
    print_repairs(screen.console, demo.folder / "pipelines" / f"{REPAIRED}.yaml", str(demo.root))


def _run_without_news(demo: Demo) -> None:
    """A run on the schedule an hour later finds nothing new, and closes what is still open."""
    doing = f"Nothing lands any more: an hour later on the schedule, Airflow runs {REPAIRED}"
    title = "An idle source: its last windows are sealed"
    _run(demo, (REPAIRED,), "demo-idle", timedelta(0), doing, title)


def _run(
    demo: Demo, dags: Sequence[str], run_id: str, before: timedelta, doing: str, title: str
) -> None:
    with demo.screen.step(doing) as tell:
        check, home = demo.services.check, demo.home
        runs = run_all(demo.api, dags, run_id, demo.began - before, check, tell, home)
    if failed := [run for run in runs if run.state != "success"]:
        raise DemoFailed("\n".join(explain(run, home) for run in failed))
    results = [(run, result) for run in runs if (result := result_of(run, str(demo.root)))]
    print_runs(demo.screen.console, title, results)


def _wait_for_dags(screen: Screen, services: Services, api: AirflowApi) -> None:
    def known() -> bool:
        if errors := api.import_errors():
            raise DemoFailed("\n".join(errors))
        return all(api.knows(dag) for dag in DAGS)

    if not known():
        with screen.step("Waiting for the Dag processor to find both Dags"):
            wait_until(known, services.check, "Finding both Dags")


def _print_tables(screen: Screen, folder: Path) -> None:
    root = str(folder / "warehouse")
    for name in DAGS:
        pipeline = load_pipeline(folder / "pipelines" / f"{name}.yaml")
        print_gold(screen.console, pipeline, root)
    print_example(screen.console, pipeline, root, EXAMPLE_SPOTS)
    print_rejects(screen.console, DAGS, root)
    print_ledger(screen.console, DAGS, root)


def _print_farewell(screen: Screen, folder: Path) -> None:
    root = folder.relative_to(REPOSITORY) / "warehouse"
    gold = f"{root}/access_log/status_1h/gold"
    read = f"from deltalake import DeltaTable; print(DeltaTable('{gold}').to_pandas())"
    screen.say("\nPipelines, tables and rejects in a browser:")
    screen.say(
        f"  .venv/bin/tidemark page --settings {folder.relative_to(REPOSITORY)}/settings.yaml"
    )
    screen.say(f"\nThe tables are in {root}, until the next demo. To read one:")
    screen.say(f'  .venv/bin/python -c "{read}"')


def _stay(screen: Screen) -> None:
    folder = STATE / "airflow"
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock", f"An Airflow is running on {folder}; end it first."):
        home = prepare_home(folder)
        environment = airflow_environment(set_up_environment(), home)
        with running_airflow(screen, home, environment) as (services, _):
            _wait_for_ctrl_c(screen, home, services)


def _wait_for_ctrl_c(screen: Screen, home: AirflowHome, services: Services) -> None:
    screen.say(f"\nAirflow: {home.address}, user {USER}, password {home.password}")
    screen.say(f"The page of the pipelines, in Airflow: {home.address}/plugin/streams")
    screen.say("New Dags are paused: switch one on to schedule it. Ctrl-C ends Airflow.")
    ended = threading.Event()
    try:
        while not ended.wait(timeout=2):
            services.check()
    except KeyboardInterrupt:
        screen.say("")


@contextmanager
def _alone(lock: Path, otherwise: str) -> Iterator[None]:
    """One at a time: a lock that ends with this process, whatever ends it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoFailed(otherwise) from None
        yield


def _end(number: int, _: object) -> NoReturn:
    """End as Ctrl-C does, so that everything is stopped on the way out."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
