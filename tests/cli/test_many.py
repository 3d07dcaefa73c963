"""`tidemark run` of several pipelines, without Spark: which, in which groups, and what is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.kit.running import Place, clicks
from tests.runs.pipelines import ended
from tidemark.cli import many as command
from tidemark.cli.job import JobEnd
from tidemark.cli.main import app
from tidemark.cli.many import Ended, ended_table, exit_code_of
from tidemark.errors import InputLost, PipelineInvalid, RunFailed, StorageUnavailable
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.jvm import LARGE_BYTES
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs import together
from tidemark.runs.requests import ManyRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.together import groups_of
from tidemark.storage.delta.rows import Rows
from tidemark.storage.result_file import RunError, write_result

NO_JAVA = {"JAVA_HOME": "/no/java"}
RunJob = Callable[[ManyRequest], int]


def place(root: Path, name: str, **changes: Any) -> Place:
    """A pipeline among others below a root, whose source has a row."""
    source = clicks()["source"] | {"files": f"landing/{name}/*.json"}
    made = Place(root, clicks(source=source, **changes), name)
    made.write_file()
    row = {"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}
    made.land("1.json", [row], f"landing/{name}")
    return made


def tidemark(root: Path, *arguments: str) -> Result:
    """The command; without Java, unless the job is another one."""
    variables = Place(root).variables | NO_JAVA
    return CliRunner().invoke(app, ["run", *arguments], env=variables)


def words(result: Result) -> str:
    return " ".join(result.output.replace("│", "").split())


def outcomes(output: str) -> dict[str, str]:
    """By pipeline, what the table says of it first."""
    lines = output.split("─\n")[-1].split("result files: ")[0].splitlines()
    cells = [re.split(r"\s{2,}", line) for line in lines]
    return {name: outcome for name, outcome, *_ in cells}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunJob], list[ManyRequest]]:
    """Replaces the job; the requests of those that are started."""

    def replaced(run: RunJob) -> list[ManyRequest]:
        asked: list[ManyRequest] = []

        def ended(request: ManyRequest, *_: object) -> JobEnd:
            asked.append(request)
            return JobEnd(run(request), "a java", None)

        monkeypatch.setattr(command, "job_ended", ended)
        return asked

    return replaced


def write(
    root: Path, name: str, run_id: str, error: Exception | None = None, **changes: Any
) -> None:
    """The result of a run, as its job writes it."""
    now = datetime(2026, 7, 1, tzinfo=UTC)
    told: dict[str, Any] = {
        "pipeline": name,
        "run_id": run_id,
        "outcome": "failed" if error else "succeeded",
        "held": False,
        "started_at": now,
        "ended_at": now,
        "rows": Rows(read=12_345, accepted=12_340, rejected={"malformed": 5}),
        "seconds": {"ingest": 1.25, "publish": 0.5},
        "error": RunError.of(error) if error else None,
    }
    write_result(Place(root, name=name).places.result(run_id), RunResult(**told | changes), {})


def test_an_error_of_one_is_told_and_the_others_have_run(
    tmp_path: Path, job: Callable[[RunJob], list[ManyRequest]]
) -> None:
    for name in ("a", "b", "c"):
        place(tmp_path, name)

    def run(request: ManyRequest) -> int:
        write(tmp_path, "a", "x")
        write(tmp_path, "b", "x", StorageUnavailable("The disk is full."))
        write(tmp_path, "c", "x", held=True)
        return 75

    asked = job(run)
    ran = tidemark(tmp_path, "a", "b", "c", "--run-id", "x", "--scheduled-time", "2026-07-01")
    assert ran.exit_code == 75
    assert asked == [
        ManyRequest(
            pipelines=("a", "b", "c"),
            run_id="x",
            scheduled_time=datetime(2026, 7, 1, tzinfo=UTC),
            by=asked[0].by,
        )
    ]
    assert outcomes(ran.stdout) == {"a": "published", "b": "failed", "c": "held"}
    assert ran.stderr.endswith(
        "\nb: StorageUnavailable: The disk is full.\nRunning it again can help.\n"
    )
    assert f"result files: {tmp_path}/PIPELINE/results/x.json" in ran.stdout


def test_what_a_killed_job_left_is_told_as_not_run_and_can_be_run_again(
    tmp_path: Path, job: Callable[[RunJob], list[ManyRequest]]
) -> None:
    for name in ("a", "b", "c"):
        place(tmp_path, name)
    # Of a run before, with the same id.
    write(tmp_path, "c", "x")

    def run(request: ManyRequest) -> int:
        write(tmp_path, "a", "x")
        return -9

    job(run)
    ran = tidemark(tmp_path, "a", "b", "c", "--run-id", "x")
    assert ran.exit_code == 75
    assert outcomes(ran.stdout) == {"a": "published", "b": "not run", "c": "not run"}
    assert "exit status -9, and wrote no result of b, c. What was committed stays" in ran.stderr


def test_what_must_be_mended_goes_before_what_may_pass() -> None:
    lost, full = (RunError.of(one) for one in (InputLost("lost"), StorageUnavailable("full")))
    assert exit_code_of([Ended("a")]) == 0
    assert exit_code_of([Ended("a"), Ended("b", error=full), Ended("c", code=75)]) == 75
    assert exit_code_of([Ended("a", error=full), Ended("b", error=lost)]) == 1


def test_an_invalid_file_is_told_and_keeps_no_other_from_running(
    tmp_path: Path, job: Callable[[RunJob], list[ManyRequest]]
) -> None:
    place(tmp_path, "a")
    (tmp_path / "pipelines" / "bad.yaml").write_text("source: {}\n")
    job(lambda _: write(tmp_path, "a", "x") or 0)
    ran = tidemark(tmp_path, "--all", "--run-id", "x")
    assert ran.exit_code == 1
    assert outcomes(ran.stdout) == {"a": "published", "bad": "invalid"}
    assert "\nbad: PipelineFileInvalid: " in ran.stderr


def test_all_in_need_of_spark_are_told_that_there_is_no_java(tmp_path: Path) -> None:
    for name in ("a", "b"):
        place(tmp_path, name)
    ran = tidemark(tmp_path, "--all")
    assert ran.exit_code == 1
    assert outcomes(ran.stdout) == {"a": "not run", "b": "not run"}
    assert ran.stderr.count("EngineMissing: Spark needs Java") == 2


def test_only_what_is_due_is_run(
    tmp_path: Path, job: Callable[[RunJob], list[ManyRequest]]
) -> None:
    hourly = place(tmp_path, "hourly", schedule="@hourly")
    place(tmp_path, "new", schedule="@hourly")
    place(tmp_path, "never")
    ended(hourly, began=datetime(2026, 7, 1, 10, 5, tzinfo=UTC))

    def run(request: ManyRequest) -> int:
        for name in _names(request):
            write(tmp_path, name, request.run_id or "")
        return 0

    asked = job(run)
    at = ("--due", "--scheduled-time")
    assert tidemark(tmp_path, *at, "2026-07-01T10:59:00Z").exit_code == 0
    assert tidemark(tmp_path, *at, "2026-07-01T11:00:00Z").exit_code == 0
    assert [_names(one) for one in asked] == [["new"], ["hourly", "new"]]
    for name in ("hourly", "new"):
        ended(Place(tmp_path, name=name), "x", began=datetime(2026, 7, 1, 11, tzinfo=UTC))
    ran = tidemark(tmp_path, *at, "2026-07-01T11:30:00Z")
    assert (ran.exit_code, ran.output) == (0, "None of 3 pipelines is due.\n")


def _names(request: ManyRequest) -> list[str]:
    return [Path(one).stem for one in request.pipelines]


def test_another_folder_can_be_named(
    tmp_path: Path, job: Callable[[RunJob], list[ManyRequest]]
) -> None:
    place(tmp_path, "a")
    (tmp_path / "pipelines").rename(tmp_path / "others")
    asked = job(lambda _: write(tmp_path, "a", "x") or 0)
    ran = tidemark(tmp_path, "--folder", str(tmp_path / "others"), "--run-id", "x")
    assert ran.exit_code == 0
    assert asked[0].pipelines == (str(tmp_path / "others" / "a.yaml"),)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the pipelines, or say --all, --due or --folder"),
        (["a", "--all"], "name the pipelines, or say --all, --due or --folder"),
        (["a", "b", "--result", "x"], "of several pipelines each has its own"),
        (["--all", "--result", "x"], "of several pipelines each has its own"),
        (["a", "a"], "a and a have the same name, and so the same tables"),
        (["--folder", "nowhere"], "the folder nowhere holds no pipeline file"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    for name in ("a", "b"):
        place(tmp_path, name)
    ran = tidemark(tmp_path, *arguments)
    assert ran.exit_code == 2
    assert said in words(ran)


def test_a_line_of_each_has_room_in_80_columns(tmp_path: Path) -> None:
    write(tmp_path, "a", "x")
    table = ended_table([Ended("a" * 32), Ended("b", error=RunError.of(RunFailed("x")))])
    assert sum(len(one.header[0]) for one in table.columns) < 80
    assert [one.name for one in table.columns] == [
        "pipeline", "outcome", "rows read", "rejected", "windows published", "seconds",
    ]  # fmt: skip


def named(name: str, **advanced: Any) -> Pipeline:
    return pipeline_from_mapping(name, clicks(advanced=advanced))


def groups(pipelines: list[Pipeline], spark: Mapping[str, str] | None = None) -> list[list[str]]:
    settings = Settings(root="/unused", spark=dict(spark or {}))
    return [[one.name for one in group.pipelines] for group in groups_of(pipelines, settings)]


def test_one_start_of_spark_serves_all_whose_settings_a_session_has() -> None:
    pipelines = [
        named("a"),
        named("b", shuffle_partitions=7, state={"store": "rocksdb"}, keep_batches=20),
        named("c", spark={"spark.sql.adaptive.enabled": "true"}),
    ]
    assert groups(pipelines) == [["a", "b", "c"]]


def test_other_settings_of_the_process_are_another_start() -> None:
    pipelines = [
        named("a", spark={"spark.executor.memory": "2g"}),
        named("b"),
        named("c", spark={"spark.executor.memory": "2g"}),
        named("d", spark={"spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true"}),
    ]
    assert groups(pipelines) == [["a", "c"], ["b"], ["d"]]
    # It says what it has anyway.
    assert groups(pipelines[:3], {"spark.executor.memory": "2g"}) == [["a", "b", "c"]]


def test_large_input_is_another_start(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"a": 1, "b": LARGE_BYTES, "c": 2}
    monkeypatch.setattr(together, "new_input_bytes", lambda pipeline, _: sizes[pipeline.name])
    found = groups_of([named(name) for name in sizes], Settings(root="/unused"))
    assert [([one.name for one in group.pipelines], group.input_bytes) for group in found] == [
        (["a", "c"], 2),
        (["b"], LARGE_BYTES),
    ]


def test_an_error_in_a_group_that_is_not_started_is_no_other_group_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(tmp_path, "a")
    place(tmp_path, "b", advanced={"spark": {"spark.executor.memory": "2g"}})

    def ended(request: ManyRequest, *_: object) -> JobEnd:
        if "a" in request.pipelines:
            raise PipelineInvalid("so")
        write(tmp_path, "b", "x")
        return JobEnd(0, "", None)

    monkeypatch.setattr(command, "job_ended", ended)
    ran = tidemark(tmp_path, "a", "b", "--run-id", "x")
    assert outcomes(ran.stdout) == {"a": "not run", "b": "published"}
    assert ran.exit_code == 1


def test_of_held_runs_it_says_how_to_publish_each(
    tmp_path: Path, job: Callable[[RunJob], list[ManyRequest]]
) -> None:
    for name in ("a", "b"):
        place(tmp_path, name)

    def run(request: ManyRequest) -> int:
        for name in _names(request):
            write(tmp_path, name, request.run_id or "", held=True)
        return 0

    asked = job(run)
    ran = tidemark(tmp_path, "a", "b", "--run-id", "x", "--hold")
    assert asked[0].hold
    for name in ("a", "b"):
        uri = Place(tmp_path, name=name).places.result("x")
        assert f"  tidemark publish {name} --result {uri}\n" in ran.stdout
    # By its file, where the settings' folder need not have it.
    (tmp_path / "pipelines").rename(tmp_path / "others")
    ran = tidemark(tmp_path, "--folder", str(tmp_path / "others"), "--run-id", "y", "--hold")
    assert f"  tidemark publish {tmp_path}/others/a.yaml --result " in ran.stdout


def test_a_request_is_read_again_from_its_arguments() -> None:
    asked = ManyRequest(pipelines=("a", "b.yaml"), run_id="x", hold=True, by="Ada")
    assert ManyRequest.read(asked.arguments()) == asked
    one = asked.of_one("a", "x", "/r/a.json")
    assert (one.pipeline, one.run_id, one.hold, one.by) == ("a", "x", True, "Ada")
