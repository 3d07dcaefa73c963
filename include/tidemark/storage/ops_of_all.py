"""A table of `ops` of all pipelines below a root as one: each has its own, below its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.errors import GoldNotFound
from tidemark.pipeline.names import FOLDER_NAME, PIPELINE_NAMES_IN_USE
from tidemark.pipeline.places import OPS_TABLES
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.files import list_folder
from tidemark.storage.root import check_root
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class OpsPart:
    """A table that has rows: a pipeline's own, or the one that pipelines shared before. `of`: the
    pipelines whose rows count in it; None: all that it has."""

    uri: str
    table: DeltaTable
    of: tuple[str, ...] | None = None

    @property
    def columns(self) -> list[str]:
        return [field.name for field in self.table.schema().fields]

    @property
    def condition(self) -> str | None:
        """SQL for the rows that count. Names of pipelines need no escape."""
        return None if self.of is None else f"pipeline IN ({', '.join(map(repr, self.of))})"


def ops(name: str, *, settings: Settings | Path | str | None = None) -> ds.Dataset:
    """The rows of `ops/NAME` of all pipelines below the root, not read yet: for DuckDB, Polars, or
    batch by batch. `name`: runs, ledger, batches, upkeep or quality.

    Has the columns of all of them, null where a pipeline's table does not have one; `pipeline` says
    whose a row is. Each table stays at the version that it was opened at. A pipeline counts for as
    long as its folder is there. `settings`: as loaded, or their file; default: as the command
    `tidemark` finds them. Raises ValueError for another name, GoldNotFound where no pipeline has
    such a table yet, DataDamaged where one of them is broken, RootMissing.
    """
    loaded = settings if isinstance(settings, Settings) else load_settings(settings)
    parts = ops_parts(name, loaded)
    found: ds.Dataset = ds.dataset([dataset_of(part.table, part.condition) for part in parts])
    return found


def ops_parts(name: str, settings: Settings) -> Sequence[OpsPart]:
    """The tables that have the rows of `ops`, one at least; raises what that does."""
    if name not in OPS_TABLES:
        raise ValueError(f"There is no table `{name}` of ops: {', '.join(OPS_TABLES)} are there.")
    check_root(settings)
    parts = tuple(_parts(name, settings))
    if not parts:
        raise GoldNotFound(
            f"No pipeline below {settings.root} has a table ops/{name} yet: runs make it, and "
            "their upkeep."
        )
    return parts


def _parts(name: str, settings: Settings) -> Iterator[OpsPart]:
    folders = list_folder(settings.root, settings.storage_options)
    own = set()
    for pipeline in sorted(one for one, is_folder in folders.items() if is_folder):
        if not re.match(FOLDER_NAME, pipeline) or pipeline in PIPELINE_NAMES_IN_USE:
            continue
        place = _place(name, pipeline, settings).own
        if (table := place.open()) is not None:
            own.add(pipeline)
            yield OpsPart(place.uri, table)
    former = _place(name, "", settings).former
    if (shared := former.open()) is None:
        return
    there = {partition["pipeline"] for partition in shared.partitions()} - own
    waiting = [one for one in sorted(there) if _place(name, one, settings).not_moved() is not None]
    if waiting:
        yield OpsPart(former.uri, shared, tuple(waiting))


def _place(name: str, pipeline: str, settings: Settings) -> OpsPlace:
    return Warehouse.of(pipeline, settings).ops_table(name)
