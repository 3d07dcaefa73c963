"""Which data files of a table are worth packing together: pure.

delta-rs packs the small files of a partition into files of up to 100 MB
(`delta.targetFileSize`, its default); which ones it then takes is its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemark.upkeep.maintenance.plan import Part, Work

_TARGET = 100 * 1024 * 1024
# A partition of fewer reads as well, and packing it anew each day would write its rows each day.
_FEWEST = 4


@dataclass(frozen=True)
class DataFile:
    """A file of a table's newest version. `partition` is empty in a table without partitions."""

    partition: str
    size: int


def small_files(files: Iterable[DataFile]) -> Mapping[str, list[DataFile]]:
    """The small files of each partition that has enough of them."""
    found: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.size < _TARGET:
            found[file.partition].append(file)
    return {key: small for key, small in found.items() if len(small) >= _FEWEST}


def compaction_part(files: Sequence[DataFile], packed: Mapping[str, list[DataFile]]) -> Part:
    """The compaction in numbers."""
    going = [file for small in packed.values() for file in small]
    reason = f"partitions with at least {_FEWEST} files below 100 MB: {len(packed)}"
    return Part(
        Work.COMPACTION,
        len(files),
        sum(file.size for file in files),
        len(going),
        sum(file.size for file in going),
        reason,
    )
