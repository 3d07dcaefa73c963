"""What the session of a job shows of itself."""

from __future__ import annotations

import subprocess
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tidemark.pipeline.fold_code import RUN_SEED
from tidemark.pipeline.settings.settings import Settings
from tidemark.streaming.session import checked_session

HUSH = "hush-hush"


def test_secrets_are_not_in_what_spark_writes_of_its_settings(spark: SparkSession) -> None:
    """Spark's own words for its log, UI and event log, with the session's pattern."""
    conf = spark.sparkContext._jsc.sc().conf().clone()
    for name, value in {
        "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net": HUSH,
        "spark.hadoop.fs.azure.sas.container.acc.blob.core.windows.net": HUSH,
        "spark.hadoop.fs.s3a.access.key": HUSH,
        "spark.hadoop.fs.s3a.endpoint": f"http://user:{HUSH}@127.0.0.1:9000",
        "spark.acme": "shown",
    }.items():
        conf.set(name, value)
    told = str(conf.toDebugString())
    assert HUSH not in told
    assert "spark.hadoop.fs.azure.account.key.acc" in told
    assert "spark.acme=shown" in told


def test_workers_have_the_seed_of_runs_whatever_the_driver_s_is(spark: SparkSession) -> None:
    """By it a set of texts has its order, wherever a fold runs."""
    spark.sparkContext.environment["PYTHONHASHSEED"] = "7"
    checked_session("tests", {}, Settings(root="/r"))
    (found,) = spark.range(1).select(udf(lambda _: hash("a text"), "long")("id")).collect()
    code = "print(hash('a text'))"
    plain = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": RUN_SEED},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found[0] == int(plain.stdout)


def test_a_text_that_looks_like_a_variable_is_a_text(spark: SparkSession) -> None:
    asked = {"text": "'A-${id}'", "environment": "'${env:PATH}'", "group": "'${n}'"}
    row = spark.range(1).selectExpr(*(f"{sql} AS `{name}`" for name, sql in asked.items())).first()
    assert row is not None
    assert row.asDict() == {name: sql.strip("'") for name, sql in asked.items()}
    replaced = spark.range(1).selectExpr("regexp_replace('xay', '(?<n>a)', '[${n}]')").first()
    assert replaced is not None
    assert replaced[0] == "x[a]y"
