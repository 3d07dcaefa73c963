"""One page of all figures that were measured into a folder, and on what machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

PAGE = "README.md"
_PACKAGES = ("pyspark", "delta-spark", "deltalake", "duckdb", "polars", "apache-airflow")


def write_report(folder: Path, figures: Sequence[str]) -> Path:
    """The page of the figures that are in the folder, in this order; those of earlier calls too."""
    pages = [folder / f"{name}.md" for name in figures]
    parts = [page.read_text() for page in pages if page.exists()]
    report = folder / PAGE
    report.write_text("\n".join([f"# What `make bench` measured\n\n{_machine()}\n", *parts]))
    return report


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, {_java()}; {packages}."
    )


def _java() -> str:
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return told.stderr.splitlines()[0].replace(' version "', " ").partition('"')[0]
