"""Which settings of Spark a pipeline or the settings file may change."""

from __future__ import annotations

from collections.abc import Mapping

_TIME = "all times are UTC"
_PLACES = "the platform places checkpoints itself, below the root"
_REPLAY = "what a crashed batch wrote is known by it"
_COUNT = "rows would be left out without a word; files that cannot be read are recorded rejects"
_DELTA = "the tables are Delta, and the job sets this up"
_SUBMIT = "spark-submit, or Airflow's connection, decides it"
_NAMES = "pipeline files are checked with Spark's own rule for names and types"

FIXED: Mapping[str, str] = {
    "spark.sql.session.timezone": _TIME,
    "spark.sql.streaming.checkpointlocation": _PLACES,
    "spark.sql.streaming.forcedeletetempcheckpointlocation": _PLACES,
    "spark.databricks.delta.write.txnappid": _REPLAY,
    "spark.databricks.delta.write.txnversion": _REPLAY,
    "spark.databricks.delta.write.txnversion.autoreset.enabled": _REPLAY,
    "spark.sql.files.ignoremissingfiles": _COUNT,
    "spark.sql.files.ignorecorruptfiles": _COUNT,
    "spark.sql.parquet.outputtimestamptype": "other readers take INT96 for another time",
    "spark.sql.extensions": _DELTA,
    "spark.sql.catalog.spark_catalog": _DELTA,
    "spark.master": _SUBMIT,
    "spark.app.name": _SUBMIT,
    "spark.submit.deploymode": _SUBMIT,
    "spark.remote": _SUBMIT,
    "spark.sql.casesensitive": _NAMES,
    "spark.sql.ansi.enabled": _NAMES,
    "spark.sql.shuffle.partitions": "it stands under `advanced.shuffle_partitions`",
    "spark.sql.streaming.nodatamicrobatches.enabled": "windows close in batches without rows",
    "spark.sql.streaming.multiplewatermarkpolicy": "a checkpoint keeps it for good",
    "spark.sql.streaming.unsupportedoperationcheck": "it keeps wrong results out",
    "spark.sql.legacy.timeparserpolicy": "a row must be judged the same in every run",
}
_SECRET = ("password", "secret", "token", "access.key", "account.key", "credential")


def check_spark_setting(name: str) -> None:
    """ValueError when `name` is no setting of Spark or one that the platform fixes."""
    if not name.startswith("spark."):
        raise ValueError("is not a setting of Spark: those begin with `spark.`")
    if reason := FIXED.get(name.lower()):
        raise ValueError(f"cannot be changed: {reason}")


def check_pipeline_setting(name: str) -> None:
    """As `check_spark_setting`, and no secret: files of pipelines are read by many."""
    check_spark_setting(name)
    if is_secret(name):
        raise ValueError("is a secret; secrets stand in the environment or in a connection")


def as_text(value: object) -> object:
    """YAML and JSON read `true` and `4`; Spark's settings and storage options are text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def is_secret(name: str) -> bool:
    """Does a setting of this name hold what must never be shown?"""
    return any(word in name.lower().replace("_", ".") for word in _SECRET)
