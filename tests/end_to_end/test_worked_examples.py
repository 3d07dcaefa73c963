"""The worked examples of the samples, run through the whole product trigger by trigger."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.running import REPOSITORY, Place, SamplePlace, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = REPOSITORY / "include" / "samples"
AD_IMPRESSIONS = REPOSITORY / "include" / "pipelines" / "ad_impressions.yaml"


LONG = pytest.mark.long
CASES = [
    ("ad_impressions", "worked_example", AD_IMPRESSIONS, "spot_10m"),
    pytest.param("ad_impressions", "newest_1213", AD_IMPRESSIONS, "spot_10m", marks=LONG),
    pytest.param("words", "words", SAMPLES / "words" / "words.yaml", "words_10m", marks=LONG),
]


@pytest.mark.parametrize(("sample", "sequence", "file", "table"), CASES)
def test_windows_and_watermark_after_each_trigger_are_those_worked_out_by_hand(
    spark: SparkSession, tmp_path: Path, sample: str, sequence: str, file: Path, table: str
) -> None:
    place = SamplePlace(tmp_path, file)
    folder = tmp_path / Path(place.pipeline.source.told).parts[0] / place.name
    folder.mkdir(parents=True)
    steps = json.loads((SAMPLES / sample / "expected.json").read_text())["sequences"][sequence]
    for number, step in enumerate(steps, start=1):
        shutil.copy(SAMPLES / sample / step["file"], folder)
        result = succeed(spark, place, run_id=f"run-{number}")
        watermark = result.tables[table].watermark_after_ms
        assert _text(watermark) == step["watermark"], step["file"]
        assert _windows(place, table) == step["windows"], step["file"]


def _windows(place: Place, table: str) -> list[dict[str, Any]]:
    kept = place.gold(table).drop_columns(["rows", "revision", "updated_by", "window_date"])
    return [
        {name: _text(value) if isinstance(value, datetime) else value for name, value in r.items()}
        for r in sorted(kept.to_pylist(), key=_order)
    ]


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    values = list(row.values())
    return values[0], values[2]


def _text(instant: datetime | int) -> str:
    if isinstance(instant, int):
        instant = datetime.fromtimestamp(instant / 1000, UTC)
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
