"""The worked examples of the samples, run through the whole product trigger by trigger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.conftest import Worked
from tests.end_to_end.worked_modes import SAMPLES, Row
from tests.kit.running import REPOSITORY, SamplePlace, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AD_IMPRESSIONS = REPOSITORY / "include" / "pipelines" / "ad_impressions.yaml"

CASES = [
    ("ad_impressions", "worked_example", AD_IMPRESSIONS, "spot_10m"),
    ("ad_impressions", "newest_1213", AD_IMPRESSIONS, "spot_10m"),
    ("words", "words", SAMPLES / "words" / "words.yaml", "words_10m"),
]


def test_each_trigger_of_the_impressions_comes_to_what_was_worked_out_by_hand(
    impressions: Worked,
) -> None:
    """Of the runs that the pages look at; below, of runs of the sample's own file."""
    steps = impressions.steps["update"]
    for step, expected in zip(steps, _sequence("ad_impressions", "worked_example"), strict=True):
        assert _text(step.result.watermark_after_ms) == expected["watermark"]
        assert _rows(step.gold) == expected["windows"]


@pytest.mark.long
@pytest.mark.parametrize(("sample", "sequence", "file", "table"), CASES)
def test_windows_and_watermark_after_each_trigger_are_those_worked_out_by_hand(
    spark: SparkSession, tmp_path: Path, sample: str, sequence: str, file: Path, table: str
) -> None:
    place = SamplePlace(tmp_path, file)
    folder = tmp_path / Path(place.pipeline.source.label).parts[0] / place.name
    folder.mkdir(parents=True)
    for number, step in enumerate(_sequence(sample, sequence), start=1):
        shutil.copy(SAMPLES / sample / step["file"], folder)
        result = succeed(spark, place, run_id=f"run-{number}")
        watermark = result.tables[table].watermark_after_ms
        assert _text(watermark) == step["watermark"], step["file"]
        assert _rows(place.gold(table).to_pylist()) == step["windows"], step["file"]


def _sequence(sample: str, name: str) -> list[dict[str, Any]]:
    told = json.loads((SAMPLES / sample / "expected.json").read_text())
    sequence: list[dict[str, Any]] = told["sequences"][name]
    return sequence


def _rows(gold: Sequence[Row]) -> list[Row]:
    """Gold as the hand-written windows say it, ordered by window and key."""
    apart = ("rows", "revision", "updated_by", "window_date")
    rows = [
        {n: _text(v) if isinstance(v, datetime) else v for n, v in row.items() if n not in apart}
        for row in gold
    ]
    return sorted(rows, key=lambda row: (row["window_start"], list(row.values())[2]))


def _text(instant: datetime | int) -> str:
    if isinstance(instant, int):
        instant = datetime.fromtimestamp(instant / 1000, UTC)
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
