"""How gold of a table goes back: to which version, and what it says of itself then."""

from __future__ import annotations

from deltalake import DeltaTable

from tidemark.gold.checkpoints import query_checkpoint
from tidemark.gold.plan import CHANGES, CLOSE, IDENTITIES, noted_name
from tidemark.gold.state import is_published
from tidemark.pipeline.places import INGEST
from tidemark.runs.found import QUERY, TableInventory, started_operator
from tidemark.runs.generations import ABANDONED, abandoned, generations
from tidemark.storage.generation import GENERATION, generation_of
from tidemark.upkeep.pipeline_rewind.change import GoldBack
from tidemark.upkeep.pipeline_rewind.tables import PlannedBack, plan_back


def plan_gold(
    found: TableInventory, version: int | None
) -> tuple[GoldBack, PlannedBack | None] | None:
    """Take gold back to a version; None where the table has neither gold nor a query.

    Without one it stays as it is (`stays`): what is closed in it stays closed, and its windows are
    computed anew.
    """
    gold = found.gold.table
    published = gold is not None and is_published(gold)
    if not published and found.query.id is None:
        return None
    newest = generations(found.warehouse, found.name)[-1]
    if gold is None or not published:
        return GoldBack(table=found.name, back=None, stays=True, newest_generation=newest), None
    planned = plan_back(found.gold.place, gold.version() if version is None else version)
    then = found.gold.place.at_version(planned.back.version)
    told = _transactions(found, then) | {ABANDONED: max(abandoned(gold), newest)}
    back = GoldBack(
        table=found.name,
        back=planned.back,
        stays=version is None,
        transactions=told,
        newest_generation=newest,
    )
    return back, planned


def _transactions(found: TableInventory, then: DeltaTable) -> dict[str, int]:
    """What gold said of itself at a version, by all names that it may have noted."""
    warehouse, generation = found.warehouse, generation_of(then)
    operator = started_operator(found.content, warehouse, found.name, generation)
    changes = warehouse.changes(found.name, generation).open()
    ids = {one.name: one.id for one in (found.bronze, found.rejects, *found.others)}
    ids[INGEST] = found.ingest.id
    ids[CHANGES] = None if changes is None else str(changes.metadata().id)
    ids[QUERY] = query_checkpoint(warehouse, found.name, generation).query_id()
    noted = [noted_name(name, identity) for name, identity in ids.items() if identity is not None]
    names = (CHANGES, CLOSE, GENERATION, IDENTITIES, *operator.inputs, *noted)
    told = {name: then.transaction_version(name) for name in names}
    return {name: version for name, version in told.items() if version is not None}
