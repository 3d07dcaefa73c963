"""Compare a query's recorded contract with the one that the pipeline's file asks for: pure."""

from __future__ import annotations

from tidemark.pipeline.difference import Difference
from tidemark.pipeline.places import INGEST
from tidemark.runs.contract.aggregate_changes import aggregate_changes
from tidemark.runs.contract.contract import Contract
from tidemark.runs.contract.ingest_changes import ingest_changes


def contract_differences(recorded: Contract, asked: Contract) -> tuple[Difference, ...]:
    """What differs for this query; none where it is the same to it."""
    compare = ingest_changes if asked.query == INGEST else aggregate_changes
    return tuple(compare(recorded, asked))
