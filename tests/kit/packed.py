"""A packed Python for executors: what docs/cluster.md makes, from the packages that are here."""

from __future__ import annotations

import sys
import tarfile
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.kit.running import REPOSITORY

# The one that this environment was made with. It has none of its packages.
BASE_PYTHON = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
_PACKAGES = f"lib/python3.{sys.version_info.minor}/site-packages"


def packed_python(archive: Path) -> Path:
    """A virtual environment with Tidemark and all that its wheel asks for, and no more."""
    empty = archive.parent / "empty"
    venv.create(empty, symlinks=True, with_pip=False)
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for name in ("bin", "lib", "pyvenv.cfg"):
            packed.add(empty / name, name)
        packed.add(REPOSITORY / "include" / "tidemark", f"{_PACKAGES}/tidemark")
        for name in sorted(needed_by_the_wheel()):
            for file in distribution(name).files or ():
                place = Path(str(file.locate()))
                if ".." not in file.parts and place.is_file():
                    packed.add(place, f"{_PACKAGES}/{file}")
    return archive


def needed_by_the_wheel() -> set[str]:
    """The packages that the wheel asks for, under whatever name this checkout was installed."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    known: set[str] = set()
    for need in map(Requirement, project["dependencies"]):
        needed_by(need.name, known)
    return known


def needed_by(name: str, known: set[str]) -> set[str]:
    """A package and those that it needs, without extras."""
    if name not in known:
        known.add(name)
        for need in map(Requirement, distribution(name).requires or ()):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                needed_by(need.name, known)
    return known
