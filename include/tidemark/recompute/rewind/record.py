"""What a rewind leaves for others: its row in `ops/`, the ledger's lines that count no more, and
which windows of gold it changed, which whoever follows gold has to read again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tidemark.gold.pins import Published
from tidemark.ledger.ledger import settle_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import listed
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.recompute.act_row import record_upkeep_of
from tidemark.recompute.plans import CHANGE
from tidemark.recompute.rewind.change import PipelineChange, read_change
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.unfinished_act import rewind_folder
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import answers
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import REWIND

# Of a row of gold, what says only which run wrote it.
_NOT_ITS_OWN = "updated_by"


def settle_lines(change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse) -> None:
    """The ledger's lines that count are what the tables tell now; the others are marked."""
    source = Ledgered(pipeline, warehouse, seeds_of(pipeline, warehouse))
    lines, now, query = rebuilt_lines(source), datetime.now(UTC), change.ingest.query
    to = kept_to(change, warehouse)
    settle_ledger(warehouse.ledger, pipeline.name, lines, change.id, query, to, now)


def kept_to(change: PipelineChange, warehouse: Warehouse) -> int:
    """Up to which batch those that are there are the ones that were before this rewind. One that
    undoes another brings back batches that all rewinds since have taken away, and takes theirs."""
    kept, since = change.ingest.batch, change.ingest.restored_from
    if since is None:
        return kept
    folder = warehouse.file_at(warehouse.places.rewinds)
    for name, is_folder in sorted(folder.names().items(), reverse=True):
        backup = rewind_folder(warehouse, name)
        if is_folder and since <= name < change.id and CHANGE in backup.names():
            former = read_change(backup).ingest
            kept, since = min(kept, former.batch), min(since, former.restored_from or since)
    return kept


def record_rewind(change: PipelineChange, warehouse: Warehouse) -> None:
    """Its row in `ops/upkeep`, once."""
    said = {
        "checkpoint": INGEST,
        "verdict": f"back to {change.to}",
        "rewind": {
            "id": change.id,
            "to_run": change.to_run,
            "undoes": change.ingest.restored_from,
            "batch": change.ingest.batch,
            "backup": rewind_folder(warehouse, change.id).uri,
            "runs": list(change.undone),
        },
        "by": change.by,
        "reason": change.reason,
        "without": [one.model_dump(include={"file", "accepted", "rejected"})
                    for one in change.without],
    }  # fmt: skip
    record_upkeep_of(change, REWIND, warehouse.upkeep, said)


def changed_golds(
    seen: Mapping[str, int | None], pipeline: Pipeline, warehouse: Warehouse
) -> dict[str, Published]:
    """By table, the windows that are there no more, are new, or differ since gold's version that
    was seen, None for none; not of a table where none does. Columns that gold does not have both
    times are left out."""
    found = {}
    for table, version in seen.items():
        identity, gold = operator_of(pipeline, table).identity, warehouse.gold(table)
        if version is not None and (changed := _changed_since(gold, version, identity)):
            found[table] = changed
    return found


def _changed_since(place: TablePlace, seen: int, identity: tuple[str, ...]) -> Published | None:
    """Which rows of gold differ from those of a version: from the first to the last, those that
    are gone among them; None where none does."""
    then, now = dataset_of(place.at_version(seen)), dataset_of(place.existing())
    both = [name for name in now.schema.names if name in then.schema.names]
    values = listed([name for name in both if name != _NOT_ITS_OWN])
    keys = listed([name for name in identity if name in both])
    sql = f"""
        WITH gone AS (SELECT {values} FROM before EXCEPT SELECT {values} FROM after),
            come AS (SELECT {values} FROM after EXCEPT SELECT {values} FROM before)
        SELECT count(DISTINCT ({keys})), epoch_ms(min(window_start)), epoch_ms(max(window_end))
        FROM (SELECT * FROM gone UNION ALL SELECT * FROM come)
    """
    ((windows, start, end),) = answers(sql, before=then, after=now)
    return Published(windows=windows, start_ms=start, end_ms=end) if windows else None
