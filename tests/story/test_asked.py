"""Which row of gold is meant by a time and keys, and what is said where that is not clear."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import clicks
from tidemark.errors import RowUnclear
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.story.asked import Asked, NoRowNamed, key_of, row_asked, row_options

DAY = datetime(2026, 7, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TUMBLING = {"length": "10 minutes"}
SLIDING = {"length": "10 minutes", "slide": "5 minutes"}
SESSIONS = {"session": "5 minutes"}
DAYS = {"calendar": "day", "zone": "Europe/Vienna"}


def operator(window: dict[str, str], *keys: str) -> Operator:
    table: dict[str, Any] = {"window": window, "group_by": list(keys)}
    table["measures"] = {"events": "count(*)"}
    if "session" in window:
        table["output_mode"] = "append"
    return operator_of(pipeline_from_mapping("clicks", clicks(tables={"t": table})), "t")


def gold(folder: Path, *rows: tuple[datetime, datetime, str | None, int]) -> DeltaTable:
    time = pa.timestamp("us", "UTC")
    kinds = {"window_start": time, "window_end": time, "key": pa.string(), "amount": pa.int64()}
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds.values(), strict=True)]
    write_deltalake(folder, pa.table(arrays, names=list(kinds)))
    return DeltaTable(folder)


def asked(of: Operator, held: DeltaTable, window: Any, key: dict[str, Any]) -> Asked:
    return row_asked(of, held, [], window, key)


def test_keys_are_told_as_text_and_null_by_its_name() -> None:
    told = ["spotId=11", "agent=", "city:null", "text=a=b:null"]
    found = {"spotId": "11", "agent": "", "city": None, "text": "a=b:null"}
    assert key_of(told) == found
    options = "--window 2026-07-01T00:00:00Z --key spotId=11 --key city:null --key 'a=b c'"
    assert row_options(DAY, {"spotId": 11, "city": None, "a": "b c"}) == options


LISTS = pa.list_(pa.int64())
PARTS = pa.struct(
    {"at": pa.timestamp("us", "UTC"), "sum": pa.decimal128(38, 2), "of": pa.list_(pa.float64())}
)
PART = {"at": DAY, "sum": Decimal("123456789012345678901234567890.10"), "of": [0.1, None, 1e22]}


@pytest.mark.parametrize(
    ("kind", "values"),
    [(LISTS, [[1, 2], [], [None], None]),
     (pa.list_(pa.string()), [["a, b", "'c'"], ["null", None]]),
     (PARTS, [PART, {**PART, "at": None}, dict.fromkeys(PART), None])],
)  # fmt: skip
def test_a_row_of_a_list_or_a_struct_is_meant_by_the_options_that_are_told_of_it(
    tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    time = pa.array([DAY] * len(values), pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path, pa.table({"window_start": time, "key": pa.array(values, kind)}))
    held, of = DeltaTable(tmp_path), operator(TUMBLING, "key")
    with pytest.raises(RowUnclear) as unclear:
        asked(of, held, DAY, {})
    assert len(unclear.value.choices) == len(values)
    for told in unclear.value.choices:
        _, window, _, key = shlex.split(told)
        found = asked(of, held, window, key_of([key]))
        assert row_options(DAY, found.key) == told
        assert len(found.found_in(held, {"key": "key"}, "true", 9)) == 1
    texts = shlex.split(" ".join(unclear.value.choices))[3::4]
    keys = [asked(of, held, DAY, key_of([text])).key["key"] for text in texts]
    assert all(one in keys for one in values)


@pytest.mark.parametrize(
    ("kind", "text"),
    [(LISTS, "1"), (LISTS, "[1"), (LISTS, '["a"]'), (LISTS, "{}"), (LISTS, "[" * 5_000),
     (PARTS, "[]"), (PARTS, '{"other": 1}'), (PARTS, '{"at": "yesterday"}')],
)  # fmt: skip
def test_what_is_no_list_or_struct_in_json_is_refused(
    tmp_path: Path, kind: pa.DataType, text: str
) -> None:
    time = pa.array([DAY], pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path, pa.table({"window_start": time, "key": pa.array([None], kind)}))
    with pytest.raises(NoRowNamed, match="in JSON, as the key key is"):
        asked(operator(TUMBLING, "key"), DeltaTable(tmp_path), DAY, {"key": text})


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (["spotId"], "'spotId' is no key: write COL=VALUE, or COL:null for null"),
        (["a=1", "a:null"], "the key a is given twice"),
    ],
)
def test_what_is_no_key_is_told_as_such(told: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        key_of(told)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ({"amont": "1"}, "`amont` is no key of the table. Did you mean `amount`?"),
        ({"amount": "eleven"}, "'eleven' is no int64, as the key amount is"),
        ({"key": 11}, "11 is no value of the key key, which is string"),
    ],
)
def test_a_key_that_the_table_does_not_have_or_of_another_type_is_refused(
    tmp_path: Path, key: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why.replace("?", r"\?")):
        asked(operator(TUMBLING, "key", "amount"), gold(tmp_path), DAY, key)


@pytest.mark.parametrize("value", ["11", 11])
@pytest.mark.parametrize("text", ["", None, "null"])
def test_a_time_in_a_window_and_keys_of_any_form_mean_one_row(
    tmp_path: Path, value: Any, text: str | None
) -> None:
    of, held = operator(TUMBLING, "key", "amount"), gold(tmp_path)
    for window in (DAY, DAY + 9 * MINUTE, "2026-07-01T02:09:59.999999+02:00", "2026-07-01"):
        found = asked(of, held, window, {"key": text, "amount": value})
        assert (found.start, found.window_end) == (DAY, DAY + 10 * MINUTE)
        assert found.key == {"key": text, "amount": 11}
        assert found.row.schema.field("amount").type == pa.int64()


def test_a_time_in_several_windows_asks_for_one_but_the_start_of_one_means_that_one(
    tmp_path: Path,
) -> None:
    of, held = operator(SLIDING, "key"), gold(tmp_path)
    assert asked(of, held, DAY, {"key": "a"}).start == DAY
    with pytest.raises(RowUnclear, match="2 windows hold that time") as unclear:
        asked(of, held, DAY + MINUTE, {"key": "a"})
    assert unclear.value.choices == (
        "--window 2026-06-30T23:55:00Z",
        "--window 2026-07-01T00:00:00Z",
    )


def test_a_date_is_a_day_of_the_zone_of_local_days(tmp_path: Path) -> None:
    of, held = operator(DAYS, "key"), gold(tmp_path)
    found = asked(of, held, "2026-07-01", {"key": "a"})
    assert found.start == DAY - timedelta(hours=2)
    assert found.window_end == DAY + timedelta(hours=22)
    assert asked(of, held, DAY, {"key": "a"}) == found


def test_where_a_key_lacks_the_rows_of_the_window_are_listed_or_the_only_one_is_meant(
    tmp_path: Path,
) -> None:
    rows = [(DAY, DAY + 10 * MINUTE, "a", amount) for amount in range(20)]
    of = operator(TUMBLING, "key", "amount")
    held = gold(tmp_path, *rows, (DAY, DAY + 10 * MINUTE, None, 7))
    with pytest.raises(RowUnclear, match="Give amount too") as unclear:
        asked(of, held, DAY, {"key": "a"})
    assert len(unclear.value.choices) == 10
    assert unclear.value.choices[0] == "--window 2026-07-01T00:00:00Z --key key=a --key amount=0"
    assert "and more than these 10" in str(unclear.value)
    assert asked(of, held, DAY, {"key": None}).key == {"key": None, "amount": 7}


def test_a_row_that_only_a_former_generation_knows_is_meant_by_its_start(tmp_path: Path) -> None:
    of, at = operator(SESSIONS, "key"), DAY + 5 * MINUTE
    held = gold(tmp_path / "gold", (DAY, DAY + 10 * MINUTE, "a", 1))
    own = gold(tmp_path / "own", (DAY, DAY + 9 * MINUTE, "a", 1))
    former = gold(tmp_path / "former", (at, DAY + 10 * MINUTE, "key of before", 1))
    same = {"window_start": "window_start", "key": "key"}
    changes = [(own, same), (former, same)]
    assert row_asked(of, held, changes, at, {"key": "key of before"}).start == at
    # One of another key then is none; and of times within, only those of now tell.
    assert row_asked(of, held, changes, at, {"key": "a"}).start == DAY
    with pytest.raises(RowUnclear, match="has a row with these keys"):
        row_asked(of, held, changes, at + MINUTE, {"key": "key of before"})
    renamed = former.to_pyarrow_table().rename_columns(["window_start", "window_end", "k", "n"])
    write_deltalake(tmp_path / "renamed", renamed)
    changes = [(own, same), (DeltaTable(tmp_path / "renamed"), {**same, "key": "k"})]
    found = row_asked(of, held, changes, at, {"key": "key of before"})
    assert (found.start, found.key) == (at, {"key": "key of before"})


def test_a_session_is_meant_by_any_time_in_it_and_first_by_its_start(tmp_path: Path) -> None:
    held = gold(
        tmp_path,
        (DAY, DAY + 10 * MINUTE, "a", 1),
        (DAY + 10 * MINUTE, DAY + 20 * MINUTE, "a", 1),
        (DAY + MINUTE, DAY + 9 * MINUTE, "b", 1),
    )
    of = operator(SESSIONS, "key")
    assert asked(of, held, DAY + 5 * MINUTE, {"key": "a"}).start == DAY
    assert asked(of, held, DAY + 10 * MINUTE, {"key": "a"}).start == DAY + 10 * MINUTE
    with pytest.raises(RowUnclear, match="Give key too") as unclear:
        asked(of, held, DAY + 5 * MINUTE, {})
    assert len(unclear.value.choices) == 2
    with pytest.raises(RowUnclear, match="Neither gold nor its history has a row with these keys"):
        asked(of, held, DAY + timedelta(hours=5), {"key": "a"})


@pytest.mark.parametrize(
    ("window", "why"),
    [("2026-07-01T00:00:00", "has no zone"), ("yesterday", "is no time")],
)
def test_a_time_without_a_zone_or_that_is_none_is_refused(
    tmp_path: Path, window: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        asked(operator(TUMBLING, "key"), gold(tmp_path), window, {"key": "a"})
