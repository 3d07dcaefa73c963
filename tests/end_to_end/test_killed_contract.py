"""Contracts and the end of processes: a job killed while it records them, and one refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.test_changed_pipeline import MEASURES, content, files_of, row
from tests.kit.running import Place, run_job
from tidemark.runs.contract.contract import read_contract

pytestmark = [pytest.mark.process, pytest.mark.long]

KILLED_JOB = Path(__file__).with_name("killed_job.py")


def test_a_job_killed_between_two_contracts_leaves_nothing_that_binds(tmp_path: Path) -> None:
    place = Place(tmp_path, content())
    place.land("1.json", [row(1, 100)])
    killed = run_job(place, "killed", KILLED_JOB, ["--kill", "after", "contract recorded", "1"])
    assert killed.exit_code == -9, killed.output
    ingest, table = (place.places.contract(query, 1) for query in ("ingest", "per_10m"))
    assert read_contract(ingest, {}) is not None
    assert read_contract(table, {}) is None
    # No query ran by it, so another content may follow, though it would be refused later.
    swapped = content(measures=dict(reversed(MEASURES.items())))
    place.content = swapped | {"advanced": {"shuffle_partitions": 3}}
    ended = run_job(place, "next")
    assert ended.exit_code == 0, ended.output
    assert [(one["amount"], one["size"]) for one in place.gold().to_pylist()] == [(1, 100)]
    for contract in (ingest, table):
        recorded = read_contract(contract, {})
        assert recorded is not None
        assert recorded.is_of(place.pipeline)
    assert recorded.settings == {"spark.sql.shuffle.partitions": "3"}
    before = files_of(place)
    place.content = content()
    refused = run_job(place, "refused")
    assert refused.exit_code == 1
    assert refused.result is not None
    assert refused.result.error is not None
    assert refused.result.error.type == "PipelineChanged"
    assert files_of(place) == before
