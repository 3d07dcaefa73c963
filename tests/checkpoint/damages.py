"""Every kind of damage to a checkpoint that the doctor and the engine are compared on.

Each is done to a copy of a committed checkpoint of Spark 4.2 whose query had ended cleanly: eight
batches, every other one without data, two partitions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.checkpoint.archives import checksum_of, land
from tests.checkpoint.damaged import edit_offsets, remove, twin, write

HDFS = "4.2.0/aggregate-hdfs"
SNAPSHOTS = "4.2.0/aggregate-hdfs-snapshots"
ROCKSDB = "4.2.0/aggregate-rocksdb"
CHANGELOG = "4.2.0/aggregate-changelog"
LAST = 7
# The last batch with rows; the one after it only applied its watermark.
DATA_BATCH = 6

Act = Callable[[Path], None]


@dataclass(frozen=True)
class Damage:
    """What is done, in words and as an act on the checkpoint's folder, to which checkpoint."""

    title: str
    act: Act
    base: str = HDFS


def removed(*names: str) -> Act:
    """Files go with their checksums; folders whole."""

    def act(folder: Path) -> None:
        for name in names:
            for path in _matching(folder, name):
                shutil.rmtree(path) if path.is_dir() else remove(path)

    return act


def emptied(name: str) -> Act:
    def act(folder: Path) -> None:
        for path in _matching(folder, name):
            write(path, b"")

    return act


def cut(name: str, keep: float = 0.5) -> Act:
    """The file ends early, and no checksum tells."""

    def act(folder: Path) -> None:
        for path in _matching(folder, name):
            data = path.read_bytes()
            write(path, data[: int(len(data) * keep)])

    return act


def cut_with_checksum(name: str) -> Act:
    """The file ends early, and the checksum beside it is that of the whole file."""

    def act(folder: Path) -> None:
        (path,) = _matching(folder, name)
        assert twin(path).exists()
        path.write_bytes(path.read_bytes()[:-3])

    return act


def both(*acts: Act) -> Act:
    def act(folder: Path) -> None:
        for one in acts:
            one(folder)

    return act


def _matching(folder: Path, name: str) -> list[Path]:
    found = sorted(folder.glob(name))
    assert found, f"{name} is not in {folder}"
    return found


def other_query(folder: Path) -> None:
    write(folder / "metadata", b'{"id":"00000000-0000-4000-8000-000000000000"}')


def other_checksum(folder: Path) -> None:
    twin(folder / "metadata").write_bytes(checksum_of(b"{}"))


def goes_back(folder: Path) -> None:
    """The last batch's offsets are those of a writer that was not as far."""
    path = folder / "offsets" / str(LAST)
    version, metadata, _ = path.read_text().split("\n")
    write(path, "\n".join([version, metadata, '{"logOffset":1}']).encode())


def clock_back(folder: Path) -> None:
    edit_offsets(folder, LAST, batchTimestampMs=1)


def far_ahead(folder: Path) -> None:
    """One event of the year 2100 has moved the watermark."""
    ahead = 4_102_444_800_000
    edit_offsets(folder, LAST, batchWatermarkMs=ahead)
    write(folder / f"commits/{LAST}", f'v1\n{{"nextBatchWatermarkMs":{ahead}}}'.encode())


def newer_format(folder: Path) -> None:
    path = folder / "offsets" / str(LAST)
    write(path, b"v9" + path.read_bytes()[2:])


# As if the process had ended after batch 6 had written its state, and before it was committed.
killed = removed(
    f"commits/{LAST}", f"offsets/{LAST}", f"commits/{DATA_BATCH}", f"state/0/*/{LAST + 1}.*"
)


def leftovers(folder: Path) -> None:
    uuid = "0f1c2d3e-4a5b-6c7d-8e9f-001122334455"
    for name in (f"offsets/.8.{uuid}.tmp", f"state/0/0/.9.delta.{uuid}.TID12.tmp"):
        (folder / name).write_bytes(b"v1")
    write(folder / "commits" / "0", (folder / "commits" / "0").read_bytes())
    (folder / "commits" / ".99.crc").write_bytes(checksum_of(b""))


def stray_snapshot(folder: Path) -> None:
    """A snapshot of a version that this log never wrote, of another time: its sums are older."""
    for partition in ("0", "1"):
        store = folder / "state/0" / partition
        newest = max(store.glob("*.snapshot"), key=lambda path: int(path.stem))
        oldest = min(store.glob("*.snapshot"), key=lambda path: int(path.stem))
        assert newest != oldest
        shutil.copy(oldest, store / f"{LAST + 2}.snapshot")


def stray_delta(folder: Path) -> None:
    shutil.copy(folder / "state/0/0/2.delta", folder / "state/0/0/12.delta")


def source_file_gone(folder: Path) -> None:
    (folder.parent / "input/3.json").unlink()


def source_file_changed(folder: Path) -> None:
    """A row is added to a file that was taken already."""
    file = land(folder.parent / "input", 3)
    row = {"at": "2026-07-01T10:36:30", "key": "k0", "amount": 1_000}
    file.write_text(file.read_text() + json.dumps(row) + "\n")


DAMAGES: dict[str, Damage] = {
    "none": Damage("nothing", lambda folder: None),
    "offsets-last-missing": Damage("last offsets missing", removed(f"offsets/{LAST}")),
    "offsets-last-empty": Damage("last offsets empty", emptied(f"offsets/{LAST}")),
    "offsets-last-cut": Damage("last offsets cut in the middle", cut(f"offsets/{LAST}")),
    "offsets-last-of-killed-empty": Damage(
        "killed in a batch, its offsets empty", both(killed, emptied(f"offsets/{DATA_BATCH}"))
    ),
    "offsets-before-missing": Damage("last but one offsets missing", removed("offsets/6")),
    "offsets-before-empty": Damage("last but one offsets empty", emptied("offsets/6")),
    "offsets-old-missing": Damage("older offsets missing (a gap)", removed("offsets/3")),
    "offsets-old-empty": Damage("older offsets empty", emptied("offsets/3")),
    "offsets-all-missing": Damage("`offsets` gone", removed("offsets")),
    "offsets-format": Damage("last offsets of a newer format", newer_format),
    "commit-last-missing": Damage("last commit missing", removed(f"commits/{LAST}")),
    "commit-last-empty": Damage("last commit empty", emptied(f"commits/{LAST}")),
    "commit-last-cut": Damage("last commit cut in the middle", cut(f"commits/{LAST}")),
    "commits-two-missing": Damage("last two commits missing", removed("commits/[67]")),
    "commit-old-missing": Damage("older commit missing (a gap)", removed("commits/3")),
    "commits-all-missing": Damage("`commits` gone", removed("commits")),
    "metadata-missing": Damage("`metadata` missing", removed("metadata")),
    "metadata-empty": Damage("`metadata` empty", emptied("metadata")),
    "metadata-cut": Damage("`metadata` cut in the middle", cut("metadata")),
    "metadata-other": Damage("`metadata` of another query", other_query),
    "delta-missing": Damage("a delta missing", removed("state/0/0/5.delta")),
    "delta-empty": Damage("a delta empty", emptied("state/0/0/5.delta")),
    "delta-cut": Damage("a delta cut, no checksum beside it", cut("state/0/0/5.delta")),
    "delta-checksum": Damage(
        "a delta cut, its checksum there", cut_with_checksum("state/0/0/5.delta")
    ),
    "delta-last-missing": Damage("the last delta missing", removed("state/0/*/8.delta")),
    "partition-missing": Damage("a partition's folder gone", removed("state/0/1")),
    "state-missing": Damage("`state` gone", removed("state")),
    "schema-missing": Damage("the state's schema missing", removed("state/0/0/_metadata/schema")),
    "schema-cut": Damage("the state's schema cut", cut("state/0/0/_metadata/schema")),
    "operator-missing": Damage("operator metadata missing", removed("state/0/_metadata/metadata")),
    "operator-cut": Damage("operator metadata cut", cut("state/0/_metadata/metadata")),
    "snapshot-missing": Damage(
        "a snapshot missing, its deltas there", removed("state/0/0/*.snapshot"), SNAPSHOTS
    ),
    "snapshot-and-delta-missing": Damage(
        "snapshots and an older delta missing",
        removed("state/0/0/*.snapshot", "state/0/0/1.delta"),
        SNAPSHOTS,
    ),
    "snapshot-empty": Damage(
        "snapshots empty, the deltas there",
        emptied("state/0/0/*.snapshot"),
        SNAPSHOTS,
    ),
    "snapshot-cut": Damage(
        "snapshots cut, no checksum beside them", cut("state/0/0/*.snapshot"), SNAPSHOTS
    ),
    "state-ahead-snapshot": Damage(
        "snapshots of versions that no batch wrote", stray_snapshot, SNAPSHOTS
    ),
    "state-ahead-delta": Damage("a delta of a version that no batch wrote", stray_delta),
    "zip-missing": Damage("RocksDB: the last zip missing", removed("state/0/0/8.zip"), ROCKSDB),
    "zip-cut": Damage("RocksDB: the last zip cut", cut("state/0/0/8.zip"), ROCKSDB),
    "zip-empty": Damage("RocksDB: the last zip empty", emptied("state/0/0/8.zip"), ROCKSDB),
    "sst-missing": Damage(
        "RocksDB: shared files missing", removed("state/0/0/SSTs/*.sst"), ROCKSDB
    ),
    "sst-cut": Damage("RocksDB: shared files cut", cut("state/0/0/SSTs/*.sst"), ROCKSDB),
    "changelog-missing": Damage(
        "changelog: the last one missing",
        both(removed("state/0/0/8.zip"), removed("state/0/0/8.changelog")),
        CHANGELOG,
    ),
    "changelog-cut": Damage(
        "changelog: the last one cut",
        both(removed("state/0/0/8.zip"), cut("state/0/0/8.changelog")),
        CHANGELOG,
    ),
    "changelog-empty": Damage(
        "changelog: the last one empty",
        both(removed("state/0/0/8.zip"), emptied("state/0/0/8.changelog")),
        CHANGELOG,
    ),
    "list-last-missing": Damage("last list of files missing", removed("sources/0/3")),
    "list-last-empty": Damage("last list of files empty", emptied("sources/0/3")),
    "list-last-cut": Damage("last list of files cut", cut("sources/0/3")),
    "list-old-missing": Damage("an older list of files missing", removed("sources/0/1")),
    "lists-missing": Damage("`sources` gone", removed("sources")),
    "source-gone": Damage("a listed file gone", source_file_gone),
    "source-changed": Damage("a listed file changed", source_file_changed),
    "killed": Damage("killed in a batch", killed),
    "killed-source-gone": Damage(
        "killed in a batch, a file of it gone", both(killed, source_file_gone)
    ),
    "killed-source-changed": Damage(
        "killed in a batch, a file of it changed", both(killed, source_file_changed)
    ),
    "killed-list-missing": Damage(
        "killed in a batch, its list of files missing", both(killed, removed("sources/0/3"))
    ),
    "leftovers": Damage("leftovers of dead runs", leftovers),
    "checksum-commit": Damage(
        "last commit, its checksum differs", cut_with_checksum(f"commits/{LAST}")
    ),
    "checksum-metadata": Damage("`metadata`, its checksum differs", cut_with_checksum("metadata")),
    "checksum-alone": Damage("`metadata`, its checksum is of another file", other_checksum),
    "two-writers": Damage("two writers: a source goes back", goes_back),
    "clock-back": Damage("two writers: a batch's time goes back", clock_back),
    "watermark-ahead": Damage("a watermark far ahead", far_ahead),
}
