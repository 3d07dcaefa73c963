from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tests.airflow.test_stream_operator import RUN, SUCCEEDED
from tests.quality.held import NOW, Held, bad_and_good
from tidemark.airflow.assets import asset_of, tell_changed
from tidemark.airflow.validate import PublishOperator
from tidemark.errors import StorageUnavailable, TidemarkError
from tidemark.pipeline.places import Places
from tidemark.runs.publish_held import end_step
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result


def publish(pipeline: Path, result: Path) -> dict[str, Any]:
    operator = PublishOperator(task_id="publish", pipeline_file=str(pipeline), result=str(result))
    events: Any = defaultdict(SimpleNamespace)
    return operator.execute({"outlet_events": events})


def test_only_gold_tables_that_the_run_changed_have_an_event_with_the_range_of_windows() -> None:
    places = Places("/srv/tidemark", "visits")
    changed, same = asset_of("page_1h", places), asset_of("page_1d", places)
    table = SUCCEEDED["tables"]["page_1h"]
    published = {"windows": 3, "start_ms": 1_772_366_400_000, "end_ms": 1_772_373_600_500}
    tables = {"page_1h": {**table, "published": published}, "page_1d": table}
    result = RunResult.model_validate({**SUCCEEDED, "tables": tables})
    events: Any = defaultdict(SimpleNamespace)
    task: Any = SimpleNamespace(outlets=[changed, same])
    told = {name: one.published for name, one in result.tables.items()}
    tell_changed(task, {"outlet_events": events}, result.run_id, told)
    assert task.outlets == [changed]
    assert {asset: event.extra for asset, event in events.items()} == {
        changed: {
            "run": RUN,
            "windows": 3,
            "window_start": "2026-03-01T12:00:00+00:00",
            "window_end": "2026-03-01T14:00:00.500000+00:00",
        }
    }


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


def test_what_its_checks_keep_back_is_not_published_where_validation_is_marked_as_a_success(
    write_pipeline: Callable[..., Path], tmp_path: Path
) -> None:
    error = {"class": "ChecksFailed", "message": "Run x is not published", "retry_can_help": False}
    file = tmp_path / "result.json"
    file.write_text(json.dumps({**SUCCEEDED, "outcome": "failed", "error": error}))
    before = file.read_bytes()
    with pytest.raises(AirflowFailException, match="ChecksFailed: Run x is not published"):
        publish(write_pipeline("visits"), file)
    assert file.read_bytes() == before


def held_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """A held run with a row that its check forbids, of which no validation was made."""
    held = Held(root, [{"fail": "total > 0"}])
    file = held.place.write_file()
    settings = root / "settings.yaml"
    settings.write_text(json.dumps({"root": str(root), "pipelines": str(file.parent)}))
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(settings))
    held.run(*bad_and_good())
    return held


def published(held: Held) -> dict[str, Any]:
    return publish(Path(held.settings.pipelines, "clicks.yaml"), Path(held.uri()))


@pytest.mark.parametrize("error", [None, StorageUnavailable("the store is away")])
def test_a_run_that_no_validation_has_passed_is_validated_before_it_is_published(
    error: TidemarkError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = held_run(tmp_path, monkeypatch)
    if error is not None:
        run = read_result(RunResult, held.uri(), {})
        end_step(run, held.uri(), held.settings, "validate", time.monotonic(), NOW, error)
    before = held.files_of_gold()
    with pytest.raises(AirflowFailException, match="Validation failed with ChecksFailed"):
        published(held)
    assert held.files_of_gold() == before
    result = read_result(RunResult, held.uri(), {})
    assert result.error is not None
    assert (result.error.type, result.held) == ("ChecksFailed", True)


def test_a_run_that_a_validation_has_passed_is_not_validated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = held_run(tmp_path, monkeypatch)
    run = read_result(RunResult, held.uri(), {})
    passed = end_step(run, held.uri(), held.settings, "validate", time.monotonic(), NOW, None)
    # Its publish has failed, and is tried again.
    error = StorageUnavailable("the store is away")
    end_step(passed, held.uri(), held.settings, "publish", time.monotonic(), NOW, error)
    assert published(held)["per_10m"]["windows"] == 3
    assert not Path(held.place.places.quality).exists()


def test_a_pipeline_file_that_broke_since_fails_the_task_for_good(
    write_pipeline: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(AirflowFailException, match="PipelineFileInvalid"):
        publish(write_pipeline("visits", "tables: {}\n"), tmp_path / "result.json")
