"""How much a source has that its ingest has not read, by the files' times."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.kit.running import clicks
from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.new_input import new_input_bytes

DATA = Path(__file__).parents[1] / "checkpoint" / "data"


def new_bytes(root: Path, files: str) -> int:
    source = clicks()["source"] | {"files": files}
    settings = Settings(root=str(root), pipelines=str(root))
    return new_input_bytes(pipeline_from_mapping("clicks", clicks(source=source)), settings)


def land(root: Path, name: str, size: int, at_ms: int) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    os.utime(file, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


@pytest.mark.parametrize("files", ["landing/*.json", "landing/**/*.json", "landing/{a,b}/*.json"])
def test_all_files_are_new_to_an_ingest_that_planned_nothing(tmp_path: Path, files: str) -> None:
    land(tmp_path, "landing/a/1.json", 10, 1_000)
    land(tmp_path, "landing/b/2.json", 20, 2_000)
    assert new_bytes(tmp_path, files) == 30


def test_only_files_after_the_last_planned_batch_are_new(tmp_path: Path) -> None:
    place = Places(str(tmp_path), "clicks").ingest_checkpoint
    shutil.copytree(DATA / "files_killed", place)
    planned_ms = Checkpoint(place, {}).offsets(1).batch_time_ms
    land(tmp_path, "landing/before.json", 10, planned_ms - 1)
    land(tmp_path, "landing/after.json", 20, planned_ms + 1)
    assert new_bytes(tmp_path, "landing/*.json") == 20


def test_a_source_or_a_checkpoint_that_cannot_be_read_counts_as_nothing(tmp_path: Path) -> None:
    assert new_bytes(tmp_path, "landing/*.json") == 0
    land(tmp_path, "landing/1.json", 10, 1_000)
    offsets = Path(Places(str(tmp_path), "clicks").ingest_checkpoint, "offsets")
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{")
    assert new_bytes(tmp_path, "landing/*.json") == 0
