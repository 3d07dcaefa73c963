"""The handle of a Delta table: where it is, or will be, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tidemark.errors import TableMismatch

Fence = Callable[[], None]


def unfenced() -> None:
    """Of a place that is only read, or that all pipelines write without a lease."""


@dataclass(frozen=True)
class TablePlace:
    """The place of a table: its path or URI, the storage options that reach it, and the fence.

    `fence` raises LeaseLost where this process may not write any more. Whoever commits calls it
    between opening the table and the commit: a takeover of the lease before that is seen by it, and
    one after it changes the table, so that the commit fails.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)
    fence: Fence = unfenced

    def open(self) -> DeltaTable | None:
        """The table as it is now; None where there is none."""
        try:
            return DeltaTable(self.uri, storage_options=dict(self.options))
        except TableNotFoundError:
            return None

    def existing(self) -> DeltaTable:
        """The table, which a run has made. Raises TableMismatch where it is gone."""
        table = self.open()
        if table is None:
            raise TableMismatch(
                f"There is no Delta table {self.uri}, though a run has made it. Nothing was "
                "written to it. Was the root moved or cleared since? Run the pipeline again."
            )
        return table

    def at_version(self, version: int) -> DeltaTable:
        """The table, which a run has made, as it was at a version."""
        table = self.existing()
        table.load_as_version(version)
        return table
