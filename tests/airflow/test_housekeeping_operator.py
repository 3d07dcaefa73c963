from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tests.airflow.between_runs import checkpoints_of, upkeep_rows
from tests.checkpoint.damaged import remove
from tidemark.airflow.upkeep import CheckpointHousekeepingOperator
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.pipeline_lease import pipeline_lease

Write = Callable[..., Path]
KEPT_1 = {"keep_batches": 1, "spark": {"spark.sql.streaming.minBatchesToRetain": "1"}}


def housekeep(pipeline: Path) -> dict[str, Any]:
    operator = CheckpointHousekeepingOperator(task_id="housekeep", pipeline_file=str(pipeline))
    return operator.execute({"run_id": "scheduled__1"})  # type: ignore[arg-type]


@pytest.fixture
def ran(write_pipeline: Write, tmp_path: Path) -> Path:
    """A pipeline whose checkpoints are copies of real ones."""
    file = write_pipeline("visits", advanced=KEPT_1)
    checkpoints_of(tmp_path / "root", "aggregate", "aggregate")
    return file


def test_old_logs_go_and_the_numbers_come_back_and_are_recorded(ran: Path, tmp_path: Path) -> None:
    told = housekeep(ran)
    wanted = {"verdict": "clean end", "files": 30, "files_removed": 8}
    assert told["ingest"].items() >= wanted.items()
    ingest, table = upkeep_rows(tmp_path / "root")
    assert (ingest["run"], ingest["kind"], ingest["generation"]) == (
        "scheduled__1", "housekeeping", None,
    )  # fmt: skip
    assert (ingest["files_before"], ingest["files_deleted"], ingest["files_after"]) == (38, 8, 30)
    assert ingest["bytes_after"] == told["ingest"]["bytes"]
    # Nothing of the table was published yet, so its logs are needed.
    assert (table["generation"], table["files_deleted"]) == (1, 0)
    (offsets,) = [share for share in table["shares"] if share["kind"] == "offsets"]
    assert "not published" in offsets["reasons"][0]
    again = housekeep(ran)
    assert again["ingest"]["files_removed"] == 0
    assert len(upkeep_rows(tmp_path / "root")) == 4


def test_a_damaged_checkpoint_fails_the_task_for_good_once_the_others_are_kept(
    ran: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "root/visits/checkpoints/page_1h/1"
    remove(checkpoint / "offsets/2")
    before = sorted(checkpoint.rglob("*"))
    with pytest.raises(AirflowFailException, match=r"damaged: offsets/2 is missing") as raised:
        housekeep(ran)
    assert "left 1 of 2 checkpoints" in str(raised.value)
    assert sorted(checkpoint.rglob("*")) == before
    ingest, table = upkeep_rows(tmp_path / "root")
    assert (ingest["files_deleted"], table["files_deleted"]) == (8, 0)
    assert table["verdict"] == "damaged"
    assert "offsets/2" in table["refused"]


@pytest.mark.slow
def test_a_held_lease_is_told_and_can_be_tried_again(ran: Path, tmp_path: Path) -> None:
    before = sorted((tmp_path / "root/visits").rglob("*.crc"))
    lease = pipeline_lease(load_pipeline(ran), load_settings(), "run-1", "stream")
    with lease, pytest.raises(AirflowException, match=r"LeaseHeld.*run-1") as raised:
        housekeep(ran)
    assert not isinstance(raised.value, AirflowFailException)
    assert sorted((tmp_path / "root/visits").rglob("*.crc")) == before


def test_a_pipeline_that_never_ran_has_nothing_to_keep(write_pipeline: Write) -> None:
    assert housekeep(write_pipeline("visits")) == {"ingest": None, "page_1h": None}
