"""`tidemark validate`, as a person calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.runs import REPOSITORY
from tidemark import __version__
from tidemark.cli.main import app

GOOD = (REPOSITORY / "include" / "pipelines" / "access_log.yaml").read_text()
BAD = GOOD.replace("sum(bytes)", "smu(bytes)").replace("length: 1 hour", "length: 1 fortnight")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an empty folder of pipelines."""
    (tmp_path / "pipelines").mkdir()
    settings = tmp_path / "settings.yaml"
    settings.write_text("root: warehouse\npipelines: pipelines\n")
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(settings))
    return tmp_path / "pipelines"


def tidemark(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


def test_the_samples_are_good() -> None:
    files = sorted((REPOSITORY / "include" / "pipelines").glob("*.yaml"))
    code, output = tidemark("validate", *map(str, files))
    assert code == 0
    assert output.count(": good (tables: ") == len(files) == 2


def test_all_problems_of_a_bad_file_are_told_and_the_good_one_is_still_good(folder: Path) -> None:
    (folder / "good.yaml").write_text(GOOD)
    (folder / "bad.yaml").write_text(BAD)
    code, output = tidemark("validate")
    assert code == 1
    assert "good: good" in output
    assert "bad.yaml" in output
    assert "smu" in output
    assert "Did you mean `sum`?" in output
    assert "fortnight" in output
    assert "1 of 2 pipelines cannot be used." in output


def test_an_empty_folder_is_said_to_be_empty(folder: Path) -> None:
    code, output = tidemark("validate")
    assert code == 0
    assert f"{folder} holds no pipeline file" in output


def test_an_unknown_name_is_told_with_the_nearest(folder: Path) -> None:
    (folder / "clicks.yaml").write_text(GOOD)
    code, output = tidemark("validate", "click")
    assert code == 1
    assert "Did you mean `clicks`?" in output


def test_settings_that_cannot_be_used_are_a_message_and_no_traceback(tmp_path: Path) -> None:
    wrong = tmp_path / "settings.yaml"
    wrong.write_text("rooot: x\n")
    done = subprocess.run(
        [sys.executable, "-m", "tidemark.cli.main", "validate", "--settings", str(wrong)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "SettingsInvalid" in done.stderr
    assert "Did you mean `root`?" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_the_package_s() -> None:
    assert tidemark("--version") == (0, f"tidemark {__version__}\n")


def test_validating_loads_no_engine(folder: Path) -> None:
    (folder / "good.yaml").write_text(GOOD)
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom tidemark.cli.main import app\n"
        "assert CliRunner().invoke(app, ['validate']).exit_code == 0\n"
        "heavy = {'pyspark', 'deltalake', 'duckdb', 'pyarrow', 'pandas', 'airflow'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
