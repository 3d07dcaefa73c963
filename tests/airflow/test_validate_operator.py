"""The task between the stream and its publish, called as Airflow calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.kit.windows import at, window
from tests.quality.held import Held, bad_and_good
from tidemark.airflow.validate import PublishOperator, ValidateOperator

Task = Callable[..., Any]
EXPECTED = {"ExpectTableRowCountToBeBetween": {"min_value": 1}}


@pytest.fixture
def held(tmp_path: Path) -> Held:
    held = Held(tmp_path, [{"fail": "total > 0"}, {"warn": "rows > 1"}])
    settings = {"root": str(tmp_path), "pipelines": str(tmp_path / "pipelines")}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    return held


def task(held: Held, run_id: str) -> ValidateOperator:
    return ValidateOperator(
        task_id="validate",
        held=held.uri(run_id),
        pipeline_file=str(held.place.write_file()),
        settings_file=str(held.place.root / "settings.yaml"),
    )


def executed(operator: ValidateOperator, run_id: str) -> dict[str, Any]:
    context: Any = {"run_id": run_id, "ti": SimpleNamespace(try_number=1)}
    return operator.execute(context)


def validate(held: Held, run_id: str) -> dict[str, Any]:
    return executed(task(held, run_id), run_id)


def publish_task(held: Held, run_id: str) -> PublishOperator:
    return PublishOperator(
        task_id="publish",
        result=held.uri(run_id),
        pipeline_file=str(held.place.write_file()),
        settings_file=str(held.place.root / "settings.yaml"),
    )


def publish(held: Held, run_id: str) -> dict[str, Any]:
    return publish_task(held, run_id).execute({})


def test_a_failed_check_fails_the_task_for_good_and_the_next_good_run_publishes_both(
    held: Held,
) -> None:
    before = held.files_of_gold()
    held.run(*bad_and_good(), run_id="bad")
    with pytest.raises(AirflowFailException, match="ChecksFailed: Run bad of") as raised:
        validate(held, "bad")
    assert "key=b, total=-3" in str(raised.value)
    assert "--accept --reason" in str(raised.value)
    assert held.files_of_gold() == before

    held.run(window(at(10), key="b", total=3, rows=2), run_id="next")
    told = validate(held, "next")
    assert (told["checks"], told["data_docs"]) == (6, None)
    assert told["warnings"] == ["per_10m: rows > 1: 1 of 3 rows break it"]
    assert publish(held, "next") == {"per_10m": {"gold": 1, "windows": 3}}


def test_where_the_stream_left_no_result_it_is_to_be_cleared(held: Held) -> None:
    """As where somebody marked it as a success: Airflow gives None then."""
    validating, publishing = task(held, "run"), publish_task(held, "run")
    validating.held = publishing.result = None
    for operator in (validating, publishing):
        with pytest.raises(AirflowFailException, match=r"`stream` has left no result.*Clear it"):
            operator.execute({})  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_place_of_the_data_docs_goes_to_xcom(held: Held) -> None:
    held.check({"warn": EXPECTED})
    held.run(window(at(10), key="a", total=1), run_id="run")
    docs = validate(held, "run")["data_docs"]
    assert docs == held.place.places.docs_of("run") + "/index.html"
    assert Path(docs).is_file()


@pytest.mark.slow
def test_a_link_leads_to_the_data_docs_also_where_a_check_failed(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.check({"fail": {"ExpectTableRowCountToBeBetween": {"max_value": 0}}})
    held.run(window(at(10), key="a", total=1), run_id="run")
    operator = task(held, "run")
    (link,) = operator.operator_extra_links
    assert link.get_link(operator, ti_key=None) == ""
    with pytest.raises(AirflowFailException):
        executed(operator, "run")
    docs = held.place.places.docs_of("run") + "/index.html"
    assert link.get_link(operator, ti_key=None) == Path(docs).as_uri()

    monkeypatch.setenv("TIDEMARK_CHECKS__DOCS_URL", "https://docs.example.org/tidemark/")
    with pytest.raises(AirflowFailException):
        executed(operator, "run")
    below = docs.removeprefix(str(held.place.root))
    assert link.get_link(operator, ti_key=None) == f"https://docs.example.org/tidemark{below}"


def test_a_killed_task_is_tried_again_and_says_the_same(held: Held) -> None:
    held.run(window(at(10), key="a", total=1), run_id="run")
    first, told = validate(held, "run"), held.verdicts()
    assert validate(held, "run") == first
    assert held.verdicts() == told
