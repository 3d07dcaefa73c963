"""The seconds of each stage of the platform's newest run, from its result file."""

from __future__ import annotations

from bench.contenders import NAME, Workspace
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result


def seconds_of_stages(place: Workspace) -> dict[str, float]:
    """As the run measured them itself."""
    results = (place.root / NAME / "results").rglob("*.json")
    newest = max(results, key=lambda file: file.stat().st_mtime)
    return read_result(RunResult, str(newest), {}).seconds
