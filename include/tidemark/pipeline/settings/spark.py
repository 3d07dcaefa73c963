"""Which settings of Spark a pipeline or the settings file may change."""

from __future__ import annotations

import re
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
    "spark.executorenv.tz": _TIME,
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
# As Java and Python read it. The last is a login in a URL: names and values are held to it.
_SECRET = (
    "(?i)secret|passw(or)?d|passphrase|token|credential|signature|connection[._-]?string|[._]sas[._]"
    "|(access|account|private|shared|storage|encryption|provided|api)[._-]?key"
    r"|://[^/@\s]*:[^/@\s]*@"
)
# Its own default knows neither Azure's keys nor logins in URLs.
REDACTION = "spark.redaction.regex"


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


def is_secret(text: str) -> bool:
    """Is this the name of what must never be shown, or a value that holds some of it?"""
    return bool(re.search(_SECRET, text))


def redacted_too(given: str | None) -> str:
    """The pattern by which Spark masks what it shows in its UI, logs and event logs: by the name
    of a setting or by its value. One that somebody has set is added to."""
    return f"{_SECRET}|{given}" if given else _SECRET
