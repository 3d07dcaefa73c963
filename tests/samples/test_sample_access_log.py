from __future__ import annotations

import gzip
import hashlib
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "include" / "samples" / "access_log"
FIELDS = ["timestamp", "request_id", "client", "verb", "path", "status", "bytes"]


@pytest.fixture(scope="module")
def requests() -> list[dict[str, object]]:
    files = sorted(FOLDER.glob("part-*.json.gz"))
    return [json.loads(line) for path in files for line in gzip.open(path, "rt", encoding="utf-8")]


def test_every_file_has_the_checksum_that_it_came_with() -> None:
    sums = (FOLDER / "SHA256SUMS").read_text().splitlines()
    stated = {name: digest for digest, name in (line.split("  ") for line in sums)}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FOLDER.glob("part-*.json.gz")
    }
    assert len(found) == 20
    assert found == stated


def test_there_are_ten_thousand_requests_in_the_order_of_the_log(
    requests: list[dict[str, object]],
) -> None:
    assert [row["request_id"] for row in requests] == [f"r{n:05d}" for n in range(10_000)]
    assert all(list(row) == FIELDS for row in requests)
    assert sum(row["bytes"] is None for row in requests) == 669


def test_most_requests_are_out_of_order_by_less_than_a_minute(
    requests: list[dict[str, object]],
) -> None:
    newest = datetime.fromisoformat("2015-05-17T00:00Z")
    behind = []
    for row in requests:
        time = datetime.fromisoformat(str(row["timestamp"]))
        behind.append(newest - time)
        newest = max(newest, time)
    late = [by for by in behind if by > timedelta(0)]
    assert len(late) == 9_448
    assert max(late) < timedelta(minutes=1)
