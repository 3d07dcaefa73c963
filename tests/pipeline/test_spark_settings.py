"""Which settings of Spark a pipeline's file may change, and which a contract may hold."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.spark import FIXED, TUNABLE, as_text, check_pipeline_setting
from tidemark.pipeline.settings.state import PROVIDER, provider_class
from tidemark.streaming.session import session_conf

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"
SETTINGS = Settings(root="/r", pipelines="/p")
# Each of these ran code, read a file or reached another host when it was let through.
DOORS = {
    "spark.jars": "http://10.0.0.1/a.jar",
    "spark.jars.packages": "a:b:1",
    "spark.plugins": "a.Plugin",
    "spark.driver.extraJavaOptions": "-XX:OnOutOfMemoryError=sh",
    "spark.executor.extraJavaOptions": "-XX:OnOutOfMemoryError=sh",
    "spark.executor.extraClassPath": "/srv/a.jar",
    "spark.executorEnv.LD_PRELOAD": "/srv/a.so",
    "spark.files": "/etc/passwd",
    "spark.archives": "/srv/a.zip",
    "spark.submit.pyFiles": "/srv/a.py",
    "spark.pyspark.python": "/srv/python",
    "spark.extraListeners": "a.Listener",
    "spark.sql.queryExecutionListeners": "a.Listener",
    "spark.sql.streaming.streamingQueryListeners": "a.Listener",
    "spark.sql.adaptive.customCostEvaluatorClass": "a.Cost",
    "spark.sql.catalog.other": "a.Catalog",
    "spark.hadoop.fs.s3a.endpoint": "http://10.0.0.1",
    "spark.hadoop.fs.file.impl": "a.FileSystem",
    "spark.eventLog.dir": "s3://elsewhere/logs",
    "spark.local.dir": "/srv",
    "spark.ui.enabled": "true",
    "spark.redaction.regex": "nothing",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.charVarcharAsString": "true",
}


def refused(name: str, value: object) -> str:
    with pytest.raises(PipelineFileInvalid) as error:
        pipeline_from_mapping("clicks", clicks(advanced={"spark": {name: value}}))
    (problem,) = error.value.problems
    assert problem.field == f"advanced.spark.{name}"
    return problem.message


@pytest.mark.parametrize(("name", "value"), DOORS.items())
def test_what_is_not_tuning_is_refused_with_the_line_for_the_settings(
    name: str, value: str
) -> None:
    assert f"`spark: {{{name}: …}}`" in refused(name, value)
    assert Settings(root="/r", pipelines="/p", spark={name: value}).spark == {name: value}


@pytest.mark.parametrize("value", ["a.Class", "file:///x", "/x", "-Xmx1g -version", "a,b", ""])
def test_what_may_be_changed_takes_no_class_no_place_and_no_option(value: str) -> None:
    for name in TUNABLE - {PROVIDER}:
        with pytest.raises(ValueError, match=r"^takes (a|true) "):
            check_pipeline_setting(name, value)
    assert "takes a number" in refused("spark.executor.memory", value)


def test_what_may_be_changed_reaches_the_session() -> None:
    spark: dict[str, object] = {}
    for name in TUNABLE - {PROVIDER, KEPT_BY_ENGINE}:
        for one in (4, True, "lz4"):
            with suppress(ValueError):
                check_pipeline_setting(name, str(as_text(one)))
                spark[name] = one
    assert len(spark) == len(TUNABLE) - 2
    content = clicks(advanced={"spark": spark})
    conf = session_conf(pipeline_from_mapping("clicks", content), SETTINGS)
    assert {name: conf[name] for name in spark} == {
        name: as_text(value) for name, value in spark.items()
    }


def test_a_state_store_is_one_of_the_engines_two() -> None:
    assert "known: org.apache.spark.sql" in refused(PROVIDER, "a.Store")
    content = clicks(advanced={"spark": {PROVIDER: provider_class("rocksdb")}})
    conf = session_conf(pipeline_from_mapping("clicks", content), SETTINGS)
    assert conf[PROVIDER] == provider_class("rocksdb")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("executor.memory", "１g", "a number above 0, with its unit"),
        ("executor.memory", "-1g", "a number above 0, with its unit"),
        ("executor.cores", "four", "a whole number above 0"),
        ("executor.cores", "٤", "a whole number above 0"),
        ("sql.streaming.minBatchesToRetain", 0, "a whole number above 0"),
        ("sql.streaming.minBatchesToRetain", -5, "a whole number above 0"),
        ("sql.streaming.minBatchesToRetain", "5m", "a whole number above 0"),
        ("sql.files.minPartitionNum", "1.5", "a whole number above 0"),
        ("sql.files.maxPartitionBytes", "0.0m", "a number above 0, with its unit"),
        ("sql.autoBroadcastJoinThreshold", "off", "a number with its unit"),
        ("sql.adaptive.enabled", "maybe", "true or false"),
        ("sql.parquet.compression.codec", 5, "a word"),
        ("sql.parquet.compression.codec", "sn\u00e4ppy", "a word"),
    ],
)
def test_a_value_is_of_the_kind_that_its_setting_takes(name: str, value: object, told: str) -> None:
    assert refused(f"spark.{name}", value) == f"takes {told}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("executor.memory", "1g"),
        ("executor.memory", "0.5g"),
        ("executor.memoryOverhead", "10m"),
        ("sql.autoBroadcastJoinThreshold", -1),
        ("sql.execution.arrow.maxRecordsPerBatch", 0),
        ("sql.adaptive.enabled", True),
        ("sql.adaptive.enabled", "FALSE"),
        ("sql.parquet.compression.codec", "lz4_raw"),
    ],
)
def test_what_tuning_needs_is_taken(name: str, value: object) -> None:
    pipeline_from_mapping("clicks", clicks(advanced={"spark": {f"spark.{name}": value}}))


def test_a_misspelt_one_is_told_the_name_that_is_near() -> None:
    said = refused("spark.sql.files.maxPartitionByte", "1m")
    assert "did you mean `spark.sql.files.maxPartitionBytes`?" in said


@pytest.mark.parametrize(("name", "value"), DOORS.items())
def test_a_contract_of_before_is_read_and_its_setting_reaches_no_session(
    name: str, value: str
) -> None:
    kept = pipeline_from_mapping("clicks", clicks()).model_dump(mode="json")
    kept["advanced"]["spark"] = {name: value}
    pipeline = Pipeline.model_validate_json(json.dumps(kept))
    assert pipeline.advanced.spark == {name: value}
    plain = session_conf(pipeline_from_mapping("clicks", clicks()), SETTINGS)
    assert session_conf(pipeline, SETTINGS) == plain


def test_none_of_them_is_fixed() -> None:
    assert not {name.lower() for name in TUNABLE} & set(FIXED)


def test_the_page_lists_all_of_them() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Settings of Spark")[1].split("\n## ")[0]
    assert set(re.findall(r"^- `(spark\.[\w.]+)`$", section, re.MULTILINE)) == TUNABLE


def test_the_engine_knows_each_of_them(spark: SparkSession) -> None:
    """Those of SQL by its registry; of the state store's own, of Delta and of executors there is
    none that can be asked."""
    own = ("spark.sql.streaming.stateStore.rocksdb.", "spark.databricks.", "spark.executor.")
    asked = {name for name in TUNABLE if not name.startswith((*own, "spark.cores."))}
    assert [name for name in sorted(asked) if not spark.conf.isModifiable(name)] == []
