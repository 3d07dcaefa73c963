"""Make the Delta tables of a pipeline, and check those that exist against the pipeline."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema, Transaction

from tidemark.commit_point import commit_point
from tidemark.errors import TableMismatch
from tidemark.pipeline.names import same_column
from tidemark.pipeline.settings.storage_options import delta_options
from tidemark.storage.delta.place import TablePlace

# Plain tables: readers without Spark raise on deletion vectors, or read them wrongly in silence.
_PLAIN = {
    "delta.enableDeletionVectors": "false",
    "delta.checkpointPolicy": "classic",
    # Writers would remove log entries by age alone, also such as a query of a pipeline that
    # stood still has to read: maintenance removes them, and knows those.
    "delta.enableExpiredLogCleanup": "false",
}
# Entries of the log from which a writer makes a checkpoint of it: Delta on Spark's default. That of
# delta-rs is 100, and each opening of a table reads all entries behind the last one (15 ms of them
# where it is 3 with ten).
_OFTEN_CHECKPOINTED = {"delta.checkpointInterval": "10"}
PROPERTIES = {**_PLAIN, **_OFTEN_CHECKPOINTED}


@dataclass(frozen=True)
class TableSpec:
    """A Delta table as a pipeline wants it.

    `schema_json` is Spark's JSON of a StructType, which is Delta's own schema format.
    A table that lacks columns which it `may_add` gets them, null for old rows; None: any column.
    """

    schema_json: str
    partition_by: Sequence[str] = ()
    description: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    may_add: Collection[str] | None = ()


def ensure_table(place: TablePlace, spec: TableSpec, known: DeltaTable | None = None) -> DeltaTable:
    """The table, made when it is not there yet; `known`, where somebody has opened it. Safe to
    repeat, also after a crash.

    Raises TableMismatch where an existing table's columns do not fit; nothing is changed then.
    """
    table = place.open() if known is None else known
    if table is None:
        return _create(place, spec)
    _check(place, table, spec)
    return table


@commit_point(
    "table made",
    after_a_kill="before and after: the next run makes the tables that are missing",
)
def _create(place: TablePlace, spec: TableSpec) -> DeltaTable:
    transactions = [Transaction(app, version) for app, version in spec.transactions.items()]
    made = DeltaTable.create(
        place.uri,
        schema=Schema.from_json(spec.schema_json),
        mode="ignore",
        partition_by=list(spec.partition_by),
        description=spec.description,
        configuration={**PROPERTIES, **spec.properties},
        storage_options=delta_options(place.options),
        commit_properties=CommitProperties(app_transactions=transactions or None),
    )
    place.is_made()
    return made


def check_columns(place: TablePlace, table: DeltaTable, spec: TableSpec) -> None:
    """TableMismatch where the table's columns do not fit; nothing is changed."""
    wanted = _columns(spec.schema_json)
    found = _columns(table.schema().to_json())
    changed = [name for name in wanted if name in found and wanted[name] != found[name]]
    added = wanted if spec.may_add is None else spec.may_add
    missing = [name for name in wanted if name not in found and name not in added]
    # A table of Delta has no two columns whose names differ by their case alone.
    lacking = [name for name in wanted if name not in found and name not in missing]
    alike = {name: one for name in lacking for one in found if same_column(name, one)}
    # What grows with the pipeline keeps the columns that it no longer has.
    extra = [] if spec.may_add is None else [name for name in found if name not in wanted]
    if changed or alike or missing or extra:
        raise TableMismatch(_mismatch(place.uri, wanted, found, changed, alike, missing, extra))


@commit_point(
    "table adapted",
    after_a_kill="before and after: the next run adds the columns and the property that it lacks",
)
def _check(place: TablePlace, table: DeltaTable, spec: TableSpec) -> None:
    check_columns(place, table, spec)
    found = _columns(table.schema().to_json())
    missing = [
        field for field in Schema.from_json(spec.schema_json).fields if field.name not in found
    ]
    if missing:
        table.alter.add_columns(missing)
    # Of an earlier version's tables; an interval that somebody chose stays.
    if not _OFTEN_CHECKPOINTED.keys() & table.metadata().configuration.keys():
        table.alter.set_table_properties(_OFTEN_CHECKPOINTED)


def _columns(schema_json: str) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in json.loads(schema_json)["fields"]}


def _mismatch(
    uri: str,
    wanted: dict[str, Any],
    found: dict[str, Any],
    changed: list[str],
    alike: Mapping[str, str],
    missing: list[str],
    extra: list[str],
) -> str:
    lines = [f"The table {uri} does not fit the pipeline file:"]
    lines += [f"  {n}: the table has {found[n]}, the pipeline {wanted[n]}" for n in changed]
    lines += [
        f"  {n}: the table has {one}, which differs by its case alone" for n, one in alike.items()
    ]
    lines += [f"  {n}: {wanted[n]}, not in the table" for n in missing]
    lines += [f"  {n}: {found[n]}, not in the pipeline" for n in extra]
    return "\n".join(lines) + (
        "\nNothing was written. Take the change back, or give the table (or the pipeline) a new "
        "name, so that it starts from its source again."
    )
