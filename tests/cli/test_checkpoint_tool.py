"""`tidemark-checkpoint`, where neither Spark nor Airflow nor what checks quality is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark.cli.checkpoint.tool import app as tool
from tidemark.cli.main import app

DATA = Path(__file__).parents[1] / "checkpoint" / "data"
# An import of what is None there ends with ImportError.
ALONE = """
import sys
sys.modules |= dict.fromkeys(("pyspark", "delta", "py4j", "airflow", "great_expectations"))
from tidemark.cli.start import checkpoint
checkpoint()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("inspect",), "watermark"),
        (("doctor",), "clean end"),
        (("state",), "healthy"),
        (("housekeep",), "batches"),
        (("rewind", "--to-batch", "0", "--sink", "other"), "batch 0"),
        (("repair",), ""),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_it_works_on_a_folder_without_spark_airflow_and_settings(
    tmp_path: Path, asked: tuple[str, ...], told: str
) -> None:
    place = tmp_path / "elsewhere" / "checkpoint"
    shutil.copytree(DATA / "aggregate", place)
    command = [sys.executable, "-c", ALONE, asked[0], str(place), *asked[1:]]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert told in ended.stdout
    assert "Traceback" not in ended.stderr


def test_it_says_what_the_command_of_pipelines_says() -> None:
    for asked in ("inspect", "doctor"):
        place = str(DATA / "aggregate")
        alone = CliRunner().invoke(tool, [asked, place])
        beside = CliRunner().invoke(app, ["checkpoint", asked, place])
        assert (alone.exit_code, alone.output) == (beside.exit_code, beside.output)


def test_it_tells_its_own_name_and_version() -> None:
    assert CliRunner().invoke(tool, ["--version"]).output.startswith("tidemark-checkpoint 0.")


def test_a_path_may_lead_through_the_folder_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "aggregate" / "offsets")
    told = CliRunner().invoke(tool, ["doctor", ".."])
    assert (told.exit_code, "clean end" in told.output) == (0, True)
