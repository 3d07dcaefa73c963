"""The tables of a pipeline, and those that it shares with others, as handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.place import Fence, TablePlace, unfenced


@dataclass(frozen=True)
class Warehouse:
    """Hands out the tables of a pipeline, so that nobody passes places and options by hand.

    `fence` is that of the pipeline's own tables and of the ledger's rebuilding; rows that are only
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
        """The same for the owner of a lease, whose `check` the fence is."""
        return replace(self, fence=fence)

    @property
    def bronze(self) -> TablePlace:
        """Accepted rows."""
        return self._at(self.places.bronze)

    @property
    def rejects(self) -> TablePlace:
        """Rejected rows, with the reason."""
        return self._at(self.places.rejects)

    def changes(self, table: str) -> TablePlace:
        """The append-only history of a table's windows."""
        return self._at(self.places.changes(table))

    def gold(self, table: str) -> TablePlace:
        """What people read of a table."""
        return self._at(self.places.gold(table))

    @property
    def ledger(self) -> TablePlace:
        """Where all pipelines account for their rows."""
        return self._at(self.places.ledger)

    @property
    def runs(self) -> TablePlace:
        """The runs of all pipelines."""
        return self._at(self.places.runs)

    @property
    def batches(self) -> TablePlace:
        """What offset logs said of the batches of all pipelines' tables."""
        return self._at(self.places.batches)

    @property
    def upkeep(self) -> TablePlace:
        """The upkeep of all pipelines' checkpoints and tables."""
        return self._at(self.places.upkeep)

    @property
    def quality(self) -> TablePlace:
        """What the checks of all pipelines said."""
        return self._at(self.places.quality)

    def _at(self, uri: str) -> TablePlace:
        return TablePlace(uri, self.options, self.fence)
