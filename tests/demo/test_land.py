from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demo.land import FIRST_NEWEST, PARTS, SAMPLES, SECOND_NEWEST, land, without_schedule
from tests.kit.shipped import FILES
from tidemark.pipeline.load import load_pipeline, load_pipelines

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PIPELINES = SAMPLES.parent / "pipelines"


def land_all(root: Path) -> None:
    for part in PARTS:
        land(part, root, root.parent / "manifests", NOW)


def test_both_parts_together_land_every_file_of_the_samples(tmp_path: Path) -> None:
    land_all(tmp_path / "root")
    landing = tmp_path / "root" / "landing"
    requests = {path.name for path in (SAMPLES / "access_log").glob("part-*.json.gz")}
    assert {path.name for path in (landing / "access_log").iterdir()} == requests
    example = {path.name for path in (SAMPLES / "ad_impressions").glob("trigger-*.json")}
    landed = {path.name for path in (landing / "ad_impressions").iterdir()}
    assert example < landed
    assert all(path.startswith(("trigger-", "impressions-")) for path in landed)


@pytest.mark.parametrize(("part", "newest"), [(1, FIRST_NEWEST), (2, SECOND_NEWEST)])
def test_the_generated_rows_leave_the_worked_examples_watermark_as_it_is(
    tmp_path: Path, part: int, newest: datetime
) -> None:
    land_all(tmp_path / "root")
    manifest = json.loads((tmp_path / "manifests" / f"impressions-{part}.json").read_text())
    assert datetime.fromisoformat(manifest["total"]["event_time"]["max"]) <= newest
    example = PARTS[part - 1].triggers[-1]
    lines = (SAMPLES / "ad_impressions" / f"trigger-{example}.json").read_text().splitlines()
    assert max(datetime.fromisoformat(json.loads(line)["timestamp"]) for line in lines) == newest


def test_what_is_told_of_a_part_is_what_was_generated(tmp_path: Path) -> None:
    told = land(PARTS[1], tmp_path / "root", tmp_path / "manifests", NOW)
    total = json.loads((tmp_path / "manifests" / "impressions-2.json").read_text())["total"]
    assert f"{total['late']:,} late" in told["ad_impressions"]
    assert f"{sum(total['malformed'].values()):,} malformed" in told["ad_impressions"]


def test_the_demos_pipelines_are_the_users_without_a_schedule(tmp_path: Path) -> None:
    without_schedule(PIPELINES, tmp_path)
    copies, invalid = load_pipelines(tmp_path)
    originals = [load_pipeline(file) for file in FILES]
    assert invalid == []
    assert all(pipeline.schedule for pipeline in originals)
    assert copies == [p.model_copy(update={"schedule": None}) for p in originals]
