"""A good pipeline as text, which tests change in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid, Problem

GOOD = """\
description: Clicks
schedule: "@hourly"
source:
  files: landing/clicks/*.json*
  columns:
    at: timestamp
    page: string not null
    took: long
    tags: map<string, int>
    who: "struct<id: long, names: array<string>>"
  event_time: {column: at}
  derive: {slow: took > 500, very_slow: slow and took > 5000}
watermark: {delay: 10 minutes}
tables:
  page_10m:
    window: {length: 10 minutes, slide: 5 minutes}
    group_by: [page, slow]
    measures: {clicks: count(*), longest: max(took)}
advanced:
  shuffle_partitions: 2
"""

Load = Callable[[str], Pipeline]
Problems = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_text(text: str) -> Pipeline:
        path = tmp_path / "clicks.yaml"
        path.write_text(text, encoding="utf-8")
        return load_pipeline(path)

    return load_text


@pytest.fixture
def problems(load: Load) -> Problems:
    """The problems of the good file after each `old` text is replaced by its `new`."""

    def problems_after(*changes: tuple[str, str], text: str = GOOD) -> tuple[Problem, ...]:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        try:
            load(text)
        except PipelineFileInvalid as error:
            return error.problems
        return ()

    return problems_after


@pytest.fixture
def good() -> str:
    return GOOD
