"""The result file: what a job says to whoever started it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.errors import (
    ResultUnreadable,
    RunFailed,
    SourceNotFound,
    TableMismatch,
    TidemarkError,
)
from tidemark.gold.pins import Late, TableResult
from tidemark.operators.repaired import LATE, LOOKUP, Recomputed, Repaired
from tidemark.runs.results.result import RunResult, repair_lines
from tidemark.storage.delta.rows import Rows
from tidemark.storage.result_file import RunError, read_result, write_result
from tidemark.version import told_version

TABLE = TableResult(
    generation=2,
    changes=8,
    inputs={"bronze": 5},
    windows_changed=660,
    watermark_before_ms=0,
    watermark_after_ms=1_431_890_000_123,
    close_before_ms=0,
    close_after_ms=1_431_890_000_123,
)
RESULT = RunResult(
    pipeline="clicks",
    run_id="scheduled__2026-07-01T00:00:00+00:00",
    outcome="failed",
    held=True,
    started_at=datetime(2026, 7, 1, 0, 0, 1, 5, tzinfo=UTC),
    ended_at=datetime(2026, 7, 1, 0, 0, 9, tzinfo=UTC),
    rows=Rows(read=5, accepted=3, rejected={"malformed": 2}, counted={"no key": 1}),
    batches={"ingest": [0], "per_10m": [0, 1]},
    seconds={"session": 3.5},
    versions={"bronze": 5, "rejects": 1},
    tables={"per_10m": TABLE},
    error=RunError.of(RunFailed("Größe „x“")),
)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    uri = str(tmp_path / "results" / "run.json")
    write_result(uri, RESULT, {})
    assert read_result(RunResult, uri, {}) == RESULT


def test_a_result_of_the_same_try_is_replaced(tmp_path: Path) -> None:
    uri = str(tmp_path / "run.json")
    write_result(uri, RESULT, {})
    again = RESULT.model_copy(update={"outcome": "succeeded", "error": None})
    write_result(uri, again, {})
    assert read_result(RunResult, uri, {}) == again


def test_the_error_stands_in_the_file_under_the_name_class(tmp_path: Path) -> None:
    uri = tmp_path / "run.json"
    write_result(str(uri), RESULT, {})
    assert '"class": "RunFailed"' in uri.read_text()


def test_an_error_that_names_what_is_no_utf_8_is_told_as_well(tmp_path: Path) -> None:
    error = RunError.of(SourceNotFound("caf\udce9.json is gone"))
    uri = str(tmp_path / "run.json")
    write_result(uri, RESULT.model_copy(update={"error": error}), {})
    told = read_result(RunResult, uri, {}).error
    assert told is not None
    assert told.message == r"caf\udce9.json is gone"


def test_a_result_says_who_wrote_it_and_one_that_does_not_is_read_too(tmp_path: Path) -> None:
    uri = tmp_path / "run.json"
    write_result(str(uri), RESULT, {})
    told = json.loads(uri.read_text())
    assert told.pop("tidemark") == told_version()
    uri.write_text(json.dumps(told))
    assert read_result(RunResult, str(uri), {}) == RESULT


def test_a_result_of_another_form_is_told_with_who_wrote_it(tmp_path: Path) -> None:
    uri = tmp_path / "run.json"
    write_result(str(uri), RESULT, {})
    newer = json.loads(uri.read_text()) | {"tidemark": "0.3.0+0123456789ab", "more": 1}
    uri.write_text(json.dumps(newer))
    with pytest.raises(ResultUnreadable) as refused:
        read_result(RunResult, str(uri), {})
    assert f"Tidemark 0.3.0+0123456789ab wrote it, and this is {told_version()}" in str(
        refused.value
    )


def test_a_missing_result_says_that_the_job_ended_before_writing_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "run.json")
    with pytest.raises(ResultUnreadable, match="the job ended before") as error:
        read_result(RunResult, uri, {})
    assert uri in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format": 1}',
        RESULT.model_dump_json(by_alias=True).replace('"format":1', '"format":2').encode(),
        RESULT.model_dump_json(by_alias=True).replace('"held"', '"hold"').encode(),
    ],
)
def test_what_is_no_result_of_format_1_is_unreadable_and_named(
    tmp_path: Path, content: bytes
) -> None:
    uri = tmp_path / "run.json"
    uri.write_bytes(content)
    with pytest.raises(ResultUnreadable, match=r"is not a RunResult of format 1") as error:
        read_result(RunResult, str(uri), {})
    assert str(uri) in str(error.value)


@pytest.mark.parametrize(
    ("error", "can_help"),
    [
        (TableMismatch("no"), False),
        (SourceNotFound("no"), True),
        (TidemarkError("no"), False),
        (ValueError("no"), True),
    ],
)
def test_an_error_tells_whether_a_retry_can_help_and_an_unforeseen_one_may_pass(
    error: Exception, can_help: bool
) -> None:
    found = RunError.of(error)
    assert (found.type, found.message) == (type(error).__name__, "no")
    assert found.retry_can_help == can_help


def test_rows_add_up_reason_by_reason() -> None:
    first = Rows(read=4, accepted=2, rejected={"future": 1, "malformed": 1}, counted={"b": 2})
    second = Rows(read=3, accepted=2, rejected={"malformed": 1}, counted={"a": 1, "b": 1})
    rejected, counted = {"future": 1, "malformed": 2}, {"a": 1, "b": 3}
    assert first + second == Rows(read=7, accepted=4, rejected=rejected, counted=counted)
    assert first + Rows() == first


def test_a_table_without_late_rows_and_seals_has_nothing_to_tell_of_repairs() -> None:
    assert repair_lines(TABLE) == []
    # The frontier of an idle source that is closed already.
    assert repair_lines(TABLE.model_copy(update={"close_before_ms": 9, "sealed_to_ms": 9})) == []


def test_late_rows_and_seals_are_told_with_their_numbers() -> None:
    late = Late(rows=3, partly=2, assigned=9, windows=7, frozen=1, recomputed=6, corrected=4)
    late = late.model_copy(update={"first_seen": 1})
    told = repair_lines(TABLE.model_copy(update={"late": late, "sealed_to_ms": 1_000}))
    assert told == [
        "3 rows came too late, and 2 for some of their windows only; "
        "6 closed windows computed again, 4 of them corrected, 1 first seen",
        "1 late assignments to windows older than `keep` left out",
        "the source is idle: windows up to 1970-01-01T00:00:01Z sealed",
    ]


def test_windows_corrected_for_a_lookup_are_corrected_too() -> None:
    table = TABLE.model_copy(update={"late": Late(corrected=2), "corrected_besides": 4})
    of_lookup = Recomputed(LOOKUP, 5, 50, 50, appended=5, corrected=4)
    of_late = Recomputed(LATE, 3, 9, 9, appended=3, corrected=2)
    assert Repaired((), (of_lookup, of_late)).corrected_besides == 4
    assert table.corrected == 6
    assert repair_lines(table) == ["4 closed windows corrected for anything but late rows"]
