"""Two jobs on one pipeline of topics: one works, and nothing is read a second time."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.end_to_end.killed_runs import KILLED_JOB, end_group, job_end
from tests.kit.kafka import make_topic, new_name, wait_until
from tests.kit.running import run_job, start_job
from tests.sources.kafka.test_lost_topics import accepted, topics_place, write

if TYPE_CHECKING:
    from broker.broker import Broker

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.mark.parametrize("point", ["query started", "accepted rows", "rejected rows"])
def test_a_job_beside_one_that_works_is_refused_and_each_message_is_read_once(
    broker: Broker, tmp_path: Path, point: str
) -> None:
    """The first stands still in the middle, before it commits what it read, or behind it; more
    comes meanwhile."""
    place = topics_place(tmp_path, broker, {"topic": make_topic(broker, new_name("two"))})
    write(place, broker, ["a", "b", '"'])
    first = start_job(place, "first", KILLED_JOB, ["--stop", "before", point, "1"])
    try:
        wait_until(
            lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED,
            "the first job does not stand still",
        )
        write(place, broker, "c")
        refused = run_job(place, "refused")
        os.killpg(first.pid, signal.SIGCONT)
        end = job_end(place, "first", first)
    finally:
        if first.poll() is None:
            end_group(first.pid)
    assert refused.exit_code == 75, refused.output
    assert refused.result is not None
    assert refused.result.error is not None
    assert refused.result.error.type == "LeaseHeld"
    assert "is held by run first (stream)" in refused.output
    assert end.exit_code == 0, end.output
    last = run_job(place, "last")
    assert last.exit_code == 0, last.output
    assert accepted(place) == [(0, "a"), (1, "b"), (3, "c")]
    assert [one["_offset"] for one in place.rejects().to_pylist()] == [2]
    assert {one["key"]: one["events"] for one in place.gold().to_pylist()} == dict.fromkeys(
        "abc", 1
    )
