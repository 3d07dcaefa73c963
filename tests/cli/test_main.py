"""The command as a process: version, help, and what an error looks like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidemark
from tests.kit.running import Place
from tidemark.cli.main import app
from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings
from tidemark.version import told_version

# As it was installed.
COMMAND = [str(Path(sys.executable).with_name("tidemark"))]


def tidemark_process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.mark.slow
def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    said = tidemark_process("--version", cwd=tmp_path).stdout
    assert said == f"tidemark {told_version()}\n"
    assert said.startswith(f"tidemark {tidemark.__version__}+")


@pytest.mark.slow
def test_python_runs_it_as_a_module_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidemark", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout == f"tidemark {told_version()}\n"


def test_help_names_every_command() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(name in shown for name in ("validate", "run", "publish"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "publish"])
def test_a_settings_file_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, command: str
) -> None:
    settings = tmp_path / "none.yaml"
    result = ["--result", "r.json"] if command == "publish" else []
    ended = tidemark_process(command, "clicks", "--settings", str(settings), *result, cwd=tmp_path)
    assert ended.stderr == f"SettingsInvalid: There is no settings file {settings}.\n"
    assert (ended.stdout, ended.returncode) == ("", 1)


def test_a_pipeline_that_is_not_there_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Place(tmp_path).write_file().parent
    monkeypatch.setenv("TIDEMARK_ROOT", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(folder))
    ended = CliRunner().invoke(app, ["run", "click"])
    assert ended.stderr == (
        f"PipelineNotFound: There is no pipeline `click` in {folder}. "
        "Did you mean `clicks`? It holds: clicks.\n"
    )
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("accept", "clicks", "--reason"),
        ("accept", "clicks", "--reason", "why", "--by"),
        ("publish", "clicks", "--accept", "--reason"),
        ("publish", "clicks", "--accept", "--reason", "why", "--by"),
        ("rename", "clicks", "visits", "--apply", "--reason"),
        ("rename", "clicks", "visits", "--apply", "--by"),
        ("migrate", "clicks", "--reason"),
        ("migrate", "clicks", "--by"),
        ("retract", "clicks", "--reason"),
        ("run", "clicks", "--run-id"),
    ],
)
def test_text_that_is_no_utf_8_is_refused_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """As of a terminal in Latin-1: none of what is written could hold it."""
    place = Place(tmp_path)
    place.write_file()
    before = sorted(tmp_path.rglob("*"))
    ended = CliRunner().invoke(app, [*words, "caf\udce9"], env=place.variables)
    assert ended.exit_code == 2
    assert "is no UTF-8, which all that is kept is" in " ".join(ended.stderr.split())
    assert sorted(tmp_path.rglob("*")) == before


def test_a_local_root_is_refused_where_executors_are_elsewhere() -> None:
    local, shared = (Settings(root=root, pipelines="/p") for root in ("/data", "s3://data/x"))
    with pytest.raises(SettingsInvalid, match=r"/data is a folder of this machine.*spark://h:7077"):
        check_master(local, "spark://h:7077", "--master")
    check_master(local, "local[2]", "--master")
    check_master(shared, "spark://h:7077", "--master")
