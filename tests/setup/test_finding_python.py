from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SHELL_TOOLS = ("dirname", "head", "cat")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for the PATH that has what the script itself needs, and no Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in SHELL_TOOLS:
        found = next(p for p in ("/usr/bin", "/bin") if Path(f"{p}/{name}").exists())
        (folder / name).symlink_to(f"{found}/{name}")
    return folder


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """A repository with the real script, whose set-up only says which Python started it."""
    folder = tmp_path / "repo" / "include" / "setup"
    folder.mkdir(parents=True)
    (folder / "setup.sh").write_text((repository / "include" / "setup" / "setup.sh").read_text())
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text("import sys; print(sys.executable, sys.argv[1:])")
    return tmp_path / "repo"


def start(copy: Path, tools: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "include/setup/setup.sh"]
    whole = {"PATH": str(tools), **env}
    return subprocess.run(command, cwd=copy, env=whole, capture_output=True, text=True, check=False)


def make_command(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def real_older_python() -> str | None:
    folders = ["/usr/bin", *map(str, Path.home().glob(".pyenv/versions/*/bin"))]
    for minor in (10, 9, 8, 7, 6):
        for folder in folders:
            path = f"{folder}/python3.{minor}"
            if os.access(path, os.X_OK):
                return path
    return None


def test_without_any_python_it_says_which_are_fit(copy: Path, tools: Path) -> None:
    ended = start(copy, tools)
    assert ended.returncode == 1
    assert "Tidemark needs 3.11, 3.12 or 3.13" in ended.stderr
    assert "What to do: install one" in ended.stderr
    assert "make setup PYTHON=/path/to/python3.12" in ended.stderr


def test_a_python_that_is_too_old_is_named_with_its_version(copy: Path, tools: Path) -> None:
    old = real_older_python()
    if old is None:
        pytest.skip("no older Python on this machine")
    ended = start(copy, tools, PYTHON=old)
    assert ended.returncode == 1
    assert re.search(
        rf"{re.escape(old)} .* is Python 3\.(6|7|8|9|10)\.\d+$", ended.stderr, re.MULTILINE
    )


def test_a_shim_that_exists_and_fails_is_passed_over(copy: Path, tools: Path) -> None:
    make_command(tools / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    make_command(tools / "python3", f'exec {sys.executable} "$@"')
    ended = start(copy, tools)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(sys.executable)


def test_a_failing_shim_is_named_when_nothing_else_is_there(copy: Path, tools: Path) -> None:
    make_command(tools / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    ended = start(copy, tools)
    assert f"python3.13 ({tools}/python3.13) pyenv: python3.13: command not found" in ended.stderr


def test_the_named_python_is_the_only_candidate(copy: Path, tools: Path) -> None:
    make_command(tools / "python3", f'exec {sys.executable} "$@"')
    ended = start(copy, tools, PYTHON="/gone/python3.12")
    assert ended.returncode == 1
    assert "none of these is there: /gone/python3.12" in ended.stderr


def test_a_named_python_may_be_relative_to_the_folder_of_the_call(copy: Path, tools: Path) -> None:
    make_command(copy / "own" / "python", f'exec {sys.executable} "$@"')
    assert start(copy, tools, PYTHON="own/python").returncode == 0


def test_the_python_of_an_earlier_set_up_stays(copy: Path, tools: Path) -> None:
    make_command(copy / ".venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    make_command(tools / "python3.13", "exit 1")
    assert start(copy, tools).returncode == 0


def test_uv_is_used_when_it_is_there_and_pip_otherwise(copy: Path, tools: Path) -> None:
    make_command(tools / "python3", f'exec {sys.executable} "$@"')
    assert start(copy, tools).stdout.endswith("['pip']\n")
    make_command(tools / "uv", "exit 0")
    assert start(copy, tools).stdout.endswith("['uv']\n")
    assert start(copy, tools, INSTALLER="pip").stdout.endswith("['pip']\n")


def test_an_active_virtual_environment_and_python_variables_do_not_matter(
    copy: Path, tools: Path
) -> None:
    make_command(tools / "python3", f'exec {sys.executable} "$@"')
    ended = start(
        copy, tools, VIRTUAL_ENV="/gone", PYTHONHOME="/gone", PYTHONPATH="/gone", PYTHONSAFEPATH="1"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
