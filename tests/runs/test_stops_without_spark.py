"""What a run can only say starts no JVM to be said; what was killed is finished by its command."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.kit.running import Place, clicks
from tests.kit.windows import at, window
from tests.quality.held import Held
from tests.storage.leases import ELSEWHERE, HoldingProcess, leave, left_by_another
from tidemark.cli.main import app
from tidemark.errors import LeaseHeld
from tidemark.pipeline.names import TABLE_NAMES_IN_USE
from tidemark.runs.pipeline_lease import check_lease
from tidemark.runs.results.result import RunResult
from tidemark.storage.lease.lease import hold_lease, read_lease, this_process, utc_now
from tidemark.storage.result_file import read_result

ROW = {"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}


def tidemark(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)


def no_folder(place: Place) -> str:
    return f"SourceNotFound: The source's folder {place.root}/landing does not exist."


def no_topic(place: Place) -> str:
    kafka = {"connection": "broker", "topics": ["clicks"]}
    place.content = clicks(source={"kafka": kafka, **_COLUMNS})
    place.connections = {"broker": {"servers": "127.0.0.1:9"}}
    return "SourceUnavailable: "


def no_table(place: Place) -> str:
    place.content = clicks(source={"delta": {"table": "of_others"}, **_COLUMNS})
    return f"SourceNotFound: There is no Delta table {place.root}/of_others."


_COLUMNS = {
    "columns": {"at": "timestamp", "key": "string", "amount": "long"},
    "event_time": {"column": "at"},
}


@pytest.mark.slow
@pytest.mark.parametrize("gone", [no_folder, no_topic, no_table])
def test_a_source_that_is_not_there_is_told_without_a_jvm(tmp_path: Path, gone: object) -> None:
    place = Place(tmp_path)
    told = gone(place)  # type: ignore[operator]
    ended = tidemark(place, "run", "clicks", "--run-id", "one")
    assert ended.exit_code == 75
    assert f"\n{told}" in ended.stderr
    assert "Spark is started" not in ended.stderr
    error = read_result(RunResult, place.places.result("one"), {}).error
    assert error is not None
    assert error.retry_can_help


BACKFILL = ("backfill", "clicks", "--table=per_10m", "--from=2026-01-01", "--to=2026-01-02")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("run", "clicks"),
        BACKFILL,
        ("rewind", "clicks", "--apply"),
        ("maintain", "clicks", "--apply"),
    ],
    ids=lambda words: words[0],
)
def test_a_live_lease_is_told_without_a_jvm_once_a_second_is_over(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    place.land("1.json", [ROW])
    (tmp_path / "clicks" / "bronze").mkdir(parents=True)
    began = utc_now()
    with hold_lease(place.places.lease, this_process("other", "test"), {}):
        ended = tidemark(place, *command)
    assert ended.exit_code == 75, ended.stderr
    assert "LeaseHeld: The lease " in ended.stderr
    assert "Spark" not in ended.stderr
    assert (utc_now() - began).total_seconds() > 1


def test_a_lease_that_was_left_is_for_the_job_to_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.land("1.json", [ROW])
    leave(place.places.lease, left_by_another())
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    ended = tidemark(place, "run", "clicks")
    assert "Spark is started: LeaseLeft: " in ended.stderr


@pytest.mark.slow
def test_an_earlier_try_that_lives_is_for_the_job_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.land("1.json", [ROW])
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    with HoldingProcess(place.places.lease, "one", 60) as earlier:
        assert earlier.heard() == "held 1"
        ended = tidemark(place, "run", "clicks", "--run-id", "one")
        assert "Spark is started: LeaseLeft: " in ended.stderr
        assert earlier.ask("check") == "held"
        check_lease(place.pipeline, place.settings, "one", "stream")
        with pytest.raises(LeaseHeld):
            check_lease(place.pipeline, place.settings, "one", "backfill")


@pytest.mark.parametrize(
    "command",
    [
        ("run", "clicks"),
        BACKFILL,
        (*BACKFILL, "--dry-run"),
        ("rewind", "clicks", "--apply"),
        ("migrate", "clicks", "--rebuild=per_10m"),
        ("audit", "clicks"),
    ],
    ids=" ".join,
)
def test_a_root_that_cannot_be_written_is_told_without_a_jvm(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Neither a lease nor a result: no user may write below a file, root neither."""
    place = Place(tmp_path)
    place.land("1.json", [ROW])
    (tmp_path / "clicks" / "bronze").mkdir(parents=True)
    for file in ("lease", "results"):
        (tmp_path / "clicks" / file).write_text("a file")
    ended = tidemark(place, *command)
    assert ended.exit_code == 75, ended.stderr
    assert f"StorageUnavailable: {place.places.folder}/" in ended.stderr
    assert "Spark is started" not in ended.stderr
    assert "spark-submit" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("maintain", "clicks", "--apply"),
        ("checkpoint", "housekeep", "clicks", "--apply"),
    ],
    ids=" ".join,
)
def test_upkeep_that_was_killed_is_finished_by_the_same_command(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    held = Held(tmp_path, [])
    held.publish(held.run(window(at(10), key="a", total=1), close=at(10, 10)))
    place = held.place
    for number, changes in ((70, {}), (80, {"released": True, "fence_due": True})):
        leave(place.places.lease, left_by_another(number=number, **changes))
        ended = tidemark(place, *command)
        assert ended.exit_code == 0, ended.stderr
        record = read_lease(place.places.lease, {})
        assert record is not None
        assert (record.number, record.released, record.fence_due) == (number + 1, True, False)
    leave(place.places.lease, left_by_another(number=90, machine=ELSEWHERE, expires_at=utc_now()))
    assert tidemark(place, *command).exit_code == 75, "another host may live"


def test_no_table_is_named_like_a_folder_that_the_platform_makes(tmp_path: Path) -> None:
    places = Place(tmp_path).places
    own = [name for name in dir(type(places)) if isinstance(getattr(type(places), name), property)]
    below = (str(getattr(places, name)).removeprefix(f"{places.folder}/") for name in own)
    folders = {one.partition("/")[0] for one in below if not one.startswith("/")}
    # What is in `ops` has other names than what is in a table's folder.
    assert {one for one in folders if "." not in one} <= {*TABLE_NAMES_IN_USE, "ops"}
    assert "rewinds" in folders
