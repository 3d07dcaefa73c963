"""What the engine says of the queries that a test's runs start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidemark.streaming.run import aggregate
from tidemark.streaming.run.queries import Running


@contextmanager
def kept_queries() -> Iterator[list[Running]]:
    """The queries of all tables that are started meanwhile, for what they say of themselves."""
    queries: list[Running] = []
    original = aggregate.start_query

    def start(writer: Any, write: Any) -> Running:
        queries.append(original(writer, write))
        return queries[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "start_query", start)
        yield queries


def dropped_groups(queries: list[Running]) -> dict[tuple[str, int], int]:
    """The engine's `numRowsDroppedByWatermark`, by table and batch."""
    return {
        (running.query.name.rpartition(".")[2], progress["batchId"]): operator[
            "numRowsDroppedByWatermark"
        ]
        for running in queries
        for progress in running.query.recentProgress
        for operator in progress["stateOperators"]
    }
