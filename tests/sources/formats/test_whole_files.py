"""The text of a file that one process reads from the beginning to the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.sources.files import slices
from tidemark.sources.formats.json_document import document_slice
from tidemark.storage.files import stat_files

MARK = "\ufeff"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_byte_order_mark_is_passed_over_at_the_beginning_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(f"{MARK}t\n{MARK}x\n".encode(encoding))
    facts = stat_files([file.as_uri()], {})[file.as_uri()]
    assert facts is not None
    planned = document_slice(file.as_uri(), facts, {})
    for size in range(1, 6):

        def cut(place: str, chunks: object, size: int = size) -> object:
            data = file.read_bytes()
            return (data[at : at + size] for at in range(0, len(data), size))

        monkeypatch.setattr(slices, "unpacked", cut)
        assert b"".join(planned.text(encoding)) == f"t\n{MARK}x\n".encode()
