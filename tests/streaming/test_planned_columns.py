"""How Spark types the columns of a pipeline's tables is planned once for a pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.run import Run
from tidemark.streaming.planned_columns import planned_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_of(root: Path, **changes: Any) -> Run:
    pipeline = pipeline_from_mapping("clicks", clicks(**changes))
    return Run(pipeline, Settings(root=str(root), pipelines=str(root)), "run", 0)


def test_columns_are_planned_once_and_come_back_with_types_and_comments(
    spark: SparkSession, tmp_path: Path
) -> None:
    run, nobody_to_ask = run_of(tmp_path), cast("SparkSession", None)
    planned = planned_columns(spark, run)
    assert planned_columns(nobody_to_ask, run) == planned
    assert planned.bronze["_file"].metadata == {"comment": "The source file"}
    assert set(planned.aggregated) == set(run.pipeline.tables)


def test_columns_of_a_changed_pipeline_are_planned_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = planned_columns(spark, run_of(tmp_path))
    source = clicks()["source"]
    changed = run_of(tmp_path, source={**source, "derive": {"twice": "2L * 3"}})
    after = planned_columns(spark, changed)
    assert "twice" not in before.bronze.names
    assert after.bronze["twice"].dataType.simpleString() == "bigint"
    assert planned_columns(spark, run_of(tmp_path)) == before


@pytest.mark.parametrize("found", ["", "{", "[]", '{"planned_from": "another version"}'])
def test_a_file_that_is_cut_off_or_of_another_version_is_written_anew(
    spark: SparkSession, tmp_path: Path, found: str
) -> None:
    run = run_of(tmp_path)
    planned = planned_columns(spark, run)
    file = Path(run.places.planned_columns)
    whole = file.read_text()
    file.write_text(found)
    assert planned_columns(spark, run) == planned
    assert file.read_text() == whole
