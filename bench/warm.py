"""A warm session for a benchmark in a process of its own, and the numbers that it leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.streaming.session import start_session

RESULT = "measured.json"


@contextmanager
def warm_session(pipeline: Pipeline) -> Iterator[SparkSession]:
    """A session with the platform's settings on two cores, until the block ends."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[2] pyspark-shell"
    spark = start_session(
        pipeline, Settings(root="/unused", pipelines="/unused", sources=("file:///",))
    )
    try:
        yield spark
    finally:
        spark.stop()


def write_measured(folder: Path, measured: Sequence[Any]) -> None:
    """The measured dataclasses, for the process that draws them."""
    told = [vars(one) for one in measured]
    (folder / RESULT).write_text(json.dumps(told, indent=2) + "\n")
