"""A checkpoint as a query would leave it that never removed a file: logs, a Delta source, state.

Names and contents are those of Spark 4.2; the deltas hold no rows, as the doctor decodes none.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

PARTITIONS = 20
SNAPSHOT_EVERY = 10
# Of each batch, with their checksums: its offsets, its commit, a delta for each partition; and
# snapshots at times.
FILES_A_BATCH = 2 * (2 + PARTITIONS + PARTITIONS // SNAPSHOT_EVERY)
_MINUTE = 60_000
_BEGIN = 1_780_000_000_000
_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
}
# The block that ends a stream of LZ4.
_NO_ROWS = b"LZ4Block\x15" + bytes(12)


def write_checkpoint(folder: Path, files: int) -> int:
    """Write a checkpoint that ended cleanly, of about so many files; the exact number."""
    return write_batches(folder, max(1, files // FILES_A_BATCH), PARTITIONS)


def write_batches(folder: Path, batches: int, partitions: int) -> int:
    """Write a checkpoint that ended cleanly after so many batches; the number of its files."""
    for name in ("offsets", "commits", *(f"state/0/{p}" for p in range(partitions))):
        (folder / name).mkdir(parents=True)
    written = _write(folder / "metadata", b'{"id":"4f1c2d3e-4a5b-4c7d-8e9f-001122334455"}')
    for batch in range(batches):
        written += _write(folder / "offsets" / str(batch), _offsets(batch, partitions))
        mark = json.dumps({"nextBatchWatermarkMs": _BEGIN + batch * _MINUTE})
        written += _write(folder / "commits" / str(batch), f"v1\n{mark}".encode())
        endings = ["delta", "snapshot"] if batch % SNAPSHOT_EVERY == 0 else ["delta"]
        for partition in range(partitions):
            for ending in endings:
                state = folder / f"state/0/{partition}/{batch + 1}.{ending}"
                written += _write(state, _NO_ROWS)
    return written


def _offsets(batch: int, partitions: int) -> bytes:
    metadata = {
        "batchWatermarkMs": _BEGIN + batch * _MINUTE,
        "batchTimestampMs": _BEGIN + (batch + 10) * _MINUTE,
        "conf": _CONF | {"spark.sql.shuffle.partitions": str(partitions)},
    }
    source = {
        "sourceVersion": 1,
        "reservoirId": "5f1c2d3e-4a5b-4c7d-8e9f-001122334455",
        "reservoirVersion": batch,
        "index": -1,
        "isStartingVersion": False,
    }
    return f"v1\n{json.dumps(metadata)}\n{json.dumps(source)}".encode()


def _write(path: Path, data: bytes) -> int:
    """A file and its checksum; two files."""
    path.write_bytes(data)
    sums = struct.pack(">4siI", b"crc\0", 512, zlib.crc32(data))
    (path.parent / f".{path.name}.crc").write_bytes(sums)
    return 2
