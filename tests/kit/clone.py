"""A folder in which a page's lines can be typed as they are: a clone that has been set up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit.running import REPOSITORY


def set_up_clone(folder: Path, *pipelines: str) -> Path:
    """Settings, jobs, samples, and of the pipelines those named; `make setup` has nothing to do."""
    include = REPOSITORY / "include"
    (folder / "include" / "pipelines").mkdir(parents=True)
    shutil.copy(include / "settings.yaml", folder / "include")
    for pipeline in pipelines:
        shutil.copy(include / "pipelines" / f"{pipeline}.yaml", folder / "include" / "pipelines")
    (folder / "include" / "samples").symlink_to(include / "samples")
    (folder / "jobs").symlink_to(REPOSITORY / "jobs")
    (folder / "Makefile").write_text("setup:\n")
    (folder / ".tidemark").mkdir()
    (folder / ".tidemark" / "env").touch()
    (folder / "tmp").mkdir()
    return folder


def typed(clone: Path, lines: str, *, stop: bool = True) -> subprocess.CompletedProcess[str]:
    """What the lines print, each after the other in one shell; where `stop`, each must succeed."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith("TIDEMARK_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    ended = subprocess.run(
        ["sh", *(["-e"] if stop else []), "-c", lines],
        cwd=clone, capture_output=True, text=True, check=False, timeout=900,
        env=kept | {"PATH": path, "TMPDIR": str(clone / "tmp")},
    )  # fmt: skip
    assert not stop or ended.returncode == 0, ended.stderr
    return ended
