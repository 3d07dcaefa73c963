"""The handle of a Delta table: where it is, or will be, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tidemark.errors import StorageUnavailable, TableMismatch
from tidemark.pipeline.settings.storage_options import is_local
from tidemark.storage.delta.damage import check_newest_entries, check_no_file_in_the_way, not_opened
from tidemark.storage.delta.opened import OpenedTable
from tidemark.storage.file_place import FilePlace, asked_once, having, look_again

_HANDLES: ContextVar[dict[str, OpenedTable] | None] = ContextVar("handles", default=None)


@contextmanager
def shared_handles() -> Iterator[None]:
    """Within it a table that was opened is not read again as long as it has no newer version.

    For the steps of one run: nothing is kept behind it. A handle that its holder moves, by a commit
    or an update, moves for all that hold it. Another thread opens its own.
    """
    if _HANDLES.get() is not None:
        yield
        return
    with having(_HANDLES, {}):
        yield


def own_handles() -> AbstractContextManager[None]:
    """Within `shared_handles`, for what holds a table while it commits to it: each that opens a
    table has a handle of its own."""
    return having(_HANDLES, None)


@dataclass(frozen=True)
class TablePlace(FilePlace):
    """The place of a table.

    Whoever commits asks the fence between opening the table and the commit: a takeover of the lease
    before that is seen by it, and one after it changes the table, so that the commit fails.
    """

    def open(self) -> DeltaTable | None:
        """The table as it is now; None where there is none. Raises DataDamaged where its log makes
        no table, StorageUnavailable where it cannot be reached.

        Within `one_look` it is the same handle each time, within `shared_handles` as long as the
        table has no newer version.
        """
        return asked_once("table", self.uri, self._shared)

    def is_made(self) -> None:
        """Where nothing was, or something else, is the table now, by a write of this process."""
        look_again("table", self.uri)

    def _shared(self) -> OpenedTable | None:
        handles = _HANDLES.get()
        if handles is None:
            return self._opened()
        known = handles.pop(self.uri, None)
        table = known if known is not None and known.is_newest() else self._opened()
        if table is not None:
            handles[self.uri] = table
        return table

    def _opened(self) -> OpenedTable | None:
        try:
            table = OpenedTable(self)
        except TableNotFoundError:
            check_no_file_in_the_way(self.uri)
            return None
        except (DeltaError, OSError) as error:
            raise not_opened(self, error) from error
        except StorageUnavailable as error:
            told = f"The table {self.uri} could not be opened: {error}"
            raise StorageUnavailable(told) from error
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
        if not is_local(self.uri):
            # What is wrong is told by opening the newest one.
            with suppress(DeltaError, OSError):
                return OpenedTable(self, version)
        # A handle of its own goes back, that of a look stays.
        table = Context().run(self.existing)
        table.load_as_version(version)
        return table
