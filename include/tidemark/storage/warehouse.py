"""The tables and files of a pipeline as handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import Fence, FilePlace, unfenced


@dataclass(frozen=True)
class Warehouse:
    """Hands out the places of a pipeline, so that nobody passes places and options by hand.

    `fence` is that of the pipeline's tables and of the ledger's rebuilding; rows that are only
    added to the tables of `ops/` need none.
    """

    places: Places
    options: Mapping[str, str]
    fence: Fence = unfenced

    @classmethod
    def of(cls, pipeline: str, settings: Settings) -> Warehouse:
        """That of the pipeline of this name, below the settings' root."""
        return cls(Places(settings.root, pipeline), settings.storage_options)

    def fenced(self, fence: Fence) -> Warehouse:
        """The warehouse for the owner of a lease, whose `check` the fence is."""
        return replace(self, fence=fence)

    @property
    def bronze(self) -> TablePlace:
        """Accepted rows."""
        return self.table_at(self.places.bronze)

    def bronze_of(self, pipeline: str) -> TablePlace:
        """Accepted rows of another pipeline below the same root, to be read only."""
        return TablePlace(replace(self.places, pipeline=pipeline).bronze, self.options)

    def lookup(self, name: str) -> TablePlace:
        """The pipeline's copy of a lookup."""
        return self.table_at(self.places.lookup(name))

    @property
    def rejects(self) -> TablePlace:
        """Rejected rows, with the reason."""
        return self.table_at(self.places.rejects)

    @property
    def retracted(self) -> TablePlace:
        """Rows that were taken out of bronze, by whom, and why."""
        return self.table_at(self.places.retracted)

    @property
    def replayed(self) -> TablePlace:
        """Rejects that came to bronze after all, by whom, and why."""
        return self.table_at(self.places.replayed)

    def changes(self, table: str, generation: int) -> TablePlace:
        """The append-only history of a table's windows in a generation."""
        return self.table_at(self.places.changes(table, generation))

    def gold(self, table: str) -> TablePlace:
        """What people read of a table."""
        return self.table_at(self.places.gold(table))

    def view(self, table: str, name: str) -> TablePlace:
        """A view of a table's gold."""
        return self.table_at(self.places.view(table, name))

    def clock(self, table: str, generation: int, side: str) -> TablePlace:
        """The clock rows of one side of a join."""
        return self.table_at(self.places.clock(table, generation, side))

    @property
    def results(self) -> FilePlace:
        """The result files of the pipeline's runs."""
        return self.file_at(self.places.results)

    @property
    def ledger(self) -> OpsPlace:
        """Where the pipeline accounts for its rows."""
        return self.ops_table("ledger")

    @property
    def runs(self) -> OpsPlace:
        """The pipeline's runs."""
        return self.ops_table("runs")

    @property
    def batches(self) -> OpsPlace:
        """What offset logs said of the batches of its tables."""
        return self.ops_table("batches")

    @property
    def upkeep(self) -> OpsPlace:
        """The upkeep of its checkpoints and tables."""
        return self.ops_table("upkeep")

    @property
    def quality(self) -> OpsPlace:
        """What its checks said."""
        return self.ops_table("quality")

    def ops_table(self, name: str) -> OpsPlace:
        """One of `OPS_TABLES`."""
        own, shared = f"{self.places.ops}/{name}", f"{self.places.shared_ops}/{name}"
        return OpsPlace(own, self.options, self.fence, self.places.pipeline, shared)

    def table_at(self, uri: str) -> TablePlace:
        """Any other table."""
        return TablePlace(uri, self.options, self.fence)

    def file_at(self, uri: str) -> FilePlace:
        """Any other file or folder."""
        return FilePlace(uri, self.options, self.fence)
