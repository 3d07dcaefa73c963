"""What the session of a job shows of itself."""

from __future__ import annotations

from pyspark.sql import SparkSession

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
