"""Whoever removes a checkpoint's files asks the lease that the removal runs under."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoint.damaged import copy_of
from tests.kit.running import Place, clicks
from tests.upkeep.stores import NOW, names
from tidemark.errors import LeaseLost
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE
from tidemark.storage.file_place import FilePlace
from tidemark.storage.lease.held import Lease
from tidemark.upkeep.pipeline_housekeeping import housekeep_pipeline, plan_pipeline


def lost(*_: Lease) -> None:
    raise LeaseLost("gone")


def test_a_housekeeping_whose_lease_is_lost_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advanced = {"keep_batches": 2, "spark": {KEPT_BY_ENGINE: "1"}}
    place = Place(tmp_path, clicks(advanced=advanced))
    ingest = Path(place.places.ingest_checkpoint)
    copy_of("files_compacted", ingest.parent).rename(ingest)
    before = names(ingest)
    kept, _ = plan_pipeline(place.pipeline, place.settings, NOW)
    assert kept.plan is not None
    assert kept.plan.going_files
    monkeypatch.setattr(Lease, "check", lost)
    with pytest.raises(LeaseLost):
        housekeep_pipeline(place.pipeline, place.settings, "run", NOW)
    assert names(ingest) == before


def test_the_fence_of_a_folder_is_asked_again_while_many_files_go(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(250)]
    for file in files:
        file.touch()
    asked: list[int] = []

    def fence() -> None:
        asked.append(len(list(tmp_path.iterdir())))
        if len(asked) == 3:
            lost()

    with pytest.raises(LeaseLost):
        FilePlace(str(tmp_path), fence=fence).remove_files([str(file) for file in files])
    assert asked == [250, 150, 50]
    assert len(list(tmp_path.iterdir())) == 50
