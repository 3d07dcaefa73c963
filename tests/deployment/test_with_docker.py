"""docker-compose.yaml really run: samples, a late part, killed containers, a stopped store, all
down and up again. `make test-deployment`, which needs Docker; the image is the one of `make image`.

The tests stand in one story, in their order: each lands more, and gold is right behind each.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.deployment.stack import (
    REPOSITORY,
    Stack,
    counted,
    gold_is_the_aggregate,
    new_stack,
    wait,
)
from tidemark.storage.files import list_files

pytestmark = pytest.mark.docker

SAMPLES = REPOSITORY / "include" / "samples"
ACCESS_LOG = [SAMPLES / "access_log" / f"part-{n:02}.json.gz" for n in range(20)]
IMPRESSIONS = [SAMPLES / "ad_impressions" / f"trigger-{n}.json" for n in (1, 2, 3)]
LINES_OF_A_PART = 500


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    made = new_stack(tmp_path_factory.mktemp("compose"))
    try:
        print(f"\nup: {made.up():.0f} s")
        yield made
    finally:
        made.compose("--profile", "*", "down", "--volumes", "--timeout", "20")


def ended_well(stack: Stack, dag: str, run_id: str) -> None:
    """The run is green, gold is right, and nothing of the run is left."""
    run = stack.end(dag, run_id)
    assert run.state == "success", (run, stack.compose("logs", "--tail", "60", "scheduler"))
    gold_is_the_aggregate(stack, dag)
    lease = stack.lease(dag)
    assert lease is not None
    assert lease.released
    wait("The end of all applications", lambda: not stack.applications(), 60)


def streaming(stack: Stack, dag: str, run_id: str) -> None:
    """Wait until the run's executors work."""

    def works() -> bool:
        lease = stack.lease(dag)
        holds = lease is not None and (lease.run_id, lease.released) == (run_id, False)
        return holds and any(one["cores"] for one in stack.applications())

    wait(f"The stream of {run_id}", works, 180)


def test_every_service_is_healthy_and_the_pages_answer(stack: Stack) -> None:
    text = stack.compose("ps", "--all", "--format", "json")
    found = {one["Name"]: one for one in map(json.loads, text.splitlines())}
    assert len(found) == 10
    for name, one in found.items():
        assert (one["Health"], one["State"]) == ("healthy", "running") or (
            "init" in name and one["ExitCode"] == 0
        ), one
    values = stack.variables
    for port in (values["AIRFLOW_PORT"], values["SPARK_PORT"]):
        assert httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).status_code == 200


def test_the_doctor_has_executors_in_other_containers_at_work(stack: Stack) -> None:
    """The environment that set-up made is there, too, which binds drivers to one machine."""
    said = stack.tidemark("doctor", "--master", "spark://spark-master:7077")
    assert "one writes a Delta table that the other reads" in said, said


def test_both_samples_are_green(stack: Stack) -> None:
    stack.land("access_log", *ACCESS_LOG[:8])
    stack.land("ad_impressions", *IMPRESSIONS)
    api = stack.api()
    for dag in ("access_log", "ad_impressions"):
        wait(dag, lambda dag=dag: api.knows(dag))
        api.unpause(dag)
        stack.start(dag, "first")
    for dag in ("access_log", "ad_impressions"):
        ended_well(stack, dag, "first")
    assert counted(stack, "access_log") == (8 * LINES_OF_A_PART, 0)


def test_a_late_part_corrects_windows_and_an_audit_finds_no_difference(
    stack: Stack, tmp_path: Path
) -> None:
    # A row that closes all windows, and then one for a window that is closed.
    for run_id, at in (("closing", "2026-03-01T14:00:00Z"), ("late", "2026-03-01T12:05:00Z")):
        row = {"timestamp": at, "spotId": 111, "impressionId": run_id, "agent": "test"}
        (tmp_path / f"{run_id}.json").write_text(f"{json.dumps(row)}\n")
        stack.land("ad_impressions", tmp_path / f"{run_id}.json")
        stack.start("ad_impressions", run_id)
        ended_well(stack, "ad_impressions", run_id)
    gold = stack.table("s3://tidemark/warehouse/ad_impressions/spot_10m/gold").to_pyarrow_table()
    assert "corrected" in gold["status"].to_pylist()
    assert "gold equals bronze" in stack.audit("ad_impressions")


def test_a_worker_that_dies_in_a_batch_is_replaced(stack: Stack) -> None:
    stack.land("access_log", *ACCESS_LOG[8:11])
    stack.start("access_log", "worker")
    streaming(stack, "access_log", "worker")
    worker = stack.compose("ps", "--quiet", "spark-worker").split()[0]
    subprocess.run(["docker", "kill", worker], check=True, capture_output=True)
    ended_well(stack, "access_log", "worker")
    stack.up()
    wait("Both workers", lambda: stack.workers() == 2)


def test_a_scheduler_that_dies_in_the_stream_is_followed_by_another_try(stack: Stack) -> None:
    stack.land("access_log", *ACCESS_LOG[11:13])
    stack.start("access_log", "scheduler")
    streaming(stack, "access_log", "scheduler")
    stack.compose("kill", "scheduler")
    stack.up()
    ended_well(stack, "access_log", "scheduler")


def test_drivers_that_die_in_the_stream_are_followed_by_another_try(stack: Stack) -> None:
    stack.land("access_log", *ACCESS_LOG[17:18])
    stack.start("access_log", "drivers")
    streaming(stack, "access_log", "drivers")
    stack.compose("kill", "drivers")
    stack.up()
    ended_well(stack, "access_log", "drivers")


def test_a_task_that_dies_before_its_publish_is_followed_by_another_try(stack: Stack) -> None:
    stack.land("access_log", *ACCESS_LOG[13:15])
    stack.start("access_log", "driver")

    def between() -> bool:
        states = stack.states("access_log", "driver")
        return states.get("stream") == "success" and states.get("publish") != "success"

    wait("The end of the stream", between, 300)
    stack.compose("kill", "scheduler")
    assert stack.states("access_log", "driver").get("publish") != "success"
    stack.up()
    ended_well(stack, "access_log", "driver")


def test_a_store_that_is_away_for_a_minute_ends_no_run(stack: Stack) -> None:
    stack.land("access_log", *ACCESS_LOG[15:17])
    stack.start("access_log", "store")
    streaming(stack, "access_log", "store")
    stack.compose("stop", "store")
    time.sleep(60)
    stack.up()
    ended_well(stack, "access_log", "store")


def test_all_down_and_up_again_goes_on_with_what_was_there(stack: Stack) -> None:
    before = counted(stack, "access_log")
    stack.compose("down", "--timeout", "30")
    print(f"\nup again: {stack.up():.0f} s")
    assert counted(stack, "access_log") == before
    stack.land("access_log", *ACCESS_LOG[17:])
    stack.start("access_log", "again")
    ended_well(stack, "access_log", "again")
    assert counted(stack, "access_log") == (len(ACCESS_LOG) * LINES_OF_A_PART, 0)
    said = stack.tidemark("status")
    assert "well" in said, said


def test_nothing_of_a_run_or_a_doctor_is_left_in_the_store(stack: Stack) -> None:
    names = list_files("s3://tidemark/warehouse", stack.options)
    assert not [name for name in names if ".tidemark-doctor" in name or "/judging" in name]
