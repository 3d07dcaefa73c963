"""Errors that are expected, and told in another way, stay out of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark logs each error that it raises, with the engine's whole stack: not in this block."""
    # By PySpark: a logger of this name that Python made would fail on what PySpark gives it.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
