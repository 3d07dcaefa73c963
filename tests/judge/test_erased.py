"""Rows that an erasure rejects: told alike by each tier, and nothing of them is kept."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.judge.judging import BATCH_TIME, pipeline_of
from tidemark.judge.erased import (
    Columns,
    KeyedDigests,
    compared_as,
    fingerprint,
    row_digests,
    values_table,
)
from tidemark.judge.judge import Judge
from tidemark.judge.rules import rules_of
from tidemark.pipeline.model import FilesSource, Pipeline
from tidemark.pipeline.reasons import ERASED
from tidemark.recompute.replay.rejudged import IS_TEXT, LINE_NUMBER, RECORD, UNJUDGED, Rejudging
from tidemark.sources.formats.formats import slices_of
from tidemark.sources.kinds import row_origin
from tidemark.storage.files import stat_files
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

NOW_MS = int(BATCH_TIME.timestamp() * 1_000)
KEY = "k" * 32
PERSON = "person-7Qx2mVb9"
COLUMNS = {"key": "string", "user": "long"}
FORMATS = {"json": "json_lines", "parquet": "parquet"}
AT = "2026-11-18T11:00:00Z"


def digests(columns: Columns, types: dict[str, str], *rows: Any, key: str = KEY) -> KeyedDigests:
    found = row_digests(key, columns, values_table(types, rows))
    return KeyedDigests(KEY, {columns: frozenset(found)})


BY_KEY = digests((("key", "text"),), {"key": "string"}, (PERSON,))
BY_USER = digests((("user", "whole number"),), {"user": "long"}, (7,), (-8,))
BY_BOTH = digests(
    (("key", "text"), ("user", "whole number")), {"key": "string", "user": "long"}, (PERSON, 7)
)


def line(**fields: Any) -> str:
    return json.dumps({"at": AT, "key": "a", "user": 1} | fields)


def reasons(pipeline: Pipeline, lines: list[str], erased: KeyedDigests, by_line: bool) -> list[str]:
    judge = Judge(rules_of(pipeline), NOW_MS, by_line, erased)
    judged = judge.judge(pa.array([one.encode() for one in lines], pa.binary()))
    assert judged.accepted.num_rows == len(judged.accepted_at)
    for one in judged.rejected.to_pylist():
        assert PERSON not in str(one)
        assert one["reason"] != ERASED or one["event_time"] is None
    found = dict.fromkeys(judged.accepted_at.to_pylist(), "")
    places, said = judged.rejected_at.to_pylist(), judged.rejected["reason"].to_pylist()
    assert places == sorted(places)
    found |= dict(zip(places, said, strict=True))
    return [found[place] for place in range(len(lines))]


CASES: list[tuple[KeyedDigests, dict[str, Any], str]] = [
    (BY_KEY, {"key": PERSON}, ERASED),
    (BY_KEY, {"key": f"{PERSON} "}, ""),
    (BY_KEY, {"key": PERSON.upper()}, ""),
    (BY_KEY, {"key": None}, ""),
    (BY_USER, {"user": 7}, ERASED),
    (BY_USER, {"user": -8}, ERASED),
    (BY_USER, {"user": 8}, ""),
    (BY_USER, {"user": None}, ""),
    (BY_USER, {"user": 7, "more": {"a": [1]}}, ERASED),
    (BY_BOTH, {"key": PERSON, "user": 7}, ERASED),
    (BY_BOTH, {"key": PERSON, "user": 1}, ""),
    (BY_BOTH, {"key": PERSON, "user": None}, ""),
    # Whatever else is wrong with it.
    (BY_KEY, {"key": PERSON, "user": "x"}, ERASED),
    (BY_KEY, {"key": PERSON, "at": None}, ERASED),
    (BY_KEY, {"key": PERSON, "at": "2020-01-01T00:00:00Z"}, ERASED),
    (BY_KEY, {"key": PERSON, "at": "2036-01-01T00:00:00Z"}, ERASED),
    (BY_KEY, {"key": "a", "at": "2036-01-01T00:00:00Z"}, "future"),
    (BY_KEY, {"key": "a", "at": "2020-01-01T00:00:00Z"}, "too old"),
    (BY_BOTH, {"key": PERSON, "user": "x"}, "wrong type"),
]


@pytest.mark.parametrize("number", [1, 400])
@pytest.mark.parametrize("by_line", [False, True])
def test_each_tier_rejects_them(by_line: bool, number: int) -> None:
    pipeline = pipeline_of(COLUMNS, keep="60 days")
    for erased, fields, reason in CASES:
        lines = [*[line(user=place % 3) for place in range(number)], line(**fields), "no JSON"]
        found = reasons(pipeline, lines, erased, by_line)
        assert found == [*[""] * number, reason, "malformed"], fields


def test_what_text_stands_for_is_asked_as_the_table_has_it() -> None:
    columns = {"key": {"type": "string", "trim": True}, "user": {"type": "int", "from_text": True}}
    pipeline = pipeline_of(columns)
    assert reasons(pipeline, [line(key=f" {PERSON}\t")], BY_KEY, False) == [ERASED]
    assert reasons(pipeline, [line(user="7")], BY_USER, False) == [ERASED]


def test_odd_texts_are_told_too() -> None:
    pipeline, late = pipeline_of(COLUMNS, keep="60 days"), "2020-01-01T00:00:00Z"
    odd = ["\\ud800", "\\u0000", "é", "\\u00e9", ""]
    for by_line in (False, True):
        lines = [line(key="KEY", at=at).replace("KEY", one) for one in odd for at in (AT, late)]
        without = reasons(pipeline, lines, BY_USER, by_line)
        by_odd = digests((("key", "text"),), {"key": "string"}, ("é",), ("\0",), ("",))
        found = reasons(pipeline, lines, by_odd, by_line)
        assert found[2:] == [ERASED] * 8
        assert found[:2] == without[:2]


def test_values_side_by_side_are_no_others() -> None:
    columns: Columns = (("a", "text"), ("b", "text"))
    types = {"a": "string", "b": "string"}
    rows = [("x", "1:y"), ("x1", ":y"), ("x", "11:y"), ("", "x1:y"), ("x1:y", ""), ("é", "e")]
    one = digests(columns, types, rows[0])
    assert one.hits(values_table(types, rows)).tolist() == [True, *[False] * 5]
    assert digests(columns, types, *rows).hits(values_table(types, rows)).all()


def test_nothing_is_told_without_the_key() -> None:
    other = digests((("key", "text"),), {"key": "string"}, (PERSON,), key="o" * 32)
    rows = values_table({"key": "string"}, [(PERSON,)])
    assert not other.hits(rows)[0]
    assert BY_KEY.hits(rows)[0]
    assert KEY not in repr(BY_KEY)
    assert len(fingerprint(KEY)) == 64
    assert fingerprint(KEY) != fingerprint("o" * 32)
    # Python's hash of texts is another in each task; the digests are not.
    assert pickle.loads(pickle.dumps(BY_KEY)) == BY_KEY


def test_a_wider_type_is_compared_as_before() -> None:
    wide = values_table({"user": "long"}, [(7,), (None,), (1,)])
    for narrow in ("tinyint", "smallint", "int", "bigint"):
        columns: Columns = (("user", "whole number"),)
        assert compared_as(narrow) == "whole number"
        assert digests(columns, {"user": narrow}, (7,)).hits(wide).tolist() == [True, False, False]
    assert compared_as("string") == "text"
    others = ("double", "float", "decimal(10,0)", "date", "timestamp", "boolean", "binary",
              "array<string>", "struct<a:string>")  # fmt: skip
    assert {compared_as(one) for one in others} == {None}
    assert BY_USER.hits(wide.slice(0, 0)).tolist() == []


def judged_file(folder: Path, name: str, pipeline: Pipeline, **further: Any) -> Any:
    uri = (folder / name).as_uri()
    facts = stat_files([uri], {})[uri]
    assert facts is not None
    assert isinstance(pipeline.source, FilesSource)
    by = BatchRules(rules_of(pipeline), row_origin(pipeline), 0, NOW_MS, 2**20, **further)
    return judge_slices(by, slices_of(pipeline.source, {uri: facts}, {}), sys.maxsize)


@pytest.mark.parametrize("by_line", [False, True])
@pytest.mark.parametrize("keeps_lines", [False, True])
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_neither_text_nor_values_are_kept(
    tmp_path: Path, kind: str, keeps_lines: bool, by_line: bool
) -> None:
    pipeline = pipeline_of(COLUMNS)
    content = pipeline.source.model_dump(by_alias=True, exclude_unset=True)
    content |= {"files": f"landing/*.{kind}", "format": FORMATS[kind]}
    pipeline = pipeline.model_copy(update={"source": FilesSource.model_validate(content)})
    rows = [{"at": AT, "key": PERSON if n % 5 == 3 else "a", "user": n} for n in range(300)]
    rows[4]["at"] = None
    if kind == "json":
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / "f.json").write_text(text)
    else:
        at = pa.array([None if row["at"] is None else BATCH_TIME for row in rows])
        table = pa.Table.from_pylist([{**row, "at": None} for row in rows])
        pq.write_table(table.set_column(0, "at", at), tmp_path / "f.parquet")
    further = {"keeps_lines": keeps_lines, "by_line": by_line}
    found = judged_file(tmp_path, f"f.{kind}", pipeline, erased=BY_KEY, **further)
    assert found.by_reason == {ERASED: 60, "missing field": 1}
    assert PERSON not in str([one.to_pylist() for one in (*found.accepted, *found.rejected)])
    before = judged_file(tmp_path, f"f.{kind}", pipeline, **further)
    assert before.by_reason == {"missing field": 1}
    assert found.read == before.read == 300
    rejects = [row for one in found.rejected for row in one.to_pylist()]
    ours = [one for one in rejects if one["reason"] == ERASED]
    assert {(one["raw"], one["raw_bytes"], one["event_time"]) for one in ours} == {(None,) * 3}
    assert len({one["id"] for one in ours}) == 60
    assert all(one["_file"].endswith(f"f.{kind}") for one in ours)
    (other,) = (one for one in rejects if one["reason"] != ERASED)
    assert '"key":' in other["raw"]
    assert sum(map(len, found.accepted)) == 239


def test_a_reject_that_is_judged_again_comes_to_the_same() -> None:
    pipeline = pipeline_of(COLUMNS)
    schema = pa.schema([(LINE_NUMBER, pa.int64()), *rules_of(pipeline).accepted_schema])
    for name in ("_reason", "_detail"):
        schema = schema.append(pa.field(name, pa.string()))
    lines = [line(), line(key=PERSON)]
    given = pa.table(
        {
            RECORD: pa.array([one.encode() for one in lines], pa.binary()),
            IS_TEXT: [True, True],
            UNJUDGED: pa.nulls(2, pa.string()),
            LINE_NUMBER: pa.array(np.arange(2)),
        }
    )
    by = Rejudging(pipeline.source, rules_of(pipeline), NOW_MS, 2**20, schema, BY_KEY)
    rows = [row for batch in by.judged(given.to_batches()) for row in batch.to_pylist()]
    assert [(one[LINE_NUMBER], one["_reason"]) for one in rows] == [(0, None), (1, ERASED)]
    assert PERSON not in str(rows)
