"""A stream task that has nothing for Spark to do: spark-submit is not started."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException

from tests.runs import Place, succeed
from tidemark.airflow.publish import PublishOperator
from tidemark.airflow.stream import StreamOperator
from tidemark.tables.results.result import RunResult
from tidemark.tables.results.result_file import read_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = "scheduled__2026-07-01T00:10:00+00:00"
RUN_AFTER = datetime(2026, 7, 1, 0, 10, tzinfo=UTC)


def stream(place: Place) -> dict[str, Any]:
    operator = StreamOperator(
        task_id="stream",
        pipeline_file=str(place.root / "pipelines" / "clicks.yaml"),
        settings_file=str(place.root / "settings.yaml"),
        conn_id="spark_default",
        # It fails, and leaves no result.
        spark_binary="/bin/false",
    )
    dag_run = SimpleNamespace(data_interval_end=None, run_after=RUN_AFTER, run_type="scheduled")
    context: Any = {"run_id": RUN, "ti": SimpleNamespace(try_number=1), "dag_run": dag_run}
    return operator.execute(context)


def test_the_task_succeeds_without_spark_and_its_result_is_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    place = Place(tmp_path)
    folder = place.write_file().parent
    settings = {"root": str(tmp_path), "pipelines": str(folder)}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    place.land("1.json", [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}])
    succeed(spark, place, "held", hold=True)

    summary = stream(place)
    assert summary["rows"] == {"read": 0, "accepted": 0, "rejected": {}}
    result = read_result(RunResult, summary["result"], {})
    assert result.without_spark is not None
    assert (result.run_id, result.trigger, result.scheduled_at) == (RUN, "scheduled", RUN_AFTER)
    publish = PublishOperator(
        task_id="publish",
        pipeline_file=str(folder / "clicks.yaml"),
        settings_file=str(tmp_path / "settings.yaml"),
        result=summary["result"],
    )
    none: Any = {}
    assert publish.execute(none) == {"per_10m": {"gold": 1, "windows": 1}}

    place.land("2.json", [{"at": "2026-01-01T10:02:00Z", "key": "a", "amount": 1}])
    with pytest.raises(AirflowException, match="spark-submit ended with exit status 1"):
        stream(place)
