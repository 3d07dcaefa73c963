"""What a run hands out to be written asks the lease that the run holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.kit.running import Place, run_warm, succeed
from tidemark.errors import LeaseLost
from tidemark.storage.lease.held import Lease

ROW = {"at": "2026-07-01T10:00:00Z", "key": "a", "amount": 1}


def test_a_run_whose_lease_is_lost_commits_nothing_to_its_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.land("a.json", [ROW])
    succeed(spark, place, "first")
    tables = place.warehouse
    own = (tables.bronze, tables.rejects, tables.changes("per_10m", 1), tables.gold("per_10m"))
    before = [DeltaTable(one.uri).version() for one in own]
    place.land("b.json", [ROW, "bad"])

    def lost(_: Lease) -> None:
        raise LeaseLost("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Lease, "check", lost)
        error = run_warm(spark, place, "second").error
    assert error is not None
    assert error.type == "LeaseLost"
    assert [DeltaTable(one.uri).version() for one in own] == before
