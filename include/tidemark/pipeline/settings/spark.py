"""Which settings of Spark a pipeline or the settings file may change."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidemark.pipeline.problems import nearest, why_not
from tidemark.pipeline.settings.state import PROVIDER, STORE_CLASSES

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
    "spark.sql.variable.substitute": "an expression means what it says",
    "spark.sql.shuffle.partitions": "it stands under `advanced.shuffle_partitions`",
    "spark.sql.streaming.nodatamicrobatches.enabled": "windows close in batches without rows",
    "spark.sql.streaming.multiplewatermarkpolicy": "a checkpoint keeps it for good",
    "spark.sql.streaming.unsupportedoperationcheck": "it keeps wrong results out",
    "spark.sql.legacy.timeparserpolicy": "a row must be judged the same in every run",
}
# What a pipeline's file may change: sizes, numbers and switches of its own queries. None names a
# class, a place, a host or an option of a process, and none decides what a query comes to.
TUNABLE = frozenset(
    f"spark.{name}"
    for name in (
        "cores.max",
        "databricks.delta.snapshotPartitions",
        "executor.cores",
        "executor.instances",
        "executor.memory",
        "executor.memoryOverhead",
        "sql.adaptive.advisoryPartitionSizeInBytes",
        "sql.adaptive.coalescePartitions.enabled",
        "sql.adaptive.enabled",
        "sql.adaptive.skewJoin.enabled",
        "sql.autoBroadcastJoinThreshold",
        "sql.broadcastTimeout",
        "sql.codegen.hugeMethodLimit",
        "sql.codegen.maxFields",
        "sql.codegen.wholeStage",
        "sql.execution.arrow.maxRecordsPerBatch",
        "sql.files.maxPartitionBytes",
        "sql.files.maxPartitionNum",
        "sql.files.maxRecordsPerFile",
        "sql.files.minPartitionNum",
        "sql.files.openCostInBytes",
        "sql.inMemoryColumnarStorage.batchSize",
        "sql.join.preferSortMergeJoin",
        "sql.objectHashAggregate.sortBased.fallbackThreshold",
        "sql.parquet.compression.codec",
        "sql.streaming.aggregation.stateFormatVersion",
        "sql.streaming.fileSource.log.cleanupDelay",
        "sql.streaming.minBatchesToRetain",
        "sql.streaming.stateStore.compression.codec",
        "sql.streaming.stateStore.encodingFormat",
        "sql.streaming.stateStore.maintenanceInterval",
        "sql.streaming.stateStore.minDeltasForSnapshot",
        "sql.streaming.stateStore.providerClass",
        "sql.streaming.stateStore.rocksdb.blockCacheSizeMB",
        "sql.streaming.stateStore.rocksdb.blockSizeKB",
        "sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
        "sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "sql.streaming.stateStore.rocksdb.compactOnCommit",
        "sql.streaming.stateStore.rocksdb.compression",
        "sql.streaming.stateStore.rocksdb.formatVersion",
        "sql.streaming.stateStore.rocksdb.maxMemoryUsageMB",
        "sql.streaming.stateStore.rocksdb.maxOpenFiles",
        "sql.streaming.stateStore.rocksdb.maxWriteBufferNumber",
        "sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows",
        "sql.streaming.stateStore.rocksdb.writeBufferSizeMB",
        "sql.streaming.stateStore.rowChecksum.enabled",
        "sql.streaming.stateStore.unloadOnCommit",
        "sql.streaming.statefulOperator.useStrictDistribution",
    )
)
# Of these, what belongs to the process: Spark reads it when it starts, or with the first query of
# all that run in it. Each query has the others for itself.
OF_A_PROCESS = frozenset(
    f"spark.{name}"
    for name in (
        "cores.max",
        "executor.cores",
        "executor.instances",
        "executor.memory",
        "executor.memoryOverhead",
        "sql.streaming.stateStore.maintenanceInterval",
        "sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
        "sql.streaming.stateStore.rocksdb.maxMemoryUsageMB",
    )
)
# What a setting takes, in words and as a pattern: of a class's name, an address and a path none is
# one. All digits and letters are ASCII's, as Spark reads them.
_Kind = tuple[str, re.Pattern[str]]
_SWITCH: _Kind = ("true or false", re.compile("(?i:true|false)"))
_WORD: _Kind = ("a word", re.compile(r"[A-Za-z_][A-Za-z0-9_]*"))
_NUMBER: _Kind = ("a number with its unit", re.compile(r"-?[0-9]+(\.[0-9]+)?[A-Za-z]*"))
_ABOVE_0: _Kind = (
    "a number above 0, with its unit",
    re.compile(r"(?=[0-9.]*[1-9])[0-9]+(\.[0-9]+)?[A-Za-z]*"),
)
_WHOLE: _Kind = ("a whole number above 0", re.compile("0*[1-9][0-9]*"))
_SWITCHES = (
    *("enabled", "boundedMemoryUsage", "compactOnCommit", "preferSortMergeJoin"),
    *("trackTotalNumberOfRows", "unloadOnCommit", "useStrictDistribution", "wholeStage"),
)
_WORDS = ("codec", "compression", "encodingFormat")
_WHOLE_NUMBERS = (
    *("batchSize", "cores", "formatVersion", "max", "maxPartitionNum", "minBatchesToRetain"),
    *("minPartitionNum", "snapshotPartitions", "stateFormatVersion"),
)
# 0 or less means something to them: no bound, or not at all.
_ANY_NUMBER = (
    *("autoBroadcastJoinThreshold", "broadcastTimeout", "cleanupDelay", "fallbackThreshold"),
    *("hugeMethodLimit", "instances", "maxFields", "maxOpenFiles", "maxRecordsPerBatch"),
    *("maxRecordsPerFile", "maxWriteBufferNumber", "memoryOverhead", "minDeltasForSnapshot"),
    *("openCostInBytes", "writeBufferSizeMB"),
)
_KINDS = {
    **dict.fromkeys(_SWITCHES, _SWITCH),
    **dict.fromkeys(_WORDS, _WORD),
    **dict.fromkeys(_WHOLE_NUMBERS, _WHOLE),
    **dict.fromkeys(_ANY_NUMBER, _NUMBER),
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


def check_pipeline_setting(name: str, value: str) -> None:
    """ValueError where a pipeline's file may not change this, or not to this value.

    Whoever writes one is not trusted with the processes that all pipelines share: a setting may
    load a class, start a program, send files elsewhere.
    """
    check_spark_setting(name)
    if is_secret(name):
        raise ValueError("is a secret; secrets stand in the environment or in a connection")
    if name not in TUNABLE:
        near = nearest(name, TUNABLE, likeness=0.9)
        hint = f"; did you mean `{near}`?" if near else ""
        raise ValueError(
            f"is not among the settings that a pipeline may change{hint} (docs/trust.md lists "
            f"them). Who operates the platform can set it for all pipelines, by a line of the "
            f"settings: `spark: {{{name}: …}}`"
        )
    if name == PROVIDER:
        if value not in STORE_CLASSES:
            raise ValueError(
                f"is a class that is not known here; known: {', '.join(STORE_CLASSES)}"
            )
        return
    words, pattern = _KINDS.get(name.rpartition(".")[2], _ABOVE_0)
    if not pattern.fullmatch(value):
        raise ValueError(f"takes {words}")


def tuned(asked: Mapping[str, str]) -> dict[str, str]:
    """What a pipeline may change of what it asks for: the contract of a query may hold more, which
    files could ask for once."""
    return {of: said for of, said in asked.items() if not why_not(check_pipeline_setting, of, said)}


def of_the_process(asked: Mapping[str, str]) -> dict[str, str]:
    """Of what a pipeline asks for, what all that run in one process have alike."""
    return {name: value for name, value in tuned(asked).items() if name in OF_A_PROCESS}


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
