"""Airflow reads its home when it is imported: a folder of the tests', not the user's."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOME = tempfile.TemporaryDirectory(prefix="tidemark-airflow-")
os.environ["AIRFLOW_HOME"] = HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

GOOD = """\
description: Visits, one | a line
source:
  files: landing/visits/*.json
  columns: {at: timestamp not null, page: string}
  event_time: {column: at}
watermark: {delay: 10 minutes}
tables:
  page_1h:
    window: {length: 1 hour, slide: 30 minutes}
    group_by: [page]
    measures: {visits: count(*)}
"""


@pytest.fixture
def write_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a pipeline file into the folder that the settings name."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps({"root": str(tmp_path / "root"), "pipelines": str(folder)}))
    for name in [name for name in os.environ if name.startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(settings))

    def write(name: str, text: str = GOOD, **added: Any) -> Path:
        file = folder / f"{name}.yaml"
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in added.items()]
        file.write_text("".join(lines) + text)
        return file

    return write
