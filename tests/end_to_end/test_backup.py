"""docs/backup.md, typed: a root, or one pipeline of it, is gone and comes back from the copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.pages import example_after, page
from tests.kit.running import Place, clicks, query, succeed
from tests.streaming.audits import audit
from tidemark.ledger.ledger import check_ledger
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState


def rows(number: int) -> list[dict[str, Any] | str]:
    """A file of one hour, with a row of the hour before, which is late, and a rejected line."""
    times = [f"2026-07-01T{9 + number:02}:{minute:02}:00Z" for minute in range(0, 60, 9)]
    late = f"2026-07-01T{8 + number:02}:05:00Z"
    return [*({"at": at, "key": "a", "amount": number} for at in (*times, late)), "not JSON"]


def type_block(place: Place, name: str) -> None:
    """A block of the page, with its folders below the test's."""
    folder = place.root.parent
    lines = example_after(page("backup.md"), name)
    typed = lines.replace("/srv", str(folder)).replace("/backup", str(folder / "backup"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-euc", typed],
        env={**os.environ, **place.variables, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{typed}\n{ran.stdout}\n{ran.stderr}"


def test_files_of_the_source_come_back_with_the_times_that_a_killed_batch_knows_them_by(
    tmp_path: Path,
) -> None:
    """A batch that is repeated takes a file of another time for another file."""
    place = Place(tmp_path / "lake", clicks())
    file = place.land("1.json", rows(1))
    os.utime(file, ns=(0, 1_782_900_000_123_456_789))
    (tmp_path / "backup").mkdir()
    type_block(place, "back up")
    type_block(place, "restore")
    assert file.stat().st_mtime_ns == 1_782_900_000_123_456_789
    made = [line for line in page("backup.md").splitlines() if "tar --create" in line]
    assert len(made) == 2
    assert all("--format=posix" in line for line in made)


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    """Two runs, the backup between them, a third file that no run has read."""
    made = Place(tmp_path / "lake", clicks())
    made.write_file()
    (tmp_path / "backup").mkdir()
    made.land("1.json", rows(1))
    succeed(spark, made, "first")
    type_block(made, "back up")
    made.land("2.json", rows(2))
    succeed(spark, made, "lost")
    made.land("3.json", rows(3))
    return made


def is_whole(spark: SparkSession, place: Place) -> None:
    """Every landed line is in bronze or in rejects, once; gold is their aggregate; the ledger
    balances, and counts each line once."""
    assert place.bronze().num_rows == sum(len(rows(n)) - 1 for n in (1, 2, 3))
    assert place.rejects().num_rows == 3
    assert audit(spark, place).outcome == "equal"
    check_ledger(place.warehouse.ledger, place.name)
    ledger = place.table(place.places.ledger)
    counted = query("SELECT sum(read)::INT FROM ledger WHERE kind = 'ingest'", ledger=ledger)
    assert counted == [(sum(len(rows(n)) for n in (1, 2, 3)),)]
    state = pipeline_status(place.pipeline, place.settings, datetime.now(UTC)).state
    assert state is PipelineState.WELL


def test_a_root_that_is_restored_goes_on_as_if_nothing_had_been_lost(
    spark: SparkSession, place: Place
) -> None:
    shutil.rmtree(place.root / "clicks" / "bronze")
    type_block(place, "restore")
    assert {path.name for path in (place.root / "landing").rglob("*.json")} == {
        "1.json",
        "2.json",
        "3.json",
    }
    succeed(spark, place, "after")
    is_whole(spark, place)


def test_a_pipeline_that_is_restored_alone_goes_on_as_if_nothing_had_been_lost(
    spark: SparkSession, place: Place
) -> None:
    shutil.rmtree(place.root / "clicks" / "bronze")
    type_block(place, "restore one")
    succeed(spark, place, "after")
    is_whole(spark, place)
