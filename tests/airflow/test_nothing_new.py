"""A stream task that has nothing for Spark to do: spark-submit is not started."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException

from tests.kit.running import Place, succeed
from tidemark.airflow.assets import asset_of
from tidemark.airflow.stream import StreamOperator
from tidemark.airflow.validate import PublishOperator
from tidemark.pipeline.places import Places
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = "scheduled__2026-07-01T00:10:00+00:00"
RUN_AFTER = datetime(2026, 7, 1, 0, 10, tzinfo=UTC)


def stream(place: Place, run_id: str = RUN) -> dict[str, Any]:
    operator = StreamOperator(
        task_id="stream",
        pipeline_file=str(place.root / "pipelines" / "clicks.yaml"),
        settings_file=str(place.root / "settings.yaml"),
        conn_id="spark_default",
        # It fails, and leaves no result.
        spark_binary="/bin/false",
    )
    dag_run = SimpleNamespace(
        data_interval_end=None,
        run_after=RUN_AFTER,
        run_type="scheduled",
        triggering_user_name=None,
        dag_id="clicks",
    )
    context: Any = {"run_id": run_id, "ti": SimpleNamespace(try_number=1), "dag_run": dag_run}
    return operator.execute(context)


EXTRA = {
    "run": RUN,
    "windows": 1,
    "window_start": "2026-01-01T10:00:00+00:00",
    "window_end": "2026-01-01T10:10:00+00:00",
}


def publish(place: Place, result: str) -> tuple[int, list[dict[str, Any]]]:
    """How many windows the task published, and the extras of its Assets' events."""
    operator = PublishOperator(
        task_id="publish",
        pipeline_file=str(place.root / "pipelines" / "clicks.yaml"),
        settings_file=str(place.root / "settings.yaml"),
        result=result,
        outlets=[asset_of("per_10m", Places(str(place.root), "clicks"))],
    )
    events: Any = defaultdict(SimpleNamespace)
    context: Any = {"outlet_events": events}
    windows = operator.execute(context)["per_10m"]["windows"]
    return windows, [events[asset].extra for asset in operator.outlets]


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
    assert summary["rows"] == {"read": 0, "accepted": 0, "rejected": {}, "counted": {}}
    result = read_result(RunResult, summary["result"], {})
    assert result.without_spark is not None
    assert (result.run_id, result.trigger, result.scheduled_at) == (RUN, "scheduled", RUN_AFTER)
    assert publish(place, summary["result"]) == (1, [EXTRA])
    # Killed before Airflow heard of it, it is tried again.
    assert publish(place, summary["result"]) == (0, [EXTRA])
    assert publish(place, stream(place, "next")["result"]) == (0, []), "nothing to tell"

    place.land("2.json", [{"at": "2026-01-01T10:02:00Z", "key": "a", "amount": 1}])
    with pytest.raises(AirflowException, match="spark-submit ended with exit status 1"):
        stream(place)
