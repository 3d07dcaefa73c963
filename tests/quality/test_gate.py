"""The gate: a failed check leaves gold as it is, and the next good run publishes what was held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.windows import at, window
from tests.quality.held import NOW, TABLE, Held, bad_and_good, verdict_of
from tidemark.errors import NotPublishable
from tidemark.quality.gate import accept
from tidemark.runs.acceptance import CheckOverride
from tidemark.runs.contract.contract import contract_of, write_contract
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.storage.result_file import read_result

KNOWN = CheckOverride("known", "ada")

POSITIVE = {"fail": "total > 0"}


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path, [POSITIVE])


def test_a_failed_check_keeps_golds_files_as_they_are_byte_for_byte(held: Held) -> None:
    good = held.run(window(at(9), key="a", total=1), run_id="good")
    held.publish(held.gated(good).run)
    before = held.files_of_gold()
    assert len(before) > 2
    gated = held.gated(held.run(*bad_and_good(), run_id="bad"))
    assert gated.run.error is not None
    assert (gated.run.error.type, gated.run.error.retry_can_help) == ("ChecksFailed", False)
    assert held.files_of_gold() == before


def test_the_error_tells_table_check_count_example_and_what_to_do(held: Held) -> None:
    error = held.gated(held.run(*bad_and_good())).run.error
    assert error is not None
    assert error.message.splitlines() == [
        "Run run of `clicks` is not published. Failed: per_10m: total > 0.",
        "per_10m: total > 0: 1 of 3 rows break it",
        "  window_start=2026-07-01T10:00:00+00:00, window_end=2026-07-01T10:10:00+00:00, key=b, "
        "total=-3, rows=1, status=provisional, revision=0, updated_by=run, "
        "window_date=2026-07-01",
        "Gold is as it was, and what the run computed is kept. Mend the data or the check and run "
        "the pipeline again: that run publishes this one's windows with its own. Or publish it as "
        'it is: `tidemark publish clicks --accept --reason "…"`.',
    ]


def test_the_result_file_and_ops_runs_say_that_the_run_failed_and_is_held(held: Held) -> None:
    held.gated(held.run(*bad_and_good()))
    result = read_result(RunResult, held.uri(), {})
    assert (result.outcome, result.held) == ("failed", True)
    (row,) = held.place.table(held.place.places.runs).to_pylist()
    assert (row["outcome"], row["error_class"]) == ("failed", "ChecksFailed")


def test_the_status_says_which_check_failed_and_what_to_do(held: Held) -> None:
    held.gated(held.run(*bad_and_good()))
    told = pipeline_status(held.place.pipeline, held.settings, at(13))
    assert told.state is PipelineState.STOPPED
    assert told.next_step == (
        "Mend this, then `tidemark run clicks`: ChecksFailed: Run run of `clicks` is not "
        "published. Failed: per_10m: total > 0.…"
    )


def test_the_next_good_run_publishes_what_was_held_with_its_own(held: Held) -> None:
    held.gated(held.run(*bad_and_good(), run_id="bad"))
    mended = held.run(
        window(at(10), key="b", total=3), window(at(11), key="c", total=1), run_id="mended"
    )
    gated = held.gated(mended)
    assert gated.run.error is None
    assert verdict_of(gated, "total").rows == 4, "the held windows are looked at as well"
    held.publish(gated.run)
    assert held.windows.gold("key", "total") == [("a", 5), ("b", 3), (None, None), ("c", 1)]


def test_a_held_window_that_is_still_bad_keeps_the_next_run_back(held: Held) -> None:
    held.gated(held.run(*bad_and_good(), run_id="bad"))
    gated = held.gated(held.run(window(at(11), key="c", total=1), run_id="next"))
    assert gated.run.error is not None
    assert verdict_of(gated, "total").unexpected == 1


def test_a_mended_check_lets_the_same_run_through(held: Held) -> None:
    run = held.run(*bad_and_good())
    failed = held.gated(run)
    held.check({"fail": "total > -10"})
    gated = held.gated(failed.run)
    assert gated.run.error is None
    assert held.publish(gated.run).error is None
    runs = held.place.table(held.place.places.runs)
    assert runs["outcome"].to_pylist() == ["succeeded"]


@pytest.mark.parametrize("other", [{"group_by": []}, {"measures": {"n": "count(*)"}}], ids=str)
def test_another_key_or_measure_of_the_file_leaves_a_held_run_as_it_was(
    held: Held, other: dict[str, Any]
) -> None:
    place = held.place
    for query in ("ingest", "per_10m"):
        contract = contract_of(place.pipeline, query, place.settings)
        write_contract(place.places.contract(query, 1), contract, {})
    failed = held.gated(held.run(*bad_and_good())).run
    table = TABLE | other | {"checks": [{"fail": "rows > 0"}]}
    place.content = {**place.content, "tables": {"per_10m": table}}
    gated = held.gated(failed)
    assert (gated.run.error, verdict_of(gated, "rows > 0").passed) == (None, True)
    assert held.publish(gated.run).error is None
    assert held.windows.gold("key", "total") == [("a", 5), ("b", -3), (None, None)]


def test_a_warning_passes_and_is_told(held: Held) -> None:
    held.check({"warn": "total > 0"})
    gated = held.gated(held.run(*bad_and_good()))
    assert gated.run.error is None
    assert not verdict_of(gated, "total").passed


def test_a_validation_that_is_repeated_writes_no_verdict_twice(held: Held) -> None:
    run = held.run(*bad_and_good())
    held.gated(run)
    once = held.verdicts()
    held.gated(run, at(14))
    assert held.verdicts() == once
    assert len(once) == 5
    held.check({"fail": "total > -10"})
    held.gated(run, at(15))
    assert len(held.verdicts()) == 10


def test_a_check_that_fails_again_once_it_was_mended_is_what_the_run_is_accepted_with(
    held: Held,
) -> None:
    run = held.run(*bad_and_good())
    for minute, least in enumerate((0, -10, 0)):
        held.check({"fail": f"total > {least}"})
        run = held.gated(run, at(14, minute)).run
    assert run.error is not None
    rows = held.verdicts()
    assert len(rows) == 15
    newest = [row for row in rows if row["time"] == at(14, 2)]
    assert [row["check"] for row in newest if not row["passed"]] == ["total > 0"]
    (overridden,) = accept(held.place.pipeline, run, held.settings, KNOWN, at(14, 3))
    assert overridden.check == "total > 0"
    held.gated(run, at(14, 4))
    assert len(held.verdicts()) == 16, "the newest validation said the same"
    accept(held.place.pipeline, run, held.settings, KNOWN, at(14, 5))
    assert len(held.verdicts()) == 16, "of the newest override as well"
    for minute, least in ((6, -10), (7, 0)):
        held.check({"fail": f"total > {least}"})
        held.gated(run, at(14, minute))
    accept(held.place.pipeline, run, held.settings, KNOWN, at(14, 8))
    accepted = sorted(row["time"] for row in held.verdicts() if row["accepted"])
    assert accepted == [at(14, 3), at(14, 8)], "what was found since, somebody overrode anew"


def test_a_verdict_has_its_evidence_in_ops_quality(held: Held) -> None:
    held.gated(held.run(*bad_and_good()))
    (row,) = [row for row in held.verdicts() if row["check"] == "total > 0"]
    examples = json.loads(row.pop("examples"))
    assert [(one["key"], one["total"]) for one in examples] == [("b", -3)]
    del row["validation"]
    assert row == {
        "pipeline": "clicks",
        "run": "run",
        "started_at": at(12),
        "time": NOW,
        "table": "per_10m",
        "check": "total > 0",
        "severity": "fail",
        "passed": False,
        "observed": "1 of 3 rows break it",
        "rows": 3,
        "unexpected": 1,
        "data_docs": None,
        "accepted": None,
        "accepted_by": None,
        "versions": None,
    }


def test_an_accepted_run_is_published_and_it_is_recorded_once_why_and_by_whom(held: Held) -> None:
    failed = held.gated(held.run(*bad_and_good())).run
    for _ in range(2):
        (overridden,) = accept(held.place.pipeline, failed, held.settings, KNOWN, at(14))
    assert overridden.check == "total > 0"
    published = held.publish(failed)
    assert (published.error, published.held) == (None, False)
    assert len(held.windows.gold("key")) == 3
    accepted = [row for row in held.verdicts() if row["accepted"]]
    told = [(row["check"], row["accepted"], row["accepted_by"], row["time"]) for row in accepted]
    assert told == [("total > 0", "known", "ada", at(14))]


def test_nothing_is_accepted_where_no_check_failed(held: Held) -> None:
    run = held.run(window(at(10), key="a", total=1))
    with pytest.raises(NotPublishable, match="No check of run run has failed"):
        accept(held.place.pipeline, run, held.settings, KNOWN, NOW)
    held.gated(run)
    with pytest.raises(NotPublishable, match="No check of run run has failed"):
        accept(held.place.pipeline, run, held.settings, KNOWN, NOW)


def test_a_run_with_nothing_to_publish_is_not_judged_and_writes_no_verdict(held: Held) -> None:
    published = held.publish(held.run(window(at(9), key="a", total=-1), run_id="first"))
    assert published.error is None
    gated = held.gated(held.run(run_id="empty"))
    assert gated.validation.verdicts == ()
    assert not Path(held.place.places.quality).exists()
