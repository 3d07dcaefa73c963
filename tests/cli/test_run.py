"""`tidemark run` and `tidemark publish`: real runs, and what is said of those that fail."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import Place, clicks, sorted_rows
from tests.kit.windows import at, window
from tests.quality.held import Held
from tidemark.cli.main import app
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import RunError, read_result, write_result

PROGRESS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ clicks: ")
FIRST = [
    {"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1},
    {"at": "2026-01-01T10:31:00Z", "key": "b", "amount": 2},
    "no JSON",
]


def variables(place: Place) -> dict[str, str]:
    place.write_file()
    return place.variables


def tidemark(place: Place, *arguments: str, more: Mapping[str, str] | None = None) -> Result:
    (place.root / "landing").mkdir(exist_ok=True)
    return CliRunner().invoke(app, arguments, env={**variables(place), **(more or {})})


def tidemark_process(
    place: Place, *arguments: str, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    code = "from tidemark.cli.main import app; app(prog_name='tidemark')"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | variables(place) | (more or {}), cwd=place.root,
        capture_output=True, text=True, check=False, timeout=HUNG_SECONDS,
    )  # fmt: skip


def words(line: str) -> list[str]:
    return line.split()


def row_of(output: str, name: str) -> list[str]:
    """The row of a printed table that begins with a name."""
    return next(words(line) for line in output.splitlines() if words(line)[:1] == [name])


@pytest.mark.process
def test_a_run_is_held_by_its_job_and_published_later(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", FIRST)
    ran = tidemark_process(
        place, "run", "pipelines/clicks.yaml", "--hold", "--result", "held.json",
        "--master", "local[1]", "--scheduled-time", "2026-07-01T14:00:00+02:00",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "clicks: ingest batch 0: 3 rows" in ran.stderr
    assert "ingest batch" not in ran.stdout
    _keeps_sparks_log_off_the_terminal(ran.stderr, place.root / "held.spark.log")
    assert ["rows", "read", "accepted", "malformed"] in map(words, ran.stdout.splitlines())
    assert row_of(ran.stdout, "3") == ["3", "2", "1"]
    result = read_result(RunResult, str(place.root / "held.json"), {})
    assert (result.outcome, result.held, result.tables["per_10m"].gold) == ("succeeded", True, None)
    assert list(result.seconds) == ["session", "ingest", "aggregate", "repair", "ledger"]
    assert result.scheduled_at == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert ": held, not published" in ran.stdout
    assert row_of(ran.stdout, "per_10m")[:5] == ["per_10m", "2", "held", "as", "before"]
    assert place.gold().num_rows == 0
    held = str(place.root / "held.json")
    typed = f"tidemark publish pipelines/clicks.yaml --result {shlex.quote(str(held))}\n"
    assert typed in ran.stdout

    _publishes_what_was_held(place, held)
    _tells_a_publish_that_fails(place, held)
    _starts_no_java_where_nothing_is_new(place)


def _keeps_sparks_log_off_the_terminal(said: str, log: Path) -> None:
    """But for what is an error; there is none."""
    assert f"Spark's own log: {log}\n" in said
    assert " WARN " not in said
    assert "Spark's default log4j profile" not in said
    assert " INFO SparkContext: Running Spark version 4.2" in log.read_text()
    assert " WARN " in log.read_text()


FOLD = """
from dataclasses import dataclass
@dataclass
class Seen:
    rows: int = 0
class Counted:
    def start(self) -> Seen:
        return Seen()
    def step(self, state, row):
        print("said by the fold")
        state.rows += 1
        yield {"rows_so_far": state.rows}
    def on_timeout(self, state):
        return []
"""


@pytest.mark.process
def test_a_run_with_a_fold_says_its_progress_on_stderr_and_nothing_else(tmp_path: Path) -> None:
    fold = {"python": "folds/counted.py:Counted", "timeout": "1 minute",
            "emits": {"rows_so_far": "long"}}  # fmt: skip
    counted = {"group_by": ["key"], "fold": fold}
    place = Place(tmp_path, clicks(tables={"counted": counted}))
    file = tmp_path / "pipelines" / "folds" / "counted.py"
    file.parent.mkdir(parents=True)
    file.write_text(FOLD)
    place.land("1.json", [*FIRST[:2], {"at": "2026-01-01T11:31:00Z", "key": "b\x1b[31m"}])
    ran = tidemark_process(place, "run", "clicks", "--run-id", "one", "--master", "local[1]")
    assert ran.returncode == 0, ran.stderr
    first, log, *progress = ran.stderr.splitlines()
    assert first.startswith("clicks: Spark is started: ")
    assert log == f"Spark's own log: {place.places.result('one').removesuffix('.json')}.spark.log"
    assert [line for line in progress if not PROGRESS.match(line)] == []
    assert "said by the fold" in Path(log.removeprefix("Spark's own log: ")).read_text()


def _starts_no_java_where_nothing_is_new(place: Place) -> None:
    nowhere = {"JAVA_HOME": "/no/java"}
    before = sorted_rows(place.gold())
    ran = tidemark_process(place, "run", "clicks", "--run-id", "idle", more=nowhere)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "clicks, run idle: succeeded and published" in ran.stdout
    assert "no Spark was started: all of the source was read before" in ran.stdout
    assert row_of(ran.stdout, "per_10m")[:4] == ["per_10m", "0", "0", "1"]
    result = read_result(RunResult, place.places.result("idle"), {})
    assert list(result.seconds) == ["preflight", "validate", "publish"]
    assert sorted_rows(place.gold()) == before


def _publishes_what_was_held(place: Place, held: str) -> None:
    published = tidemark(place, "publish", "clicks", "--result", held)
    assert (published.exit_code, published.stderr) == (0, "")
    shown = ["per_10m", "2", "2", "1", *["2026-01-01T10:21:00Z"] * 2]
    assert row_of(published.output, "per_10m") == shown
    rows = place.gold().select(["key", "events", "amount"]).to_pylist()
    assert {"key": "b", "events": 1, "amount": 2} in rows
    again = tidemark(place, "publish", "clicks", "--result", held)
    assert row_of(again.output, "per_10m")[:4] == ["per_10m", "2", "0", "1"]


def _tells_a_publish_that_fails(place: Place, held: str) -> None:
    """The result file says it too, and a later publish of the same file puts it right."""
    good = read_result(RunResult, held, {})
    table = good.tables["per_10m"]
    beyond = {"changes": 1_000, "close_before_ms": table.close_after_ms}
    ahead = good.model_copy(update={"tables": {"per_10m": table.model_copy(update=beyond)}})
    write_result(held, ahead, {})
    failed = tidemark(place, "publish", "clicks", "--result", held)
    assert failed.exit_code == 75
    assert failed.stderr.splitlines()[1].startswith("StorageUnavailable: ")
    assert failed.stderr.endswith("Running it again can help.\n")
    told = read_result(RunResult, held, {})
    assert told.outcome == "failed"
    assert told.error is not None
    assert told.error.type == "StorageUnavailable"
    write_result(held, told.model_copy(update={"tables": good.tables}), {})
    assert tidemark(place, "publish", "clicks", "--result", held).exit_code == 0
    told = read_result(RunResult, held, {})
    assert (told.outcome, told.error) == ("succeeded", None)


def test_a_pipeline_that_is_not_there_ends_the_job_with_1_and_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.streaming.jobs.stream import main

    for name, value in variables(Place(tmp_path)).items():
        monkeypatch.setenv(name, value)
    result = tmp_path / "result.json"
    assert main(["--pipeline", "nope", "--result", str(result)]) == 1
    error = read_result(RunResult, str(result), {}).error
    assert error is not None
    assert error.type == "PipelineNotFound"
    assert not error.retry_can_help


def test_publishing_what_never_ran_is_refused(tmp_path: Path) -> None:
    ended = tidemark(Place(tmp_path), "publish", "clicks", "--result", str(tmp_path / "none.json"))
    assert "There is no result file" in ended.stderr
    assert ended.exit_code == 1


def test_a_scheduled_time_without_a_zone_is_told_with_what_to_write(tmp_path: Path) -> None:
    ended = tidemark(Place(tmp_path), "run", "clicks", "--scheduled-time", "2026-07-01T12:00")
    assert "'2026-07-01T12:00' has no zone; write it as in" in " ".join(
        words(ended.stderr.replace("│", ""))
    )
    assert ended.exit_code == 2


def test_a_java_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    ended = tidemark(Place(tmp_path), "run", "clicks", more={"JAVA_HOME": "/no/java"})
    assert "JAVA_HOME is /no/java, where no bin/java is" in ended.stderr
    assert "make setup" in ended.stderr
    assert ended.exit_code == 1


def result_of(pipeline: str, error: RunError | None = None) -> RunResult:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    return RunResult(
        pipeline=pipeline, run_id="one", outcome="failed" if error else "succeeded", held=True,
        started_at=instant, ended_at=instant, error=error,
    )  # fmt: skip


def error_of(retry_can_help: bool) -> RunError:
    return RunError.model_validate(
        {"class": "TableMismatch", "message": "No.", "retry_can_help": retry_can_help}
    )


def test_a_result_of_another_pipeline_is_not_published(tmp_path: Path) -> None:
    file = str(tmp_path / "result.json")
    write_result(file, result_of("views"), {})
    ended = tidemark(Place(tmp_path), "publish", "clicks", "--result", file)
    assert "is the result of a run of `views`, not of `clicks`" in ended.stderr
    assert ended.exit_code == 1


def test_a_run_that_failed_before_it_pinned_its_tables_is_not_published(tmp_path: Path) -> None:
    file = str(tmp_path / "result.json")
    write_result(file, result_of("clicks", error_of(False)), {})
    ended = tidemark(Place(tmp_path), "publish", "clicks", "--result", file)
    assert ended.stderr == (
        "NotPublishable: The run one, which failed with TableMismatch, pinned no table, and the "
        "pipeline `clicks` has per_10m. Nothing was published. Run the pipeline again: that run "
        "publishes what this one left as well.\n"
    )
    assert ended.exit_code == 1


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a program that is found as pyspark's spark-submit; a test writes it."""
    package = tmp_path / "site" / "pyspark"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    (package / "bin" / "spark-submit").touch(mode=0o755)
    return package / "bin" / "spark-submit"


@pytest.mark.parametrize(
    ("end", "exit_code", "said"),
    [
        ("kill -9 $$", 75, "exit status -9"),
        ("exit 137", 75, "It was killed, or memory ran out: run it again."),
        ("exit 1", 1, "Spark 4.2 runs on Java 17, 21 and 25."),
        ("exit 75", 75, "What kept the result from being written stands there: mend that"),
    ],
)
def test_a_job_that_ends_without_a_result_is_told_and_an_older_result_is_not_taken_for_it(
    tmp_path: Path, spark_submit: Path, end: str, exit_code: int, said: str
) -> None:
    place = Place(tmp_path)
    write_result(place.places.result("one"), result_of("clicks"), {})
    spark_submit.write_text(f"#!/bin/sh\n{end}\n")
    ended = tidemark(place, "run", "clicks", "--run-id", "one")
    assert ended.exit_code == exit_code
    assert ended.stdout == ""
    assert said in ended.stderr
    assert f"the job wrote no result to {place.places.result('one')}." in ended.stderr


def test_what_the_engine_has_on_stderr_is_logged_and_shown_where_no_result_comes(
    tmp_path: Path, spark_submit: Path
) -> None:
    place, held = Place(tmp_path), str(tmp_path / "held.json")
    write_result(held, result_of("clicks", error_of(False)), {})
    spark_submit.write_text(f"#!/bin/sh\necho a warning >&2; cp '{held}' '{tmp_path}/1.json'\n")
    told = tidemark(place, "run", "clicks", "--result", f"{tmp_path}/1.json")
    assert "a warning" not in told.stderr
    assert (tmp_path / "1.spark.log").read_text() == "a warning\n"
    spark_submit.write_text("#!/bin/sh\nprintf 'no \\033[31mmemory' >&2; exit 1\n")
    told = tidemark(place, "run", "clicks", "--result", f"{tmp_path}/2.json")
    assert "\nno \\u001b[31mmemory\nspark-submit ended with exit status 1" in told.stderr


def test_the_job_is_told_to_log_beside_its_result(tmp_path: Path, spark_submit: Path) -> None:
    place = Place(tmp_path)
    asked = tmp_path / "asked"
    spark_submit.write_text(f"#!/bin/sh\necho \"$SPARK_SUBMIT_OPTS\" > '{asked}'; exit 1\n")
    ended = tidemark(
        place, "run", "clicks", "--run-id", "one", more={"SPARK_SUBMIT_OPTS": "-Xmx1g"}
    )
    log = place.places.result("one").removesuffix(".json") + ".spark.log"
    assert f"Spark's own log: {log}\n" in ended.stderr
    assert asked.read_text().startswith('-Xmx1g "-Dlog4j2.configurationFile=file:/')
    assert asked.read_text().endswith(f' "-Dtidemark.spark.log={log}"\n')


def test_whoever_configured_log4j_keeps_that(tmp_path: Path, spark_submit: Path) -> None:
    asked, own = tmp_path / "asked", "-Dlog4j2.configurationFile=/etc/mine.xml"
    spark_submit.write_text(f"#!/bin/sh\necho \"$SPARK_SUBMIT_OPTS\" > '{asked}'; exit 1\n")
    ended = tidemark(Place(tmp_path), "run", "clicks", more={"SPARK_SUBMIT_OPTS": own})
    assert "Spark's own log" not in ended.stderr
    assert asked.read_text() == f"{own}\n"


def test_what_the_job_held_is_validated_and_published_by_the_command(
    tmp_path: Path, spark_submit: Path
) -> None:
    held, target = Held(tmp_path, [{"fail": "total > 0"}]), str(tmp_path / "result.json")
    held.run(window(at(10), key="a", total=1), close=at(10, 10))
    asked = tmp_path / "asked"
    spark_submit.write_text(f"#!/bin/sh\necho \"$@\" > '{asked}'; cp '{held.uri()}' '{target}'\n")
    ended = tidemark(held.place, "run", "clicks", "--run-id", "run", "--result", target)
    assert ended.exit_code == 0, ended.stderr
    assert "clicks, run run: succeeded and published" in ended.stdout
    assert "--hold" in words(asked.read_text())
    result = read_result(RunResult, target, {})
    assert (result.outcome, result.held, result.tables["per_10m"].gold) == ("succeeded", False, 1)
    assert list(result.seconds) == ["validate", "publish"]


@pytest.mark.parametrize(
    ("retry_can_help", "exit_code", "advice"),
    [
        (True, 75, "Running it again can help."),
        (False, 1, "Running it again will not help before this is mended."),
    ],
)
def test_a_job_that_failed_is_told_by_its_result_and_nothing_is_published(
    tmp_path: Path, spark_submit: Path, retry_can_help: bool, exit_code: int, advice: str
) -> None:
    place, prepared = Place(tmp_path), str(tmp_path / "prepared.json")
    write_result(prepared, result_of("clicks", error_of(retry_can_help)), {})
    target = str(tmp_path / "result.json")
    spark_submit.write_text(f"#!/bin/sh\ncp '{prepared}' '{target}'; exit {exit_code}\n")
    ended = tidemark(place, "run", "clicks", "--result", target)
    assert "clicks, run one: failed" in ended.stdout
    assert ended.stderr.endswith(f"TableMismatch: No.\n{advice}\n")
    assert ended.exit_code == exit_code
    assert "publish" not in read_result(RunResult, target, {}).seconds
