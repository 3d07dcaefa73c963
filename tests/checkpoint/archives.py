"""Checkpoints as they are committed: one `.tar.xz` each, the engine's answers beside it.

Needs nothing but Python, as `make_checkpoints.py` runs in environments without Tidemark.
"""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MADE = Path(__file__).parent / "data" / "made"
# Stands in a committed checkpoint for the folder in which it was made.
PLACE = "/tidemark-made"
_CHUNK = 512


def usual_rows(number: int) -> list[dict[str, Any]]:
    """Six rows of the ten minutes of run `number`, whose keys repeat."""
    return [
        {"at": f"2026-07-01T10:{number * 10 + row:02}:00", "key": f"k{row % 3}", "amount": row}
        for row in range(6)
    ]


def land(landing: Path, number: int, rows: list[dict[str, Any]] | None = None) -> Path:
    """The file that run `number` of a query takes: the usual rows, or those that are given."""
    landing.mkdir(parents=True, exist_ok=True)
    file = landing / f"{number}.json"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows or usual_rows(number)))
    return file


def names() -> list[str]:
    """The committed checkpoints, as `VERSION/KIND`."""
    return sorted(str(p.relative_to(MADE))[: -len(".tar.xz")] for p in MADE.rglob("*.tar.xz"))


def answers(name: str) -> dict[str, Any]:
    """What the engine said of a committed checkpoint when it had made it."""
    return dict(json.loads((MADE / f"{name}.json").read_text()))


def pack(made: Path, archive: Path) -> None:
    """Pack `made/checkpoint`; the same files give the same bytes."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    _rename(made / "checkpoint", str(made), PLACE)
    with tarfile.open(archive, "w:xz", preset=9) as out:
        for file in sorted(p for p in (made / "checkpoint").rglob("*") if p.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(made)))
            entry.size = file.stat().st_size
            out.addfile(entry, io.BytesIO(file.read_bytes()))


def unpack(name: str, folder: Path) -> Path:
    """Unpack a committed checkpoint below `folder`; a file source's files are then looked for in
    `folder/input`. The checkpoint's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(MADE / f"{name}.tar.xz") as archive:
        # Python before 3.11.4, which Debian 12 has, knows no filters; the archives are our own.
        archive.extractall(
            folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    _rename(folder / "checkpoint", PLACE, str(folder))
    return folder / "checkpoint"


def land_listed(checkpoint: Path) -> list[Path]:
    """Land the files that a file source lists once more, with the times of the list."""
    files = []
    lists = (path for path in checkpoint.glob("sources/0/*") if not path.name.startswith("."))
    for path in sorted(lists, key=lambda path: path.name):
        lines = path.read_text(errors="replace").splitlines()
        for entry in (json.loads(line) for line in lines if '"path"' in line):
            number = int(Path(entry["path"]).stem)
            file = land(checkpoint.parent / "input", number)
            os.utime(file, ns=(0, entry["timestamp"] * 1_000_000))
            files.append(file)
    return files


def _rename(checkpoint: Path, before: str, after: str) -> None:
    """Where the engine wrote down an absolute path, write another one."""
    for path in _with_paths(checkpoint):
        data = path.read_bytes()
        if before.encode() not in data:
            continue
        path.write_bytes(data.replace(before.encode(), after.encode()))
        twin = path.with_name(f".{path.name}.crc")
        if twin.exists():
            twin.write_bytes(checksum_of(path.read_bytes()))


def _with_paths(checkpoint: Path) -> Iterator[Path]:
    for pattern in ("sources/*/*", "state/*/_metadata/v2/*"):
        yield from (p for p in checkpoint.glob(pattern) if not p.name.startswith("."))


def checksum_of(data: bytes) -> bytes:
    """The `.NAME.crc` of Hadoop's ChecksumFileSystem."""
    sums = [zlib.crc32(data[at : at + _CHUNK]) for at in range(0, len(data), _CHUNK)]
    return struct.pack(f">4si{len(sums)}I", b"crc\0", _CHUNK, *sums)
