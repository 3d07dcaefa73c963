"""What is wrong with a table that cannot be opened, or with a file that is not there.

delta-rs and Arrow say it with native backtraces, without the table or without the file, and in
errors of the same classes as those of a store that is away for a moment.
"""

from __future__ import annotations

import re
from pathlib import Path

from tidemark.errors import DataDamaged, StorageUnavailable, TableUnsupported, TidemarkError
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import unanswered
from tidemark.storage.json_text import json_value

LOG = "_delta_log"
# What delta-rs says of a log that it read, and that makes no table.
_LOG_FAULTS = (
    *("Json error", "Arrow error", "Invalid Checkpoint", "contiguous commit files"),
    "Parquet error",
    *("No table metadata or protocol", "MissingMetadata", "MissingProtocol", "Missing commit"),
)
_FILE_FAULTS = (
    *("FileNotFoundException", "FILE_NOT_EXIST", "CANNOT_READ_FILE_FOOTER"),
    "is not a Parquet file",
    *("Failed to open local file", "No such file or directory", "not a parquet file"),
    *("Requested range was invalid", "Parquet file size is 0 bytes", "corrupt", "footer"),
)
# What delta-kernel says of a table that it understands too little of (its class Error).
_UNSUPPORTED = re.compile(
    r"Kernel error: (?:Unsupported|Invalid protocol action|Max catalog version)"
)
# What delta-rs says, in the class of a lost race, of a table that it reads and cannot write.
_READ_ONLY = re.compile(r"Unsupported table features required: \[(.*)\]")
_FEATURE = re.compile(r"(?<=Feature ')[^']+|catalog-managed")
# A whole path may have blanks in it, up to where another one begins; else a name ends at a blank.
_FILE = re.compile(
    r"""(?:(?:[a-z][a-z0-9+.-]*:/+|/)(?:(?!:\s|\s/|:/)[^\n'"`()])*?|[^\s'"`(]*)"""
    r"""\.(?:snappy\.)?(?:parquet|delta|snapshot|crc)\b"""
)
# So many of the newest log entries are looked at each time that a local table is opened.
_NEWEST = 10
_RESTORE = (
    "Nothing was written to it. Starting again does not help: restore the file from a backup, or "
    "see docs/damage.md for what can be computed again"
)


def not_opened(place: FilePlace, error: Exception) -> TidemarkError:
    """The error of a table that delta-rs did not open."""
    reason = _first_line(error)
    if _UNSUPPORTED.search(str(error)):
        named = _FEATURE.search(str(error))
        what = f"the feature {named[0]}" if named else "a version of Delta's protocol"
        return TableUnsupported(
            f"The table {place.uri} has {what} that is not known here: {reason}. Nothing was read "
            "or written."
        )
    if not any(fault in str(error) for fault in _LOG_FAULTS):
        reason = unanswered(error) or reason
        return StorageUnavailable(f"The table {place.uri} could not be opened: {reason}")
    found = _broken_entry(place)
    return DataDamaged(
        f"The log of the table {place.uri} is damaged: {found or LOG}: {reason}. {_RESTORE}."
    )


def not_committed(uri: str, error: Exception, raced: str) -> TidemarkError:
    """The error of a commit that delta-rs refused: `raced` says what another one excluded."""
    features = _READ_ONLY.search(str(error))
    if features is None:
        return StorageUnavailable(raced)
    return TableUnsupported(
        f"The table {uri} has got features that cannot be written here: {features[1]}. This commit "
        "was not made, and trying again does not help. Have whoever turned them on drop them "
        "(ALTER TABLE … DROP FEATURE), or put the table back from a backup of before."
    )


def check_no_file_in_the_way(uri: str) -> None:
    """DataDamaged where a part of a local table's path is a file, StorageUnavailable where that may
    not be looked at: delta-rs takes the table for one that is not there."""
    if not is_local(uri):
        return
    place = Path(local_path(uri))
    for one in (place, *place.parents):
        try:
            is_file = one.is_file()
        except OSError as error:
            told = f"The table {uri} could not be opened: {error.strerror}: {one}"
            raise StorageUnavailable(told) from error
        if is_file:
            raise DataDamaged(
                f"{one} is a file, and the table {uri} should lie there. Nothing was written. "
                "Move the file away: the next run makes the table anew."
            )


def check_newest_entries(uri: str, version: int) -> None:
    """DataDamaged where one of a local table's newest log entries is empty, as a crash of the
    machine leaves it, or the newest is gone beside its checkpoint. delta-rs takes the first for a
    commit that did nothing, opens the second, and then cannot write to it."""
    if not is_local(uri):
        return
    for number in range(max(0, version - _NEWEST + 1), version + 1):
        entry = Path(local_path(uri), LOG, f"{number:020}.json")
        try:
            fault = "is empty" if entry.stat().st_size == 0 else None
        except FileNotFoundError:
            # Those below a checkpoint may be gone.
            fault = "is gone" if number == version else None
        except OSError:
            continue
        if fault:
            raise DataDamaged(
                f"The log of the table {uri} is damaged: {LOG}/{entry.name} {fault}, so that "
                f"what its commit did is lost. {_RESTORE}."
            )


def damage_of(error: BaseException) -> DataDamaged | None:
    """An error told as damage, where it says that a data file is gone or broken; else None."""
    text = str(error)
    if isinstance(error, TidemarkError) or not any(fault in text for fault in _FILE_FAULTS):
        return None
    found = _FILE.search(text)
    if found is None:
        return None
    return DataDamaged(
        f"{found[0]} is gone or broken, and is needed. {_RESTORE}. It was said: "
        f"{_first_line(error)[:500]}"
    )


def _broken_entry(place: FilePlace) -> str | None:
    """Which file of the log it is; None where all look well."""
    log = place.folder(LOG)
    try:
        files = {uri.rpartition("/")[2]: facts for uri, facts in log.files().items()}
        numbers = sorted(int(name[:20]) for name in files if re.fullmatch(r"\d{20}\.json", name))
        whole = [
            int(name[:20])
            for name in files
            if re.match(r"\d{20}\.checkpoint", name) and files[name].size > 12
        ]
        if "_last_checkpoint" in files:
            named = int(json_value(log.read("_last_checkpoint"))["version"])
            if named not in whole:
                begins = not numbers or numbers[0] == 0
                hint = (
                    " (all log entries are there: remove it, it is a hint only)" if begins else ""
                )
                return (
                    f"{LOG}/_last_checkpoint names version {named}, which has no checkpoint{hint}"
                )
        for number in range(max(whole, default=0), max(numbers, default=0) + 1):
            name = f"{number:020}.json"
            if number not in numbers:
                if number not in whole:
                    return f"{LOG}/{name} is not there"
            elif not is_entry(log.read(name)):
                return f"{LOG}/{name}"
    except (TidemarkError, ValueError, KeyError):
        return None
    return None


def is_entry(data: bytes) -> bool:
    """Is it an entry of a log, each line of it?"""
    try:
        return bool(data) and all(json_value(line, whole=int) for line in data.splitlines())
    except ValueError:
        return False


def _first_line(error: BaseException) -> str:
    """Without a backtrace and without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return " ".join(re.split(r"\n\s+0: ", text)[0].split())[:800].rstrip(".")
