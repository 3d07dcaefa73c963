"""`tidemark publish`: a held run by hand, where its checks allow it or somebody says why."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.kit.windows import at, window
from tests.quality.held import Held, bad_and_good
from tests.runs.pipelines import begun
from tidemark.cli.main import app
from tidemark.errors import LeaseHeld, LedgerUnbalanced, StorageUnavailable
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import RunError, read_result


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path, [{"fail": "total > 0"}, {"warn": "rows > 1"}])


def tidemark(held: Held, *arguments: str) -> Result:
    held.place.write_file()
    return CliRunner().invoke(app, arguments, env=held.place.variables)


def test_the_newest_held_run_is_validated_and_published(held: Held) -> None:
    held.run(window(at(10), key="a", total=1), run_id="one", began=at(11))
    held.run(window(at(10), key="b", total=2), run_id="two", began=at(12))
    ran = tidemark(held, "publish", "clicks")
    assert ran.exit_code == 0, ran.output
    assert "clicks, run two: succeeded and published" in ran.stdout
    assert "warning: per_10m: rows > 1: 2 of 2 rows break it" in ran.stderr
    assert len(held.windows.gold("key")) == 2
    again = tidemark(held, "publish", "clicks")
    assert again.exit_code == 1
    assert "Nothing is held: two, the newest run of `clicks`, is published." in again.stderr


def test_a_run_by_a_clock_that_was_ahead_does_not_hide_one_that_is_held(held: Held) -> None:
    ahead = datetime.now(UTC) + timedelta(days=2)
    held.publish(held.run(window(at(10), key="a", total=1), run_id="ahead", began=ahead))
    begun(held.place)
    held.run(window(at(10), key="b", total=2), run_id="now", began=at(12))
    ran = tidemark(held, "publish", "clicks")
    assert "clicks, run now: succeeded and published" in ran.stdout, ran.stderr
    again = tidemark(held, "publish", "clicks")
    assert "Nothing is held" in again.stderr


def test_a_run_by_a_clock_that_was_ahead_is_published_where_it_is_held(held: Held) -> None:
    held.publish(held.run(window(at(10), key="b", total=2), run_id="now", began=at(12)))
    begun(held.place)
    ahead = datetime.now(UTC) + timedelta(days=2)
    held.run(window(at(10), key="a", total=1), run_id="ahead", began=ahead)
    ran = tidemark(held, "publish", "clicks")
    assert "clicks, run ahead: succeeded and published" in ran.stdout, ran.stderr


def test_sparks_logs_beside_the_results_do_not_hide_a_held_run(held: Held) -> None:
    held.run(window(at(10), key="a", total=1), run_id="one", began=at(11))
    for number in range(40):
        log = Path(held.place.places.result(f"other-{number}")).with_suffix(".spark.log")
        log.write_text("WARN")
    ran = tidemark(held, "publish", "clicks")
    assert "clicks, run one: succeeded and published" in ran.stdout, ran.stderr


def test_any_number_of_runs_that_came_to_nothing_hides_no_held_run(held: Held) -> None:
    held.run(window(at(10), key="a", total=1), run_id="one", began=at(11))
    failed = {"outcome": "failed", "error": RunError.of(LeaseHeld("busy")), "tables": {}}
    for number in range(40):
        held.run(run_id=f"later-{number}", began=at(12, number), told=failed)
    ran = tidemark(held, "publish", "clicks")
    assert "clicks, run one: succeeded and published" in ran.stdout, ran.stderr


def test_a_failed_check_stops_it_and_accept_publishes_it_with_the_reason(held: Held) -> None:
    held.run(*bad_and_good(), run_id="run")
    before = held.files_of_gold()
    stopped = tidemark(held, "publish", "clicks")
    assert stopped.exit_code == 1
    assert "ChecksFailed: Run run of `clicks` is not published." in stopped.stderr
    assert held.files_of_gold() == before
    accepted = tidemark(held, "publish", "clicks", "--accept", "--reason", "a refund, known")
    assert accepted.exit_code == 0, accepted.output
    assert "overridden: per_10m: total > 0: 1 of 3 rows break it" in accepted.stdout
    assert len(held.windows.gold("key")) == 3
    (row,) = [row for row in held.verdicts() if row["accepted"]]
    assert (row["check"], row["accepted"]) == ("total > 0", "a refund, known")
    assert row["accepted_by"] == f"{getpass.getuser()}@{socket.gethostname()}"


def test_a_run_that_failed_on_its_account_is_not_published(held: Held) -> None:
    told = {
        "outcome": "failed",
        "error": RunError.of(LedgerUnbalanced("no")),
        "seconds": {"ledger": 0.1},
    }
    held.run(window(at(10), key="a", total=1), told=told)
    before = held.files_of_gold()
    for _ in range(2):
        ran = tidemark(held, "publish", "clicks")
        assert ran.exit_code == 1
        assert "NotPublishable: The run run failed with LedgerUnbalanced before its" in ran.stderr
    assert held.files_of_gold() == before
    assert not Path(held.place.places.quality).exists()
    result = read_result(RunResult, held.uri(), {})
    assert result.error == told["error"]


@pytest.mark.parametrize("step", ["validate", "publish"])
def test_a_run_that_failed_behind_its_account_is_published(held: Held, step: str) -> None:
    seconds = {"ledger": 0.1, step: 0.1}
    told = {"outcome": "failed", "error": RunError.of(StorageUnavailable("no")), "seconds": seconds}
    held.run(window(at(10), key="a", total=1), told=told)
    ran = tidemark(held, "publish", "clicks")
    assert ran.exit_code == 0, ran.output
    assert len(held.windows.gold("key")) == 1


def test_who_accepts_can_be_told(held: Held) -> None:
    held.run(*bad_and_good(), run_id="run")
    assert tidemark(held, "publish", "clicks").exit_code == 1
    given = ["--accept", "--reason", "known", "--by", "Ada of ads-data"]
    assert tidemark(held, "publish", "clicks", *given).exit_code == 0
    (row,) = [row for row in held.verdicts() if row["accepted"]]
    assert row["accepted_by"] == "Ada of ads-data"


@pytest.mark.parametrize(
    "given",
    [["--accept"], ["--reason", "why"], ["--accept", "--reason", " "], ["--by", "Ada"]],
    ids=str,
)
def test_accept_and_reason_go_together(held: Held, given: list[str]) -> None:
    held.run(*bad_and_good())
    ran = tidemark(held, "publish", "clicks", *given)
    assert ran.exit_code == 2
    assert "--accept" in ran.output
    assert held.windows.gold("key") == []


def test_without_a_run_there_is_nothing_to_publish(held: Held) -> None:
    ran = tidemark(held, "publish", "clicks")
    assert ran.exit_code == 1
    assert "No run of `clicks` has left a result" in ran.stderr
