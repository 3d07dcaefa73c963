"""Does a store keep what the platform rests on? Asked by writing to it, below the root.

A lease, and each commit of delta-rs, is a file that is created only where there is none: a store
that lets two writers win loses one of two commits, without an error. (Amazon S3: "conditional
writes"; delta-rs: `conditional_put=etag`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Barrier
from uuid import uuid4

from tidemark.errors import StorageUnavailable
from tidemark.pipeline.settings.storage_options import is_local
from tidemark.storage.files import (
    FileInTheWay,
    FileMissing,
    Options,
    e_tag_of,
    list_files,
    read_bytes,
    remove_folder,
    stat_files,
    write_bytes,
)

_WRITERS, _ROUNDS = 8, 16
_TEXT = b"Written by `tidemark doctor`; it may be removed.\n"


@dataclass(frozen=True)
class StoreFinding:
    """What one check has found: `problem` says what is wrong and what to do, None where it is well;
    `told` what was looked at. With `retry_can_help` the cause may pass."""

    check: str
    told: str
    problem: str | None = None
    retry_can_help: bool = False


# What a check has looked at, and what is wrong.
_Seen = tuple[str, str | None]


def check_store(
    root: str, options: Options, lease: timedelta, clock: Callable[[], datetime]
) -> Iterator[StoreFinding]:
    """Findings, one after the other; the first that fails is the last, for the others rest on it.

    Files are written to a folder of their own below `root`, and removed. `clock` tells the time in
    UTC; `lease` is the lease's length, by which the store's clock may differ.
    """
    folder = f"{root}/.tidemark-doctor-{uuid4()}"
    checks: tuple[tuple[str, Callable[[], _Seen]], ...] = (
        ("write, read", partial(_writes, folder, options)),
        ("list", partial(_lists, folder, options)),
        ("create if absent", partial(_creates_once, folder, options)),
        *([("entity tags", partial(_tags, folder, options))] if root.startswith("s3") else []),
        ("clock", partial(_clock, folder, options, lease, clock)),
        ("remove", partial(_removes, folder, options)),
    )
    try:
        for name, check in checks:
            try:
                found = StoreFinding(name, *check())
            except StorageUnavailable as error:
                lacks = isinstance(error, FileMissing)
                found = StoreFinding(name, root, _unreachable(error), retry_can_help=not lacks)
            yield found
            if found.problem is not None:
                return
    finally:
        _clean(folder, options)


def _unreachable(error: StorageUnavailable) -> str:
    if isinstance(error, FileMissing):
        return (
            "There is no such bucket. Make it (`--make-bucket` does), or name another in the "
            "settings' root."
        )
    return (
        f"{error} Compare the endpoint, the region, the bucket and the keys in the settings' "
        "storage_options with the store's."
    )


def _writes(folder: str, options: Options) -> _Seen:
    place = f"{folder}/written"
    write_bytes(place, _TEXT, options)
    if (found := read_bytes(place, options)) != _TEXT:
        return folder, f"{place} is read as {found[:60]!r}, not as written."
    return "a file is read as it was written", None


def _lists(folder: str, options: Options) -> _Seen:
    found = [place.rpartition("/")[2] for place in list_files(folder, options)]
    if found != ["written"]:
        return folder, f"{folder} has one file, and {found} are listed."
    return "a new file is listed at once", None


def _creates_once(folder: str, options: Options) -> _Seen:
    start = Barrier(_WRITERS)

    def create(place: str, writer: int) -> bool:
        start.wait()
        try:
            write_bytes(place, str(writer).encode(), options, create_only=True)
        except FileInTheWay:
            return False
        return True

    with ThreadPoolExecutor(_WRITERS) as pool:
        for round_ in range(_ROUNDS):
            place = f"{folder}/created-{round_}"
            won = list(pool.map(partial(create, place), range(_WRITERS)))
            if sum(won) != 1:
                return (
                    folder,
                    f"{sum(won)} of {_WRITERS} writers created the same file. Commits would be "
                    "lost here, without an error: do not use this store. Amazon S3, and stores "
                    "whose conditional writes are atomic, let one win (docs/cluster.md).",
                )
    return f"one of {_WRITERS} writers wins, {_ROUNDS} times", None


def _tags(folder: str, options: Options) -> _Seen:
    if e_tag_of(f"{folder}/written", options):
        return "S3A can tell versions of a file apart", None
    return (
        folder,
        "The store tells no ETag of a file, and S3A's default stream needs one. Have the store "
        "write them (a gateway over a file system tells none of files that it did not write).",
    )


def _clock(folder: str, options: Options, lease: timedelta, clock: Callable[[], datetime]) -> _Seen:
    place = f"{folder}/now"
    before = clock()
    write_bytes(place, _TEXT, options)
    after = clock()
    facts = stat_files([place], options)[place]
    if facts is None:
        return folder, f"{place} was written, and is not there."
    # Stores tell whole seconds.
    apart = max(before - facts.modified - timedelta(seconds=1), facts.modified - after)
    seconds = max(0.0, apart.total_seconds())
    if seconds > lease.total_seconds() / 2:
        whose = "this machine's" if is_local(folder) else "the store's"
        return (
            folder,
            f"This machine's clock and {whose} differ by {seconds:.0f} s, the lease's length is "
            f"{lease.total_seconds():.0f} s. Set the clocks (NTP).",
        )
    return f"differs from the store's by {seconds:.0f} s", None


def _removes(folder: str, options: Options) -> _Seen:
    _clean(folder, options)
    if left := list(list_files(folder, options)):
        return folder, f"{left[0]} was removed, and is still listed."
    return "files are gone when they are removed", None


def _clean(folder: str, options: Options) -> None:
    try:
        remove_folder(folder, options)
    except StorageUnavailable:
        return  # What could not be written cannot be removed either; the finding says why.
