"""`tidemark run` and `tidemark publish`, with a real job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs import REPOSITORY, Place, start_job
from tidemark.cli.run import refuse_local_root
from tidemark.cli.submit import variables_of
from tidemark.errors import SettingsInvalid
from tidemark.tables.result import read_result

ROWS = [
    {"at": "2026-03-01T10:00:00Z", "key": "a", "amount": 1},
    {"at": "2026-03-01T10:01:00Z", "key": "a", "amount": 2},
    "not json",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("cli"))
    place.land("1.json", ROWS)
    place.write_file()
    return place


def tidemark(place: Place, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "TIDEMARK_ROOT": str(place.root),
        "TIDEMARK_PIPELINES": str(place.root / "pipelines"),
        "COLUMNS": "100",
    }
    return subprocess.run(
        [sys.executable, "-m", "tidemark.cli.main", *arguments],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )


@pytest.mark.process
def test_a_held_run_is_published_by_the_command_that_it_prints(place: Place) -> None:
    held = tidemark(place, "run", "clicks", "--run-id", "one", "--hold", "--master", "local[1]")
    assert held.returncode == 0, held.stderr
    assert "held, not published" in held.stdout
    assert place.gold().num_rows == 0
    command = held.stdout.split("To publish it:\n")[1].split()
    assert command[:2] == ["tidemark", "publish"]

    published = tidemark(place, *command[1:])
    assert published.returncode == 0, published.stderr
    assert "succeeded and published" in published.stdout
    assert [row["amount"] for row in place.gold().to_pylist()] == [3]
    version = read_result(command[-1], {}).tables["per_10m"].gold

    again = tidemark(place, *command[1:])
    assert again.returncode == 0, again.stderr
    assert read_result(command[-1], {}).tables["per_10m"].gold == version


@pytest.mark.process
def test_a_run_without_its_source_ends_with_75_and_says_which_folder(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    done = tidemark(place, "run", "clicks", "--master", "local[1]")
    assert done.returncode == 75
    assert f"{tmp_path}/landing does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_publishing_what_never_ran_is_refused(place: Place) -> None:
    done = tidemark(place, "publish", "clicks", "--result", str(place.root / "none.json"))
    assert done.returncode == 1
    assert "There is no result file" in done.stderr


def test_a_java_that_is_not_there_is_told_with_what_to_do(place: Place) -> None:
    done = tidemark(place, "run", "clicks", JAVA_HOME="/no/java")
    assert done.returncode == 1
    assert "JAVA_HOME is /no/java, where no bin/java is" in done.stderr
    assert "make setup" in done.stderr


def test_a_local_root_with_a_cluster_s_master_is_refused(place: Place) -> None:
    with pytest.raises(SettingsInvalid, match="would write to their own disks"):
        refuse_local_root(place.settings, "spark://10.0.0.1:7077")
    refuse_local_root(place.settings, "local[4]")


def test_the_environment_file_is_read_as_a_shell_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("export A='x y'\nexport PATH=\"/first:$PATH\"\nB=unexported\n")
    variables = variables_of(file)
    assert variables["A"] == "x y"
    assert variables["PATH"].startswith("/first:")
    assert "B" not in variables


@pytest.mark.process
def test_a_pipeline_that_is_not_there_ends_the_job_with_1_and_a_result(tmp_path: Path) -> None:
    place = Place(tmp_path)
    result = tmp_path / "result.json"
    process = start_job(place, arguments=["--pipeline", "nope", "--result", str(result)])
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    error = read_result(str(result), {}).error
    assert error is not None
    assert error.type == "PipelineNotFound"
    assert not error.retry_can_help
