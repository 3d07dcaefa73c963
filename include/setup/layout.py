"""Where set-up puts things, all below the repository's folder."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from setup.errors import SetupFailed

UNUSABLE_IN_A_PATH = re.compile(r"[\s:;,'\"\\$`*?%#&|<>(){}\[\]]")


@dataclass(frozen=True)
class Layout:
    """The repository at `root` (absolute), set up for the Python that runs this."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "requirements.txt"

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        major, minor = sys.version_info[:2]
        return self.venv / "lib" / f"python{major}.{minor}" / "site-packages"

    @property
    def spark_home(self) -> Path:
        return self.site_packages / "pyspark"

    @property
    def state(self) -> Path:
        return self.root / ".tidemark"

    @property
    def jars(self) -> Path:
        return self.state / "jars"

    @property
    def broker_jars(self) -> Path:
        return self.state / "broker_jars"

    @property
    def archives(self) -> Path:
        return self.state / "cds"

    @property
    def java(self) -> Path:
        return self.state / "java"

    @property
    def env_file(self) -> Path:
        return self.state / "env"

    @property
    def log(self) -> Path:
        return self.state / "setup.log"


def refuse_unusable_path(root: Path) -> None:
    """Spark's start scripts, class paths and `file:` URIs each break on some of these."""
    found = UNUSABLE_IN_A_PATH.search(str(root))
    if found:
        raise SetupFailed(
            f"the repository is in {str(root)!r}, and Java class paths and Spark's start scripts "
            f"cannot work with the character {found.group()!r} in a path",
            "move or clone the repository to a path without spaces and special characters",
        )
