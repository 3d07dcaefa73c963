"""Rejects judged anew without Spark: what their texts are, and the verdicts on them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.kit.running import clicks
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.recompute.replay.rejudged import Rejudging
from tidemark.sources.raw_texts import ending_of, raw_text

AT = "2026-07-01T10:00:00Z"
NOW_MS = 1_783_000_000_000
COLUMNS = {"at": "timestamp", "key": "string", "amount": "long"}
SCHEMA = pa.schema(
    {
        "at": pa.timestamp("us", "UTC"),
        "key": pa.string(),
        "amount": pa.int64(),
        "_extra": pa.string(),
        "_event_date": pa.date32(),
        "_file": pa.string(),
        "_value": pa.string(),
        "_reject_id": pa.string(),
        "_reason": pa.string(),
        "_detail": pa.string(),
    }
)


def judged(
    rows: list[tuple[bytes, str, bool, str | None]], most: int = 2**20, **source: Any
) -> list[dict[str, Any]]:
    """The verdicts, in the order of the rows: record, file, is it text, why it is not judged."""
    content = clicks(source={"files": "landing/*", "columns": COLUMNS,
                             "event_time": {"column": "at"}, **source})  # fmt: skip
    pipeline = pipeline_from_mapping("clicks", content)
    by = Rejudging(pipeline.source, rules_of(pipeline), NOW_MS, most, SCHEMA)
    records, files, texts, whys = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_pydict(
        {
            "_value": pa.array(records, pa.binary()),
            "_file": pa.array(files, pa.string()),
            "_is_text": pa.array(texts, pa.bool_()),
            "_unjudged": pa.array(whys, pa.string()),
            "_reject_id": pa.array([str(n) for n in range(len(rows))], pa.string()),
        }
    )
    found = [one for part in by.judged([batch]) for one in part.to_pylist()]
    return sorted(found, key=lambda one: int(one["_reject_id"]))


def test_each_reject_has_one_verdict_and_what_it_comes_to() -> None:
    good = f'{{"at": "{AT}", "key": "a", "amount": 3}}'.encode()
    found = judged(
        [
            (good, "a.json", True, None),
            (b"{", "a.json", True, None),
            (good, "a.json", True, "it has no text"),
            (b"\xff", "a.json", True, None),
            (good + b" " * 2**20, "a.json", True, None),
            (good, "b.json", False, None),
        ]
    )
    assert [one["_reason"] for one in found] == [
        None, "malformed", "not judged", "malformed", "too large", None,
    ]  # fmt: skip
    assert [(one["amount"], one["_value"], one["_file"]) for one in found if one["amount"]] == [
        (3, good.decode(), "a.json"),
        (3, good.decode(), "b.json"),
    ]
    assert found[2]["_detail"] == "it has no text"


def test_records_of_csv_are_named_by_columns_where_files_have_no_header() -> None:
    text = f'{AT},"a, b",12'.encode()
    rows = [
        (text, "a.csv", True, None),
        (b"1,2", "a.csv", True, None),
        (f"{AT},,x".encode(), "a.csv", True, None),
        (f'{{"at": "{AT}", "key": null, "amount": 12}}'.encode(), "a.csv", False, None),
        (f'{{"at": "{AT}", "key": null, "amount": "12"}}'.encode(), "a.csv", False, None),
    ]
    found = judged(rows, format={"csv": {"header": False}})
    assert [one["_reason"] for one in found] == [
        None, "malformed", "wrong type", None, "wrong type",
    ]  # fmt: skip
    assert (found[0]["key"], found[0]["amount"], found[0]["_value"]) == ("a, b", 12, text.decode())
    assert "2 fields" in found[1]["_detail"]
    # By a header that nobody has any more the text is not judged, and an object is.
    found = judged(rows)
    assert [one["_reason"] for one in found][:4] == ["not judged", "not judged", "not judged", None]
    assert "the header of its file names its fields" in found[0]["_detail"]


@pytest.mark.parametrize(
    ("ends", "detail"),
    [
        ("{}\n", None),
        ("{}\r\n", None),
        ("\n{}", "more than one record"),
        ("{}\n\n", "more than one record"),
        ("{0}\n{0}", "more than one record"),
        ("{}\r", "lines end with"),
    ],
)
def test_a_record_of_csv_ends_where_it_does_in_a_file(ends: str, detail: str | None) -> None:
    """The end of its line is no part of its last field."""
    columns = {"at": "timestamp", "amount": "long", "key": "string"}
    for field, quote, value in (('"a\n"', '"', "a\n"), ("a", '"', "a"), ("a", "", "a")):
        text = ends.format(f"{AT},12,{field}").encode()
        form = {"csv": {"header": False, "quote": quote}}
        (found,) = judged([(text, "a.csv", True, None)], columns=columns, format=form)
        if detail is None:
            assert (found["_reason"], found["key"]) == (None, value)
        else:
            assert found["_reason"] == "malformed"
            assert detail in found["_detail"] or "behind the closing quote" in found["_detail"]


def test_when_chooses_once_more() -> None:
    rows = [
        (f'{{"at": "{AT}", "key": "{key}", "amount": 3}}'.encode(), "a.json", True, None)
        for key in "abab"
    ]
    rows.append((b'{"at": 1}', "a.json", True, None))
    found = judged(rows, when={"field": "key", "in": ["b"]})
    assert [one["_reason"] for one in found] == [
        "of another pipeline", None, "of another pipeline", None, "missing field",
    ]  # fmt: skip
    assert [one["key"] for one in found if one["_reason"] is None] == ["b", "b"]


@pytest.mark.parametrize(
    ("columns", "is_whole"),
    [(COLUMNS, True), ({**COLUMNS, "_key": "string"}, False)],
)
def test_of_a_message_rejects_keep_the_value_alone(columns: dict[str, str], is_whole: bool) -> None:
    source = {
        "kafka": {"connection": "cluster", "topics": ["clicks"]},
        "columns": columns,
        "event_time": {"column": "at"},
    }
    pipeline = pipeline_from_mapping("clicks", clicks(source=source))
    why = raw_text(pipeline.source, None).why_not_whole
    assert (why is None) == is_whole


def test_files_of_one_ending_have_one_form() -> None:
    assert ending_of("s3://b/landing/a.b/x.2026.CSV.gz") == ending_of("y.csv") == "csv"
