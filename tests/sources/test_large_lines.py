"""Lines that are too large: told as they are read, wherever a file is cut, in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.running import clicks
from tests.sources.packers import PACKERS
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.sources import large_lines
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.sources.files.slices import FileSlice, file_slices
from tidemark.sources.source import PartUnreadable
from tidemark.storage import files
from tidemark.storage.files import stat_files
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

MARK = "\ufeff".encode()
MOST, SHOWN = 10, 4


def slices_of(file: Path, most: int) -> list[FileSlice]:
    found = stat_files([file.as_uri()], {})[file.as_uri()]
    assert found is not None
    return file_slices({file.as_uri(): found}, {}, most)


def whole_characters(first: bytes) -> bytes:
    """Without the half of a character at the end of text."""
    for cut in range(4):
        try:
            first[: len(first) - cut].decode()
        except UnicodeDecodeError:
            continue
        return first[: len(first) - cut]
    return first


LINES = st.lists(
    st.text(st.sampled_from("aé€😀\r"), max_size=16).map(str.encode)
    | st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")),
    max_size=8,
)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", *PACKERS])
@given(
    lines=LINES,
    marked=st.booleans(),
    ended=st.booleans(),
    chunk=st.integers(1, 20),
    cut=st.integers(1, 60),
)
@example([b"a" * 10], True, True, 1, 60)
@example([b"a" * 11, b"a" * 10], True, False, 3, 5)
def test_each_line_is_itself_or_one_reject_wherever_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    lines: list[bytes],
    marked: bool,
    ended: bool,
    chunk: int,
    cut: int,
) -> None:
    if lines and (lines[0].startswith(MARK) or not (ended or lines[-1])):
        return
    content = MARK * marked + b"\n".join(lines) + b"\n" * (ended and bool(lines))
    if not content or content == MARK:
        return
    file = tmp_path_factory.mktemp("lines") / f"a.json{ending}"
    file.write_bytes(PACKERS[ending](content) if ending else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_CHUNK", chunk)
        patch.setattr(large_lines, "SHOWN_BYTES", SHOWN)
        pieces = [piece for one in slices_of(file, cut) for piece in one.lines(MOST)]
    found = [line for piece in pieces for line in piece.to_pylist()]
    assert len(found) == len(lines)
    for line, told in zip(lines, found, strict=True):
        if len(line) <= MOST:
            assert (told["_value"], told.get("_reason")) == (line, None)
            continue
        assert told["_value"] == whole_characters(line[:SHOWN])
        assert told["_reason"] == "too large"
        assert f" has {len(line)} bytes, at most {MOST} are taken;" in told["_detail"]
        assert told["_detail"].endswith(sha256(line).hexdigest())


def test_a_too_large_line_is_told_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"a\n" + b"b" * 11 + b"\nc\n" + b"d" * 12)
    for most, told in ((100, "Line 4 has 12 bytes"), (8, "Line 1 of those that begin at byte 16")):
        pieces = [piece for one in slices_of(file, most) for piece in one.lines(MOST)]
        rows = [row for piece in pieces for row in piece.to_pylist()]
        assert [row["_value"] for row in rows if row.get("_reason") is None] == [b"a", b"c"]
        assert rows[1]["_detail"].startswith("Line 2 has 11 bytes")
        assert rows[3]["_detail"].startswith(told)


def test_a_packed_file_that_is_cut_within_a_too_large_line_is_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(PACKERS[".gz"](b"a\n" + b"b" * 1_000)[:-9])
    (one,) = slices_of(file, 100)
    with pytest.raises(PartUnreadable):
        list(one.lines(MOST))


def rules() -> BatchRules:
    own = rules_of(pipeline_from_mapping("clicks", clicks()))
    return BatchRules(own, FilesSourceHandle.origin, 0, 0, 16 * 1024**2, False, False)


def test_what_is_larger_than_a_mebibyte_is_named_in_the_log_before_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = tmp_path / "small.json", tmp_path / "large.json.gz"
    small.write_bytes(b"{}\n")
    # Not even packed: it is named all the same.
    large.write_bytes(b"x" * 200_000)
    found = judge_slices(rules(), [*slices_of(small, 100), *slices_of(large, 100)], 10**6)
    assert found is not None
    assert list(found.unreadable) == [large.as_uri()]
    assert capsys.readouterr().err == f"reading {large.as_uri()}\n"


MEASURED = """
import json, resource, sys
from pathlib import Path
from tests.sources.test_large_lines import rules, slices_of
from tidemark.streaming.ingest.judged_slices import judge_slices
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
by, before = rules(), peak()
found = judge_slices(by, slices_of(Path(sys.argv[1]), 32 * 1024**2), 512_000_000)
[rejects] = [rows for rows in found.rejected if len(rows)]
[reject] = rejects.to_pylist()
told = [reject["reason"], reject["detail"], len(reject["raw"])]
print(json.dumps([peak() - before, found.read, *told]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [".gz", *(pytest.param(one, marks=pytest.mark.long) for one in ["", *PACKERS] if one != ".gz")],
)
def test_a_line_of_half_a_gigabyte_takes_no_more_memory_than_one_that_is_taken(
    tmp_path: Path, ending: str
) -> None:
    size = 500_000_000
    file = tmp_path / f"a.json{ending}"
    content = b'{"key": "' + b"x" * (size - 9)
    file.write_bytes(PACKERS[ending](content) if ending else content)
    digest = sha256(content).hexdigest()
    del content
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    more, lines, reason, detail, shown = json.loads(ran.stdout)
    assert (lines, reason, shown) == (1, "too large", 4096)
    assert detail.startswith("Line 1 has 500,000,000 bytes, at most 16,777,216 are taken")
    assert digest in detail
    # In MiB: the bound, a piece of what is read, and a piece of what is unpacked, some of it twice.
    assert more < 150
