"""What a migration is asked to do: the table as it is beside the pipeline's file."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import MigrationRefused
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.former import former_generation
from tidemark.recompute.predecessors import Predecessors, predecessors
from tidemark.runs.contract.check import compare_contracts, differences_here
from tidemark.runs.contract.contract import Contract, contract_of, read_contract
from tidemark.runs.erased_again import check_told_when_wider
from tidemark.storage.warehouse import Warehouse

# What only a new generation takes, and what takes effect with one.
_TAKEN = (ChangeVerdict.NEW_GENERATION, ChangeVerdict.NO_EFFECT)


@dataclass(frozen=True)
class Change:
    """The differences that a table's next generation takes, and what its rows are to those of
    `former`."""

    differences: tuple[Difference, ...]
    former: Operator
    predecessors: Predecessors


def change_of(
    pipeline: Pipeline, settings: Settings, table: str, rebuild: bool = False, alone: bool = True
) -> Change:
    """Nothing is written. Raises MigrationRefused where the file also asks for what no generation
    takes, where nothing was run yet, or where rows that an erasure rejects could not be told any
    more. `rebuild`: where the contract is gone with the checkpoint, the file counts as what gold
    was made by. Not `alone`: a run works meanwhile, so that a batch which it planned is no obstacle
    yet."""
    compared = compare_contracts(pipeline, settings)
    recorded = {query.name: query.recorded for query in compared.queries}
    asked = contract_of(pipeline, table, settings)
    contract = recorded.get(table)
    if rebuild:
        contract = _former(pipeline, settings, table) or contract or asked
    if contract is None:
        raise MigrationRefused(
            f"{table} of {pipeline.name} has no generation yet: the next run begins its first one, "
            "with all of bronze. Nothing was written."
        )
    warehouse = Warehouse.of(pipeline.name, settings)
    own = differences_here(contract, asked, warehouse)
    of_ingest = [found for found in compared.differences if found.query == INGEST]
    in_the_way = [
        found
        for found in (*of_ingest, *own)
        if found.refused and found.verdict is not ChangeVerdict.NEW_GENERATION
    ]
    if in_the_way:
        lines = "\n".join(f"  {found}" for found in in_the_way)
        raise MigrationRefused(
            f"The file of {pipeline.name} asks for more than a generation can take:\n{lines}\n"
            "Nothing was written. Put it back, or accept it (`tidemark accept`), and migrate then."
        )
    if any(found.verdict is ChangeVerdict.NEW_GENERATION for found in of_ingest):
        check_told_when_wider(pipeline, warehouse)
    left = [query for query in compared.unfinished if query.name != table]
    if left and alone:
        raise MigrationRefused(
            f"A run of {pipeline.name} left a batch of {left[0].name} that another content of the "
            "file planned. Nothing was written. Run the pipeline once with that content, which "
            f"stands in {left[0].place}; then change the file and migrate."
        )
    former = operator_of(contract.pipeline, table)
    return Change(
        tuple(found for found in own if found.verdict in _TAKEN),
        former,
        predecessors(former, operator_of(pipeline, table)),
    )


def _former(pipeline: Pipeline, settings: Settings, table: str) -> Contract | None:
    """The contract of the generation before, also of one whose query or gold is gone."""
    warehouse = Warehouse.of(pipeline.name, settings)
    place = warehouse.places.contract(table, former_generation(warehouse, table))
    return read_contract(place, warehouse.options)


def changed_tables(pipeline: Pipeline, settings: Settings) -> tuple[str, ...]:
    """The tables that need a new generation, in the order of the file. Raises MigrationRefused
    where bronze alone has to change."""
    refused = compare_contracts(pipeline, settings).refused
    anew = {one.query for one in refused if one.verdict is ChangeVerdict.NEW_GENERATION}
    tables = tuple(name for name in pipeline.tables if name in anew)
    if INGEST in anew and not tables:
        raise MigrationRefused(
            f"No table of {pipeline.name} has a generation yet, and bronze has the former types. "
            "Nothing was written. Put these back, run it once, and migrate then."
        )
    return tables
