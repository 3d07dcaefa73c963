"""The handle of a Delta table: where it is, or will be, and how it is reached."""

from __future__ import annotations

from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tidemark.errors import TableMismatch
from tidemark.pipeline.settings.storage_options import delta_options
from tidemark.storage.delta.damage import (
    check_newest_entries,
    check_no_file_in_the_way,
    not_opened,
)
from tidemark.storage.file_place import FilePlace


@dataclass(frozen=True)
class TablePlace(FilePlace):
    """The place of a table.

    Whoever commits asks the fence between opening the table and the commit: a takeover of the lease
    before that is seen by it, and one after it changes the table, so that the commit fails.
    """

    def open(self) -> DeltaTable | None:
        """The table as it is now; None where there is none. Raises DataDamaged where its log makes
        no table, StorageUnavailable where it cannot be reached."""
        try:
            table = DeltaTable(self.uri, storage_options=delta_options(self.options))
        except TableNotFoundError:
            check_no_file_in_the_way(self.uri)
            return None
        except (DeltaError, OSError) as error:
            raise not_opened(self, error) from error
        check_newest_entries(self.uri, table.version())
        return table

    def existing(self) -> DeltaTable:
        """The table, which a run has made. Raises TableMismatch where it is gone."""
        table = self.open()
        if table is None:
            raise TableMismatch(
                f"There is no Delta table {self.uri}, though a run has made it. Nothing was "
                "written to it. Was the root moved, or the table's folder removed? `tidemark "
                "status` says what rests on it, and what to do."
            )
        return table

    def at_version(self, version: int) -> DeltaTable:
        """The table, which a run has made, as it was at a version."""
        table = self.existing()
        table.load_as_version(version)
        return table
