"""A local file that changes between two pieces of it is an error, whatever its format."""

from __future__ import annotations

import errno
import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.errors import SourceChanging, StorageUnavailable
from tidemark.sources.files.slices import file_slices
from tidemark.sources.formats import avro, parquet
from tidemark.sources.formats.avro import avro_slice
from tidemark.sources.formats.csv import csv_slice
from tidemark.sources.formats.csv_form import CsvForm
from tidemark.sources.formats.json_document import document_slice
from tidemark.sources.formats.parquet import parquet_slice
from tidemark.sources.source import PartUnreadable, Slice
from tidemark.storage import files
from tidemark.storage.files import stat_files

MOST = 1_000_000
OLD, NEW = range(10_000, 12_000), range(20_000, 22_000)


def as_lines(rows: range) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in rows)


def as_csv(rows: range) -> bytes:
    return b"n\n" + b"".join(b"%d\n" % n for n in rows)


def as_document(rows: range) -> bytes:
    return b"[" + b",\n".join(b'{"n":%d}' % n for n in rows) + b"]"


def as_avro(rows: range) -> bytes:
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}
    same = b"s" * 16
    fastavro.writer(out, schema, [{"n": n} for n in rows], sync_interval=500, sync_marker=same)
    return out.getvalue()


def as_parquet(rows: range) -> bytes:
    out = io.BytesIO()
    table = pa.table({"n": list(rows), "more": [os.urandom(500) for _ in rows]})
    pq.write_table(table, out, row_group_size=100)
    return out.getvalue()


FORMATS: dict[str, Callable[[range], bytes]] = {
    "a.json": as_lines,
    "a.json.gz": lambda rows: gzip.compress(as_lines(rows)),
    "a.csv": as_csv,
    "a.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "document.json": as_document,
    "a.avro": as_avro,
    "a.parquet": as_parquet,
}


def appended(file: Path, new: bytes) -> None:
    with file.open("ab") as out:
        out.write(new[-3:])


def rewritten(file: Path, new: bytes) -> None:
    with file.open("wb") as out:
        out.write(new)


def half_rewritten(file: Path, new: bytes) -> None:
    rewritten(file, new[: len(new) // 2])


CHANGES = (appended, rewritten, half_rewritten)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHUNK", 1_000)
    monkeypatch.setattr(avro, "_AT_ONCE", 100)
    monkeypatch.setattr(parquet, "_AT_ONCE", 100)


def landed(folder: Path, name: str, cut: int = MOST) -> tuple[Path, list[Slice]]:
    """A file that was written a while ago, and its slices."""
    file = folder / name
    file.write_bytes(FORMATS[name](OLD))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    uri = file.as_uri()
    facts = stat_files([uri], {})[uri]
    assert facts is not None
    if ".csv" in name:
        return file, [csv_slice(uri, facts, {}, CsvForm())]
    if name.startswith("a.json"):
        return file, [*file_slices({uri: facts}, {}, cut)]
    by_name = {
        "document.json": document_slice,
        "a.avro": avro_slice,
        "a.parquet": parquet_slice,
    }
    return file, [by_name[name](uri, facts, {})]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_changes_between_two_pieces_is_an_error(
    tmp_path: Path, name: str, change: Callable[[Path, bytes], None]
) -> None:
    file, (planned,) = landed(tmp_path, name)
    pieces = planned.lines(MOST)
    assert len(next(pieces)) > 0
    change(file, FORMATS[name](NEW))
    with pytest.raises(SourceChanging, match="Land files whole"):
        list(pieces)


class StaleFile(io.FileIO):
    """A file of a mount that is away after its first piece."""

    number = errno.ESTALE

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError(self.number, os.strerror(self.number))
        return super().read(-1 if size is None else size)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, errno.ESTALE) for name in FORMATS),
        *(("a.json", number) for number in (errno.EIO, errno.ETIMEDOUT, errno.EHOSTDOWN)),
    ],
)
def test_a_mount_that_is_away_is_no_verdict_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    _, (planned,) = landed(tmp_path, name)
    monkeypatch.setattr(StaleFile, "number", number)
    if name == "a.parquet":
        away = OSError(number, os.strerror(number))
        # Arrow opens and reads it by itself.
        monkeypatch.setattr(parquet, "_rows_at_once", Mock(side_effect=away))
    else:
        monkeypatch.setattr(Path, "open", lambda file, _: StaleFile(file))
    with pytest.raises(StorageUnavailable, match=f"{name} could not be read: .*Errno {number}"):
        list(planned.lines(MOST))


@pytest.mark.parametrize("change", CHANGES)
def test_a_slice_that_ends_before_the_file_does_is_told_of_a_change(
    tmp_path: Path, change: Callable[[Path, bytes], None]
) -> None:
    file, slices = landed(tmp_path, "a.json", cut=5_000)
    assert len(slices) > 2
    pieces = slices[0].lines(MOST)
    next(pieces)
    change(file, as_lines(NEW))
    with pytest.raises(SourceChanging):
        list(pieces)


@pytest.mark.parametrize("name", sorted({*FORMATS} - {"a.parquet"}))
def test_a_file_whose_place_another_takes_is_read_as_it_was(tmp_path: Path, name: str) -> None:
    file, (planned,) = landed(tmp_path, name)
    pieces = planned.lines(MOST)
    number = len(next(pieces))
    other = tmp_path / "other"
    other.write_bytes(FORMATS[name](NEW[:5]))
    other.rename(file)
    assert number + sum(map(len, pieces)) == len(OLD)


@pytest.mark.parametrize("name", FORMATS)
def test_who_needs_no_more_of_a_file_is_not_told_that_it_changed(tmp_path: Path, name: str) -> None:
    file, (planned,) = landed(tmp_path, name)
    pieces = planned.lines(MOST)
    next(pieces)
    appended(file, FORMATS[name](NEW))
    pieces.close()  # type: ignore[attr-defined]


def test_text_of_another_encoding_that_was_cut_off_meanwhile_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    text = as_csv(OLD).decode().encode("utf-16-le")
    for changes in (False, True):
        file.write_bytes(text if changes else text[:-1])
        os.utime(file, (1_700_000_000, 1_700_000_000))
        facts = stat_files([file.as_uri()], {})[file.as_uri()]
        assert facts is not None
        pieces = csv_slice(file.as_uri(), facts, {}, CsvForm(encoding="utf-16-le")).lines(MOST)
        next(pieces)
        if changes:
            rewritten(file, text[:-1])
        with pytest.raises(SourceChanging if changes else PartUnreadable):
            list(pieces)
