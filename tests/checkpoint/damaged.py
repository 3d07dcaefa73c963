"""Copies of real checkpoints, to be damaged, and what the doctor says of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from tidemark.checkpoint.doctor.findings import Diagnosis, Finding, FindingKind
from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.read import Limits, read_checkpoint
from tidemark.storage.file_place import FilePlace

DATA = Path(__file__).parent / "data"
# Long after all of the checkpoints in DATA, and after the copies that tests make of them.
NOW = datetime(2100, 1, 1, tzinfo=UTC)


def copy_of(name: str, folder: Path) -> Path:
    """A copy of a checkpoint in DATA, below `folder`."""
    return Path(shutil.copytree(DATA / name, folder / name))


def facts_of(folder: Path, limits: Limits | None = None) -> CheckpointFacts:
    return read_checkpoint(FilePlace(str(folder)), limits)


def diagnosis_of(folder: Path, known: QueryFacts | None = None) -> Diagnosis:
    return judge_checkpoint(facts_of(folder), NOW, known)


def finding_of(diagnosis: Diagnosis, kind: FindingKind) -> Finding:
    """The only finding of a kind."""
    (found,) = [one for one in diagnosis.findings if one.kind is kind]
    return found


def kinds(diagnosis: Diagnosis) -> set[FindingKind]:
    return {one.kind for one in diagnosis.findings}


def twin(path: Path) -> Path:
    return path.parent / f".{path.name}.crc"


def remove(path: Path) -> None:
    """Remove a file with its checksum, as the engine and Hadoop's tools do."""
    path.unlink()
    twin(path).unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """Write a file as if no checksum had been kept."""
    path.write_bytes(data)
    twin(path).unlink(missing_ok=True)


def edit_offsets(folder: Path, batch: int, **changes: object) -> None:
    """Change fields of the metadata line of an offset file."""
    path = folder / "offsets" / str(batch)
    version, metadata, *sources = path.read_text().split("\n")
    edited = json.dumps(json.loads(metadata) | changes)
    write(path, "\n".join([version, edited, *sources]).encode())


def move_source_files(folder: Path, landing: Path) -> list[Path]:
    """Put files where the lists of a file source say they are: below `landing`, with the times
    that the lists name."""
    landing.mkdir(exist_ok=True)
    moved = []
    for path in _lists(folder):
        text = path.read_text().replace("file:///data/landing", landing.as_uri())
        write(path, text.encode())
        for line in text.split("\n")[1:]:
            entry = json.loads(line)
            file = landing / _name(entry["path"])
            file.write_text("{}\n")
            os.utime(file, ns=(0, entry["timestamp"] * 1_000_000))
            moved.append(file)
    return list(dict.fromkeys(moved))


def _lists(folder: Path) -> Iterable[Path]:
    return sorted(p for p in (folder / "sources" / "0").iterdir() if not p.name.startswith("."))


def _name(uri: str) -> str:
    return unquote(uri.rpartition("/")[2])
