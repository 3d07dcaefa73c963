"""What a migration is asked to do: the table as it is beside the pipeline's file."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import MigrationRefused
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.check import compare_contracts
from tidemark.runs.migration.predecessors import Predecessors, predecessors
from tidemark.storage.warehouse import Warehouse

# What only a new generation takes, and what takes effect with one.
_TAKEN = (ChangeVerdict.NEW_GENERATION, ChangeVerdict.NO_EFFECT)


@dataclass(frozen=True)
class Change:
    """The differences that a table's next generation takes, and what its rows are to the former
    ones."""

    differences: tuple[Difference, ...]
    predecessors: Predecessors


def change_of(pipeline: Pipeline, settings: Settings, table: str, rebuild: bool = False) -> Change:
    """Nothing is written. Raises MigrationRefused where the file also asks for what no generation
    takes, or where nothing was run yet. `rebuild`: where the contract is gone with the checkpoint,
    or gold, which says what contract that is, the file counts as what gold was made by."""
    compared = compare_contracts(pipeline, settings)
    recorded = {query.name: query.recorded for query in compared.queries}
    contract = recorded.get(table)
    gold = Warehouse.of(pipeline.name, settings).gold(table)
    if rebuild and (contract is None or gold.open() is None):
        operator = operator_of(pipeline, table)
        return Change((), predecessors(operator, operator))
    if contract is None:
        raise MigrationRefused(
            f"{table} of {pipeline.name} has no generation yet: the next run begins its first one, "
            "with all of bronze. Nothing was written."
        )
    in_the_way = [
        found
        for found in compared.refused
        if found.verdict is not ChangeVerdict.NEW_GENERATION and found.query in (INGEST, table)
    ]
    if in_the_way:
        told = "\n".join(f"  {found}" for found in in_the_way)
        raise MigrationRefused(
            f"The file of {pipeline.name} asks for more than a generation can take:\n{told}\n"
            "Nothing was written. Put it back, or accept it (`tidemark accept`), and migrate then."
        )
    left = [query.name for query in compared.unfinished if query.name == INGEST]
    if left:
        raise MigrationRefused(
            f"A run of {pipeline.name} left a batch of its ingest that another content of the file "
            "planned. Nothing was written. Run the pipeline once with that content, which stands "
            "in the contract beside the ingest's checkpoint; then change the file and migrate."
        )
    former = operator_of(contract.pipeline, table)
    return Change(
        tuple(
            found
            for found in compared.differences
            if found.query == table and found.verdict in _TAKEN
        ),
        predecessors(former, operator_of(pipeline, table)),
    )


def changed_tables(pipeline: Pipeline, settings: Settings) -> tuple[str, ...]:
    """The tables that need a new generation, in the order of the file."""
    refused = compare_contracts(pipeline, settings).refused
    anew = {one.query for one in refused if one.verdict is ChangeVerdict.NEW_GENERATION}
    return tuple(name for name in pipeline.tables if name in anew)
