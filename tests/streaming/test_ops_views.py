"""The view of a table of ops of all pipelines, in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.storage.test_ops_of_all import RUNS, of_root
from tidemark.cli.ops import spark_view
from tidemark.storage.ops_of_all import ops_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_view_for_spark_has_each_row_that_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = of_root(tmp_path / "root")
    spark.sql(spark_view("runs", ops_parts("runs", place.settings)).removesuffix(";"))
    found = spark.table("tidemark_runs")
    assert sorted((row.pipeline, row.run) for row in found.collect()) == RUNS
    lacking = found.where("counted IS NULL AND took_over IS NULL").select("pipeline").collect()
    assert [row.pipeline for row in lacking] == ["words"]
