"""How much a source has that its ingest has not read, by the files' names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.kit.running import clicks
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.reading.log_formats import parse_listed_files
from tidemark.pipeline.instants import epoch_ms, in_calendar, instant_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.new_input import new_input_bytes
from tidemark.storage.files import stat_files

SHM = Path("/dev/shm")
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


@pytest.mark.parametrize("files", ["landing/*", "landing/**/*.json", "landing/{a,b}/*.json"])
def test_all_files_are_new_to_an_ingest_that_planned_nothing(tmp_path: Path, files: str) -> None:
    land(tmp_path, "landing/a/1.json", 10, 1_000)
    land(tmp_path, "landing/b/2.json", 20, 2_000)
    assert new_bytes(tmp_path, files) == 30


def test_what_is_not_known_by_name_is_new_whatever_its_time(tmp_path: Path) -> None:
    place = Places(str(tmp_path), "clicks").ingest_checkpoint
    shutil.copytree(DATA / "files_killed", place)
    planned_ms = Checkpoint(place, {}).offsets(1).batch_time_ms
    land(tmp_path, "incoming/before.json", 10, planned_ms - 1)
    land(tmp_path, "incoming/after.json", 20, planned_ms + 1)
    assert new_bytes(tmp_path, "incoming/*.json") == 30


@pytest.mark.skipif(not SHM.is_dir(), reason="no file system here that knows every time")
@pytest.mark.parametrize("seconds", [-(2**62), -(10**12), 300_000_000_000, 2**62])
def test_a_file_of_a_time_in_no_calendar_is_told_as_any_other(seconds: int) -> None:
    with TemporaryDirectory(dir=SHM) as folder:
        land(Path(folder), "landing/1.json", 10, 1_000)
        os.utime(Path(folder) / "landing/1.json", (seconds, seconds))
        assert new_bytes(Path(folder), "landing/*.json") == 10
        file = str(Path(folder) / "landing/1.json")
        found = stat_files([file], {})[file]
        assert found is not None
        assert epoch_ms(found.modified) == in_calendar(seconds * 1_000)
        entry = f'v1\n{{"path":"file://{file}","timestamp":{seconds * 1000 % 2**63},"batchId":0}}'
        assert instant_of(parse_listed_files(entry.encode())[0].modified_ms)


def test_a_source_or_a_checkpoint_that_cannot_be_read_counts_as_nothing(tmp_path: Path) -> None:
    assert new_bytes(tmp_path, "landing/*.json") == 0
    land(tmp_path, "landing/1.json", 10, 1_000)
    offsets = Path(Places(str(tmp_path), "clicks").ingest_checkpoint, "offsets")

    for log in (offsets, offsets.with_name("commits")):
        log.mkdir(parents=True, exist_ok=True)
        (log / "0").write_text("v1\n{")
    assert new_bytes(tmp_path, "landing/*.json") == 0
