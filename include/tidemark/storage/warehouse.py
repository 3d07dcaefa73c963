"""The tables and files of a pipeline, and those that it shares with others, as handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import Fence, FilePlace, unfenced


@dataclass(frozen=True)
class Warehouse:
    """Hands out the places of a pipeline, so that nobody passes places and options by hand.

    `fence` is that of the pipeline's own places and of the ledger's rebuilding; rows that are only
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
    def ledger(self) -> TablePlace:
        """Where all pipelines account for their rows."""
        return self.table_at(self.places.ledger)

    @property
    def runs(self) -> TablePlace:
        """The runs of all pipelines."""
        return self.table_at(self.places.runs)

    @property
    def batches(self) -> TablePlace:
        """What offset logs said of the batches of all pipelines' tables."""
        return self.table_at(self.places.batches)

    @property
    def upkeep(self) -> TablePlace:
        """The upkeep of all pipelines' checkpoints and tables."""
        return self.table_at(self.places.upkeep)

    @property
    def quality(self) -> TablePlace:
        """What the checks of all pipelines said."""
        return self.table_at(self.places.quality)

    def table_at(self, uri: str) -> TablePlace:
        """Any other table."""
        return TablePlace(uri, self.options, self.fence)

    def file_at(self, uri: str) -> FilePlace:
        """Any other file or folder."""
        return FilePlace(uri, self.options, self.fence)
