"""JSON documents: each element of an array and each object is a record, whatever the layout; what
is neither is rejected, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.judge.judging import judge_lines, pipeline_of
from tidemark.pipeline.reasons import MALFORMED, TOO_LARGE
from tidemark.sources.formats.json_document import (
    DocumentSlice,
    _records,
    document_of,
    document_slice,
)
from tidemark.sources.formats.whole_files import BadRecord
from tidemark.sources.large_lines import LargeLine
from tidemark.sources.source import AS_READ, DETAIL, REASON
from tidemark.storage.files import stat_files

MOST = 100_000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from('",\\{}[]\n'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
INDENTS = st.sampled_from([None, 0, 2, "\t"])


def slice_of(path: Path) -> DocumentSlice:
    facts = stat_files([path.as_uri()], {})[path.as_uri()]
    assert facts is not None
    return document_slice(path.as_uri(), facts, {})


def rows(path: Path, text: bytes, most: int = MOST) -> list[dict[str, Any]]:
    path.write_bytes(text)
    return [row for piece in slice_of(path).lines(most) for row in piece.to_pylist()]


def told(text: bytes, size: int = 0, most: int = MOST) -> list[tuple[str, bytes]]:
    chunks = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    return list(_told(_records(iter(chunks), most)))


def _told(pieces: Iterator[Any]) -> Iterator[tuple[str, bytes]]:
    for piece in pieces:
        if isinstance(piece, BadRecord):
            yield piece.why, piece.text
        elif isinstance(piece, LargeLine):
            yield f"large {piece.size}", piece.shown
        else:
            assert isinstance(piece, pa.Array)
            for one in piece.to_pylist():
                yield "", one


@given(st.lists(OBJECTS, max_size=5), INDENTS, st.booleans(), st.integers(0, 9), st.booleans())
def test_the_objects_of_any_layout_are_the_records(
    objects: list[Any], indent: Any, is_array: bool, size: int, ascii_only: bool
) -> None:
    def text(value: Any) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    document = text(objects) if is_array else "\n".join(map(text, objects))
    found = told(document.encode(), size)
    assert [why for why, _ in found] == [""] * len(objects)
    assert [json.loads(one) for _, one in found] == objects


TEXTS = st.lists(st.sampled_from(['{"a": 1}', *'{}[],"\\ \n1', "ab"]), max_size=25).map("".join)


@given(TEXTS, st.integers(1, 6))
def test_of_any_text_nothing_is_lost_and_how_it_is_read_changes_nothing(
    text: str, size: int
) -> None:
    found = told(text.encode())
    assert told(text.encode(), size) == found
    kept = "".join(one.decode() for _, one in found)
    # Between records only these go.
    assert sorted(strip(kept, " \n[],")) == sorted(strip(text, " \n[],"))


def strip(text: str, signs: str) -> str:
    return "".join(one for one in text if one not in signs)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", []),
        (b" \n", []),
        (b"[]", []),
        (b"[ \n ]\n[]", []),
        (b'\xef\xbb\xbf[{"a": 1}]', [("", b'{"a": 1}')]),
        (b'[{"a": 1}, 5, null]', [("", b'{"a": 1}'), ("", b"5"), ("", b"null")]),
        (b'[{"a": 1} {"b": 2}, {}]', [("", b'{"a": 1} {"b": 2}'), ("", b"{}")]),
        (b'[{"a": 1},]', [("", b'{"a": 1}'), ("there is no value before `]`", b"")]),
        (b'[,{"a": 1}]', [("there is no value before `,`", b""), ("", b'{"a": 1}')]),
        (
            b'[{"a": 1}, {"b": ',
            [("", b'{"a": 1}'), ("the file ends before its array does", b'{"b":')],
        ),
        (b'[{"a": 1}', [("the file ends before its array does", b'{"a": 1}')]),
        (b'[{"a": 1},\n', [("", b'{"a": 1}'), ("the file ends before its array does", b"")]),
        (b'{"a": "x', [("the file ends within it", b'{"a": "x')]),
        (b'no JSON {"a": 1}] rest', [("", b"no JSON"), ("", b'{"a": 1}'), ("", b"] rest")]),
        (b'[[{"a": 1}, 2], {}]', [("", b'[{"a": 1}, 2]'), ("", b"{}")]),
    ],
)
def test_what_is_no_document_is_told_and_costs_its_neighbours_nothing(
    tmp_path: Path, text: bytes, found: list[tuple[str, bytes]]
) -> None:
    read = [(row.get(DETAIL) or "", row["_value"]) for row in rows(tmp_path / "a.json", text)]
    assert read == found


PARTS = ['{"a": 1}', '{"b": "[x,"}', '{"a": 1},', "5", " x ", "\n", '"', *",,[]{}"]


@settings(max_examples=1000)
@given(
    st.sampled_from(["", "[", "[", "[]"]),
    st.lists(st.sampled_from(PARTS), max_size=12).map("".join),
    st.integers(0, 4),
)
@example("[", '{"a": 1},{"a": 2}', 9)
@example("[", '{"a": 1},', 9)
@example("", '{"a": 1},{"a": 2}] x {"a": ', 9)
def test_a_document_of_some_records_has_these_and_no_others(
    begin: str, rest: str, most: int
) -> None:
    found = told((begin + rest).encode())
    written = [(text, why or None) for why, text in found]
    assert told(b"".join(document_of(written))) == found
    while most and written[:most] and written[:most][-1][1] == "there is no value before `,`":
        # Of a comma that is the last, nothing says that it is one.
        most -= 1
    assert told(b"".join(document_of(written[:most]))) == found[:most]


def test_a_record_is_judged_on_one_line_and_kept_as_it_stands(tmp_path: Path) -> None:
    (row,) = rows(tmp_path / "a.json", b'[\n {\n  "a": "x\\n\\"y",\r\n  "b": 2\n }\n]')
    assert row["_value"] == b'{\n  "a": "x\\n\\"y",\r\n  "b": 2\n }'
    assert b"\n" not in row[AS_READ]
    assert json.loads(row[AS_READ]) == {"a": 'x\n"y', "b": 2}
    assert row["_file"].endswith("a.json")


@pytest.mark.parametrize("indent", [None, 2])
def test_a_text_that_goes_over_the_end_of_a_line_is_malformed_and_its_neighbours_are_rows(
    tmp_path: Path, indent: int | None
) -> None:
    good = [{"at": "2026-07-01T10:00:00Z", "x": "a\nb", "n": n} for n in range(300)]
    text = json.dumps(good, indent=indent).encode().replace(b"a\\nb", b"a\nb", 1)
    found = rows(tmp_path / "a.json", text)
    lines = [row.get(AS_READ) or row["_value"] for row in found]
    pipeline = pipeline_of({"x": "string", "n": "int"})
    for by_line in (False, True):
        first, *others = judge_lines(pipeline, lines, by_line)
        assert first["reason"] == MALFORMED
        assert [one["n"] for one in others] == list(range(1, 300))


@pytest.mark.parametrize("size", [0, 7, 1000])
def test_a_record_that_is_too_large_is_told_by_its_size_and_the_next_are_read(size: int) -> None:
    large = json.dumps({"a": 'x"{[,' * 1000}).encode()
    found = told(b"[" + large + b', {"b": 1}]', size, most=2000)
    if size:
        assert [why for why, _ in found] == [f"large {len(large)}", ""]
    assert found[-1] == ("", b'{"b": 1}')


def test_a_record_that_is_too_large_is_a_reject(tmp_path: Path) -> None:
    large = json.dumps({"a": "x" * 5000}).encode()
    first, second = rows(tmp_path / "a.json", b"[" + large + b', {"b": 1}]', 2000)
    assert first[REASON] == TOO_LARGE
    assert first[DETAIL].startswith("Record 1 has 5,")
    assert (second[REASON], second["_value"]) == (None, b'{"b": 1}')
