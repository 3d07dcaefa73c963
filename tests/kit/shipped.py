"""The repository's own pipeline files, whatever its user has put beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "include" / "pipelines"
NAMES = ("access_log", "ad_impressions")
FILES = tuple(_FOLDER / f"{name}.yaml" for name in NAMES)


def copied_to(folder: Path) -> Path:
    """The folder, with copies of them."""
    for file in FILES:
        shutil.copy(file, folder)
    return folder
