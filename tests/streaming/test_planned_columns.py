"""How Spark types the columns of a pipeline's tables is planned once for a pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.kit.running import clicks
from tidemark.errors import PipelineInvalid
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.run import Run
from tidemark.streaming.planned_columns import planned_columns
from tidemark.streaming.run.ensure_tables import ensure_tables

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


UNKEPT = {
    "transform(array(1), x -> interval 1 day)": "interval day, which no table can keep",
    "array_distinct(array(null))": "has a part without a type",
    "from_json(key, 'a int, A int')": "the fields `a` and `A`, which are one to Spark",
    "from_json(key, 'a variant')": "variant, which no table can keep",
    "key rlike '\\\\p{Nowhere}'": "Java cannot read the pattern '\\p{Nowhere}': Unknown",
}


@pytest.mark.parametrize("sql", list(UNKEPT))
def test_what_only_spark_can_tell_is_refused_before_a_table_is_made(
    spark: SparkSession, tmp_path: Path, sql: str
) -> None:
    run = run_of(tmp_path, source={**clicks()["source"], "derive": {"odd": sql}})
    with pytest.raises(PipelineInvalid) as refused:
        ensure_tables(spark, run)
    assert not refused.value.retry_can_help
    assert UNKEPT[sql] in str(refused.value)
    assert "source.derive.odd: `" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_measure_that_no_table_can_keep_is_refused_by_its_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = {
        **clicks()["tables"]["per_10m"],
        "measures": {"odd": "max(array_distinct(array(null)))"},
    }
    with pytest.raises(PipelineInvalid, match=r"tables\.per_10m\.measures\.odd: `max"):
        planned_columns(spark, run_of(tmp_path, tables={"per_10m": table}))
    assert list(tmp_path.iterdir()) == []


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
