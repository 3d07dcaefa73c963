"""A pipeline that is no longer in the files is removed from the root, with all that it wrote.

Everything that a pipeline writes lies in a folder of its own, but for two things: small files by
which other pipelines know that its tables join with their bronze, and rows in the tables of `ops`
that pipelines shared in former versions. Its lease is held meanwhile, and goes last: killed
anywhere, a repetition finds what is left by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidemark.commit_point import commit_point
from tidemark.errors import RemovalRefused
from tidemark.gold.other_readers import OtherReader, forget_reader, if_no_more, other_readers
from tidemark.pipeline.granted import is_below
from tidemark.pipeline.load import load_pipelines, pipeline_files
from tidemark.pipeline.names import check_folder_name
from tidemark.pipeline.places import OPS_TABLES, Places
from tidemark.pipeline.problems import why_not
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.runs.own_folder import why_not_to_clear
from tidemark.storage.delta.ops_place import note_moved
from tidemark.storage.files import (
    list_folder,
    name_below,
    remove_files,
    remove_folder,
)
from tidemark.storage.lease.lease import hold_lease, read_lease, this_process
from tidemark.storage.root import check_root
from tidemark.storage.warehouse import Warehouse

_UNTOUCHED = "Nothing was removed."
_LEASE = "lease"


@dataclass(frozen=True)
class Removal:
    """What goes with a pipeline: `parts` of its folder, other folders and files, each with the
    number of its files and their bytes, and `reads`: whose bronze its tables are noted to join
    with."""

    pipeline: str
    parts: Mapping[str, tuple[int, int]]
    reads: tuple[tuple[str, OtherReader], ...]


def plan_removal(pipeline: str, settings: Settings) -> Removal:
    """What there is of a pipeline; only reads.

    RemovalRefused while its file is there, while tables of other pipelines join with its bronze or
    others read what lies in its folder, where something lies there that is another's, or where the
    root has no folder of a pipeline of this name. RootMissing.
    """
    check_root(settings)
    if file := next((one for one in pipeline_files(settings.pipelines_folder)
                     if one.stem == pipeline), None):  # fmt: skip
        raise RemovalRefused(
            f"{file} describes {pipeline}: its Dag would begin it anew, with its source from the "
            f"beginning. {_UNTOUCHED} Remove the file first."
        )
    warehouse = _known(pipeline, settings)
    if readers := other_readers(warehouse):
        raise RemovalRefused(
            f"Tables of other pipelines join with the bronze of {pipeline}: "
            f"{', '.join(one.name for one in readers)}. {_UNTOUCHED} Let these begin a generation "
            "without the join (`tidemark migrate`), or remove their pipelines first. "
            f"{if_no_more(warehouse, readers)}"
        )
    folder = warehouse.places.folder
    for why, way_out in read_below(folder, settings):
        raise RemovalRefused(f"{why} {_UNTOUCHED} {way_out}")
    there = warehouse.file_at(folder)
    found = sorted((there.real_files() | there.staged()).items())
    if because := why_not_to_clear(warehouse, (name_below(folder, place) for place, _ in found)):
        raise RemovalRefused(f"{because} {_UNTOUCHED}")
    sizes: dict[str, tuple[int, int]] = {}
    for place, facts in found:
        part = name_below(folder, place).partition("/")[0]
        files, size = sizes.get(part, (0, 0))
        sizes[part] = files + 1, size + facts.size
    return Removal(pipeline, sizes, tuple(noted_readings(pipeline, settings)))


def _known(pipeline: str, settings: Settings) -> Warehouse:
    try:
        check_folder_name(pipeline, "pipeline")
    except ValueError as error:
        raise RemovalRefused(f"{pipeline!r} {error}. {_UNTOUCHED}") from error
    warehouse = Warehouse.of(pipeline, settings)
    # A folder of landed files, say, has none.
    if read_lease(warehouse.places.lease, warehouse.options) is None:
        raise RemovalRefused(
            f"{warehouse.places.folder} is no folder that a pipeline has written. {_UNTOUCHED}"
        )
    return warehouse


def noted_readings(pipeline: str, settings: Settings) -> Iterator[tuple[str, OtherReader]]:
    """Whose bronze tables of a pipeline are noted to join with."""
    for name, is_folder in sorted(list_folder(settings.root, settings.storage_options).items()):
        # As `lost+found`, which only root may read.
        is_none = why_not(check_folder_name, name, "pipeline")
        if is_folder and not is_none:
            readers = other_readers(Warehouse.of(name, settings))
            yield from ((name, one) for one in readers if one.pipeline == pipeline)


def read_below(folder: str, settings: Settings) -> Iterator[tuple[str, str]]:
    """Which pipelines of the files read what lies in a folder, as their source or a lookup, or may
    do so, as their file is invalid; each with the way out."""
    found, invalid = load_pipelines(settings.pipelines_folder)
    for one in found:
        places = Places(settings.root, one.name)
        named = (one.source.named_place, *(lookup.place for lookup in one.lookup.values()))
        read = (places.source(place) for place in named if place)
        for place in read:
            if is_below(place, folder):
                why = f"{one.name} reads {place}, which would be gone."
                yield why, "Let it read another place, or remove it first."
    for error in invalid:
        why = f"{error.file} is invalid, so that nobody can tell what it reads."
        yield why, "Correct it (`tidemark validate`), or take it away."


def remove(removal: Removal, settings: Settings, run_id: str) -> Removal:
    """Remove it, under its lease: what has gone. Safe to repeat. LeaseHeld while something works on
    it, and what `plan_removal` raises."""
    warehouse = Warehouse.of(removal.pipeline, settings)
    with hold_lease(
        warehouse.places.lease,
        this_process(run_id, "remove"),
        warehouse.options,
        settings.lease_seconds,
        # There is nothing to fence: all of it goes.
        on_takeover=lambda _: (),
        ends_processes=False,
    ) as lease:
        # What was planned without the lease may be so no more.
        removal = plan_removal(removal.pipeline, settings)
        for other, reader in removal.reads:
            forget_reader(Warehouse.of(other, settings), reader)
        for table in OPS_TABLES:
            place = warehouse.ops_table(table)
            if (shared := place.not_moved()) is not None:
                note_moved(place, shared)
        for name in removal.parts:
            if name != _LEASE:
                lease.check()
                _remove(warehouse, name)
    _remove(warehouse, _LEASE)
    return removal


@commit_point(
    "part of a removed pipeline",
    after_a_kill="before and after: the pipeline's lease is there yet, and a repetition removes "
    "what is left",
)
def _remove(warehouse: Warehouse, name: str) -> None:
    place = f"{warehouse.places.folder}/{name}"
    if warehouse.file_at(warehouse.places.folder).names().get(name):
        remove_folder(place, warehouse.options)
    else:
        remove_files([place], warehouse.options)
    if name == _LEASE and is_local(place):
        # Another pipeline may get the name (`tidemark rename`).
        with suppress(OSError):
            Path(local_path(place)).parent.rmdir()
