"""Runs that are killed, at their commit points and anywhere, while producers go on writing: each
offset is in exactly one place, and gold is what another client counts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.end_to_end.killed_runs import KILLED_JOB, end_group
from tests.kit.kafka import ends, stored
from tests.kit.running import Place, clicks, query, run_job, start_job
from tests.sources.kafka.writers import Writers
from tidemark.storage.delta.commits import ingest_commits

if TYPE_CHECKING:
    from broker.broker import Broker

pytestmark = [pytest.mark.process, pytest.mark.long]

SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))
# By commit point, and at which call of it: batches are split, so that the second is in the middle.
KILLS = {
    "before the rows of a batch are whole": [
        ("after", "query started", 1),
        ("after", "batch being judged", 2),
        ("before", "accepted rows", 2),
    ],
    "with half of a batch": [
        ("after", "accepted rows", 1),
        ("before", "rejected rows", 2),
        ("after", "rejected rows", 1),
        ("after", "batch no longer judged", 2),
    ],
    "with windows": [
        ("before", "windows of the stream", 1),
        ("after", "windows of the stream", 1),
    ],
    "with late windows": [
        ("before", "recomputed windows", 1),
        ("after", "recomputed windows", 1),
    ],
    "with gold": [
        ("before", "gold", 1),
        ("after", "gold", 1),
        ("before", "ledger", 1),
        ("after", "run recorded", 1),
    ],
}


@pytest.fixture
def writers(broker: Broker) -> Writers:
    return Writers(broker, SEED)


def place_of(root: Path, writers: Writers) -> Place:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    kafka = {"connection": "broker", "topics": writers.topics}
    plain = {"servers": writers.broker.servers, "security_protocol": "PLAINTEXT"}
    content = clicks(source={"kafka": kafka, **common}, advanced={"max_messages_per_batch": 400})
    return Place(root, content, connections={"broker": plain})


@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_each_commit_point_no_offset_is_lost_or_doubled(
    writers: Writers, tmp_path: Path, kills: str
) -> None:
    place = place_of(tmp_path, writers)
    with writers.writing():
        if kills == "with late windows":
            # Only behind a publish there are closed windows that late rows touch.
            first = run_job(place, "first", KILLED_JOB)
            assert first.exit_code == 0, first.output
        for number, (when, point, call) in enumerate(KILLS[kills]):
            arguments = ["--kill", when, point, str(call)]
            end = run_job(place, f"killed-{number}", KILLED_JOB, arguments)
            assert end.exit_code == -signal.SIGKILL, f"{when} {point}: {end.output}"
    is_accounted_for(place, writers)


def test_killed_at_any_moment_no_offset_is_lost_or_doubled(
    writers: Writers, tmp_path: Path
) -> None:
    place, moments = place_of(tmp_path, writers), random.Random(SEED)
    with writers.writing():
        for number in range(6):
            job = start_job(place, f"killed-{number}")
            try:
                job.communicate(timeout=4 + moments.random() * 20)
            except subprocess.TimeoutExpired:
                end_group(job.pid)
                job.communicate()
    is_accounted_for(place, writers)


def is_accounted_for(place: Place, writers: Writers) -> None:
    """After two more runs, of which the second finds nothing new."""
    end = run_job(place, "last")
    assert end.exit_code == 0, end.output
    last = {topic: ends(writers.broker, topic, committed=True) for topic in writers.topics}
    versions = DeltaTable(place.places.bronze).version(), DeltaTable(place.places.rejects).version()
    again = run_job(place, "again")
    assert again.exit_code == 0, again.output
    now = DeltaTable(place.places.bronze).version(), DeltaTable(place.places.rejects).version()
    assert again.result is not None
    assert (again.result.rows.read, now[0] - versions[0]) == (0, now[1] - versions[1])

    bronze, rejects = place.bronze().to_pylist(), place.rejects().to_pylist()
    rows = [(one["_topic"], one["_partition"], one["_offset"]) for one in (*bronze, *rejects)]
    assert len(rows) == len(set(rows)), "an offset is in two places"
    every = {
        (topic, partition, offset)
        for topic, partitions in last.items()
        for partition, end_of in partitions.items()
        for offset in range(end_of)
    }
    without = every - set(rows)
    assert set(rows) <= every
    counted = counted_without_record(place)
    assert counted == len(without), "offsets without a record are counted"
    there = {
        (topic, one.partition() or 0, one.offset() or 0): one.value()
        for topic in writers.topics
        for one in stored(writers.broker, topic, committed=True)
    }
    assert not without & set(there), "a message that is there is in neither"
    written = writers.written
    assert not written.aborted & set(rows), "an aborted message is in one"
    assert {one for one in rows if one[0] != writers.compacted} == {
        one for one in there if one[0] != writers.compacted
    }
    for one in bronze:
        told = written.messages[one["_topic"], one["_partition"], one["_offset"]]
        assert f'"amount": {one["amount"]}'.encode() in told
    assert {one["reason"] for one in rejects} <= {"no value", "malformed"}

    # Compaction has taken some of what runs read before: that is known from its writer alone.
    accepted = [(one["_topic"], one["_partition"], one["_offset"]) for one in bronze]
    messages = {**{one: written.messages[one] for one in rows}, **there}
    lines = pa.table({"line": [messages[one] for one in accepted]})
    gold = place.gold().select(["window_start", "key", "events", "amount"])
    counts = """
        SELECT time_bucket(INTERVAL 10 MINUTES, (j->>'at')::TIMESTAMPTZ) AS start, j->>'key' AS key,
            count(*), sum((j->>'amount')::BIGINT)::BIGINT
        FROM (SELECT decode(line)::JSON AS j FROM lines) GROUP BY ALL ORDER BY ALL
    """
    assert query(counts, lines=lines) == query("SELECT * FROM gold ORDER BY ALL", gold=gold)
    ledger = place.table(place.places.ledger).to_pylist()
    assert all(one["balanced"] is not False for one in ledger)
    assert sum(one["accepted"] for one in ledger if one["kind"] == "ingest") == len(bronze)


def counted_without_record(place: Place) -> int:
    """Of all batches."""
    query = str(place.run("look").ingest_checkpoint().query_id())
    tables = DeltaTable(place.places.bronze), DeltaTable(place.places.rejects)
    accepted, rejected = (ingest_commits(table, query, -1) for table in tables)
    return sum(one.rows.without_record or 0 for one in {**accepted, **rejected}.values())
