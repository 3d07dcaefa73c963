from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemark.airflow.publish import PublishOperator


def publish(pipeline: Path, result: Path) -> dict[str, Any]:
    operator = PublishOperator(task_id="publish", pipeline_file=str(pipeline), result=str(result))
    return operator.execute({})


def test_a_missing_result_fails_the_task_for_good_and_is_named(
    write_pipeline: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(AirflowFailException, match=r"no result file .*gone\.json"):
        publish(write_pipeline("visits"), tmp_path / "gone.json")


def test_a_store_that_cannot_be_reached_is_retried(
    write_pipeline: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "results").touch()  # where a folder should be: reading below it fails
    with pytest.raises(AirflowException, match="could not be read") as raised:
        publish(write_pipeline("visits"), tmp_path / "results" / "result.json")
    assert not isinstance(raised.value, AirflowFailException)


def test_a_pipeline_file_that_broke_since_fails_the_task_for_good(
    write_pipeline: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(AirflowFailException, match="PipelineFileInvalid"):
        publish(write_pipeline("visits", "tables: {}\n"), tmp_path / "result.json")
