"""Which Tidemark is told: the same for the same code wherever it lies, another for other code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidemark
from tidemark.version import is_of_a_newer_release, told_version, written_by

PACKAGE = Path(tidemark.__file__).parent
CODE = shutil.ignore_patterns("__pycache__")


def told_by(folder: Path) -> str:
    """What the package in a folder says of itself, in a process of its own."""
    command = [sys.executable, "-c", "from tidemark.version import told_version as t; print(t())"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def test_code_tells_its_version_wherever_it_lies_and_any_change_of_it_is_told(
    tmp_path: Path,
) -> None:
    copied = tmp_path / "tidemark"
    shutil.copytree(PACKAGE, copied, ignore=CODE)
    assert told_by(tmp_path) == told_version()
    changed = copied / "judge" / "exact.py"
    changed.write_text(changed.read_text() + "\n")
    release, _, build = told_by(tmp_path).partition("+")
    assert release == tidemark.__version__
    assert build not in told_version()
    assert len(build) == 12


def test_the_changelog_begins_with_this_release() -> None:
    changes = (PACKAGE.parents[1] / "CHANGELOG.md").read_text("utf-8")
    first = re.search(r"^## (\S+)", changes, re.MULTILINE)
    assert first is not None
    assert first[1] == tidemark.__version__


@pytest.mark.parametrize(
    ("told", "newer"),
    [
        (None, False),
        ("0.1.0+0123456789ab", False),
        ("0.1.99+0123456789ab", False),
        ("0.0.9", False),
        ("0.2.0+0123456789ab", False),
        ("0.2.99", False),
        ("0.3.0+0123456789ab", True),
        ("0.10.0", True),
        ("1.0.0", True),
        ("somebody's", False),
    ],
)
def test_a_release_is_newer_by_its_first_two_numbers(told: str | None, newer: bool) -> None:
    assert tidemark.__version__.startswith("0.2.")
    assert is_of_a_newer_release(told) is newer


@pytest.mark.parametrize("stored", [b"", b"{", b"[1]", b"{}", b'{"tidemark": 1}', b"\xff"])
def test_what_does_not_say_who_wrote_it_tells_none(stored: bytes) -> None:
    assert written_by(stored) is None
