"""Accept changes of a pipeline's file that lose rows of bronze, or mix two meanings in a column.

An acceptance stands in the contract of the query that the change concerns, until a run takes that
very change; then among those that were taken. A file that has changed on since asks anew.
"""

from __future__ import annotations

from datetime import datetime

from tidemark.pipeline.difference import Difference
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.check import compare_contracts
from tidemark.runs.contract.contract import AcceptedChange, write_contract
from tidemark.storage.warehouse import Warehouse


def changes_to_accept(pipeline: Pipeline, settings: Settings) -> tuple[Difference, ...]:
    """What runs wait for; nothing is written."""
    compared = compare_contracts(pipeline, settings)
    return tuple(found for found in compared.differences if found.is_to_be_accepted)


def accept_file(
    pipeline: Pipeline, settings: Settings, warehouse: Warehouse, reason: str, by: str, at: datetime
) -> tuple[Difference, ...]:
    """Accept that, behind the warehouse's fence; what was accepted. Safe to repeat."""
    compared = compare_contracts(pipeline, settings)
    accepted = tuple(found for found in compared.differences if found.is_to_be_accepted)
    for query in compared.queries:
        new = tuple(
            AcceptedChange(
                what=found.what, before=found.before, after=found.after,
                reason=reason, by=by, at=at,
            )
            for found in accepted
            if found.query == query.name
        )  # fmt: skip
        if new and query.recorded is not None:
            all_of_them = (*query.recorded.accepted, *new)
            contract = query.recorded.model_copy(update={"accepted": all_of_them})
            warehouse.fence()
            write_contract(query.place, contract, warehouse.options)
    return accepted
