"""What a plan is made from: one listing of a checkpoint, and the few files that were opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.housekeeping.expired_state import OpenedSnapshot, snapshots_to_open
from tidemark.checkpoint.reading.facts import CheckpointFacts, Unreadable
from tidemark.checkpoint.reading.layout import Layout, sort_files
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.read import Limits, read_files
from tidemark.checkpoint.reading.read_state import ends_as_lz4, is_lz4, shared_files
from tidemark.checkpoint.reading.reader import CheckpointReader
from tidemark.checkpoint.reading.state_files import Store, StoreId
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts


@dataclass(frozen=True)
class CheckpointStock:
    """A checkpoint as it was listed and read. `snapshots`, by their names in each store's folder,
    are those that were opened, to see whether older versions can do without theirs."""

    files: Mapping[str, FileFacts]
    layout: Layout
    facts: CheckpointFacts
    snapshots: Mapping[StoreId, Mapping[str, OpenedSnapshot]] = field(default_factory=dict)


def first_kept(facts: CheckpointFacts, keep: int) -> int:
    """The oldest of the newest `keep` committed batches; may be below 0."""
    last = facts.commits.newest
    return (-1 if last is None else last) - keep + 1


def take_stock(place: FilePlace, keep: int) -> CheckpointStock:
    """List a checkpoint once and read of it what a plan needs.

    NotACheckpoint where the place is none, StorageUnavailable where it cannot be listed.
    """
    files = checkpoint_files(place)
    layout, reader = sort_files(files), CheckpointReader(place, files)
    facts = read_files(reader, layout, Limits())
    oldest = first_kept(facts, keep)
    stores = layout.stores.values() if oldest > 0 else ()
    lz4 = is_lz4(facts.conf)
    opened = {
        store.id: {
            name: _opened(reader, store, name, lz4) for name in snapshots_to_open(store, oldest)
        }
        for store in stores
    }
    return CheckpointStock(files, layout, facts, opened)


def _opened(reader: CheckpointReader, store: Store, name: str, lz4: bool) -> OpenedSnapshot:
    file = f"{store.id.folder}/{name}"
    found = reader.read(file, shared_files) if name.endswith(".zip") else reader.data(file)
    if isinstance(found, Unreadable):
        return OpenedSnapshot(f"{found.problem} {found.held}".strip())
    if isinstance(found, bytes):
        problem = "is cut off" if lz4 and not ends_as_lz4(found) else None
        shared: frozenset[str] = frozenset()
    else:
        gone = [one for one, size in found.items() if store.shared.get(one) != size]
        problem = f"lacks {shown(gone)} (gone, or of another size)" if gone else None
        shared = frozenset(found)
    if file in reader.wrong_checksums:
        problem = "does not match the checksum beside it"
    return OpenedSnapshot(problem, shared)
