"""How many batches a checkpoint keeps: one number for the engine and for housekeeping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.running import Place, clicks
from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE, kept_batches
from tidemark.streaming.session import session_conf


@pytest.mark.parametrize(
    ("settings", "advanced", "kept"),
    [
        ({}, {}, 100),
        ({}, {"keep_batches": 7}, 100),
        ({}, {"keep_batches": 700}, 700),
        ({KEPT_BY_ENGINE: "5"}, {}, 5),
        ({KEPT_BY_ENGINE: "5"}, {"keep_batches": 7}, 7),
        ({KEPT_BY_ENGINE: "500"}, {"spark": {KEPT_BY_ENGINE: 3}}, 3),
        ({}, {"keep_batches": 2, "spark": {KEPT_BY_ENGINE: 3}}, 3),
    ],
)
def test_the_larger_of_the_engines_number_and_the_pipelines_counts_for_both(
    tmp_path: Path, settings: dict[str, str], advanced: dict[str, Any], kept: int
) -> None:
    place = Place(tmp_path, clicks(advanced=advanced), spark=settings)
    assert kept_batches(place.pipeline, place.settings) == kept
    assert session_conf(place.pipeline, place.settings)[KEPT_BY_ENGINE] == str(kept)


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_number_that_the_engine_would_refuse_is_told_before(tmp_path: Path, value: str) -> None:
    place = Place(tmp_path, clicks(), spark={KEPT_BY_ENGINE: value})
    with pytest.raises(SettingsInvalid, match=f"minBatchesToRetain` is '{value}'"):
        kept_batches(place.pipeline, place.settings)
