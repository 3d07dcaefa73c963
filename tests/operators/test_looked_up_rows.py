"""What is read of large lookups changes no row of what is joined to it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from tidemark.operators import looked_up_rows
from tidemark.operators.calendars.calendars import Calendars
from tidemark.operators.keys import register_rows
from tidemark.operators.looked_up_rows import found_within
from tidemark.operators.lookups import LookedUp, LookupCopy
from tidemark.operators.touched import NEVER_MS, BatchRead
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import CalendarTable, Lookup, WindowTable
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

HOUR = timedelta(hours=1)
DAY = datetime(2026, 7, 1, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")
LONG = "a" * 40

# Values of each type that a key can have, in no order, the least and the greatest among them; of
# text some whose bounds Parquet cuts off, and of these some that it cannot round up.
KEYS: dict[pa.DataType, list[Any]] = {
    pa.string(): [
        "", "a", " a", "é", "e\u0301", "\x00", LONG, f"{LONG}b", f"{LONG}\U0010ffff",
        LONG * 2, f"{LONG * 2}b", f"{LONG * 2}\U0010ffff", "é" * 70, "\U0010ffff" * 40,
    ],
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.int16(): [-(2**15), 0, 2**15 - 1],
    pa.int32(): [-(2**31), 0, 2**31 - 1],
    pa.int64(): [-(2**63), 2**53, 2**53 + 1, 2**63 - 1],
    pa.decimal128(4, 1): [Decimal("-999.9"), Decimal("0.0"), Decimal("0.1"), Decimal("999.9")],
    pa.decimal128(18, 4): [Decimal("99020482213732.2514"), Decimal("99020482213732.2515")],
    pa.decimal128(38, 0): [Decimal(10**38 - 1), Decimal(10**38 - 2), Decimal(1 - 10**38)],
    pa.bool_(): [True, False],
    pa.date32(): [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    INSTANT: [DAY, DAY + timedelta(microseconds=1), datetime(9977, 1, 1, 1, 1, 1, 786995, UTC)],
}  # fmt: skip


@pytest.fixture(params=[0, looked_up_rows.FEW_ROWS], ids=["large", "small"])
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Whether the copies count as large ones."""
    monkeypatch.setattr(looked_up_rows, "FEW_ROWS", request.param)
    return int(request.param)


def looked_up(folder: Path, rows: pa.Table, keys: int, as_of: bool = False) -> LookedUp:
    """A lookup over a copy with these rows, in row groups of two: they are left out where it can
    be told."""
    order = [(name, "ascending") for name in rows.column_names if name.startswith(("_on", "_from"))]
    write_deltalake(
        folder, rows.sort_by(order), writer_properties=WriterProperties(max_row_group_size=2)
    )
    said: dict[str, Any] = {
        "table": "dims/x",
        "on": {f"k{place}": f"t{place}" for place in range(keys)},
        "columns": {"v": "long"},
    }
    if as_of:
        said |= {"columns": {"v": "long", "since": "timestamp"}, "as_of": "since"}
    place = TablePlace(str(folder), {})
    copy = LookupCopy(place, DeltaTable(folder), 1, "", "")
    return LookedUp(Lookup.model_validate(said), {}, copy)


def joined(rows: pa.Table, one: LookedUp, monkeypatch: pytest.MonkeyPatch, few: int) -> list[Any]:
    monkeypatch.setattr(looked_up_rows, "FEW_ROWS", few)
    with duckdb_in_utc() as connection:
        read = register_rows(connection, "b", rows, "at", None, {"x": one})
        known = connection.execute("SELECT count(*) FROM b_lookup_0").fetchall()
        found = connection.execute(f'SELECT n, "x.v", {read.without_match} FROM b ORDER BY ALL')
        return [*known, *found.fetchall()]


def agree(rows: pa.Table, one: LookedUp, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The rows join alike; how many rows of the copy were read, and how many it has."""
    (read,), *found = joined(rows, one, monkeypatch, 0)
    (whole,), *expected = joined(rows, one, monkeypatch, 2**62)
    assert found == expected
    return read, whole


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_each_key_finds_what_it_finds_in_all_of_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    values = KEYS[kind]
    copied = pa.table({"_on_0": pa.array(values, kind), "v": [*range(len(values))]})
    one = looked_up(tmp_path / "copy", copied, keys=1)
    for asked in ([], [None], *([one] for one in values), [None, values[-1]], values):
        rows = pa.table(
            {"n": [*range(len(asked))], "at": pa.array([DAY] * len(asked), INSTANT),
             "k0": pa.array(asked, kind)}
        )  # fmt: skip
        known = [key for key in asked if key is not None]
        assert agree(rows, one, monkeypatch) == (len(known), len(values))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("as_of", [False, True])
def test_several_keys_and_times_find_what_they_find_in_all_of_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, as_of: bool
) -> None:
    random = Random(seed)
    firsts, seconds = ["a", "b", "c", "d", "e"], [*range(6)]
    pairs = [(one, other) for one in firsts for other in seconds if random.random() < 0.6]
    copied: dict[str, Any] = {"_on_0": [one for one, _ in pairs], "_on_1": [n for _, n in pairs]}
    begins = [DAY + random.randrange(-3, 3) * HOUR for _ in pairs]
    ends = [random.choice([None, begin + HOUR, begin + 2 * HOUR]) for begin in begins]
    copied["v"] = [*range(len(pairs))]
    if as_of:
        copied |= {"since": pa.array(begins, INSTANT), "_from": pa.array(begins, INSTANT)}
        copied |= {"_to": pa.array(ends, INSTANT)}
    one = looked_up(tmp_path / "copy", pa.table(copied), keys=2, as_of=as_of)
    for _ in range(5):
        asked = [
            (random.choice([*firsts[: random.randrange(1, 6)], None, "z"]),
             random.choice([*seconds[: random.randrange(1, 7)], None]))
            for _ in range(random.randrange(8))
        ]  # fmt: skip
        # At the very beginnings and ends of what holds, too.
        times = [random.choice([*begins, *[end for end in ends if end]]) for _ in asked]
        rows = pa.table(
            {"n": pa.array([*range(len(asked))], pa.int64()), "at": pa.array(times, INSTANT),
             "k0": pa.array([key for key, _ in asked], pa.string()),
             "k1": pa.array([key for _, key in asked], pa.int64())}
        )  # fmt: skip
        read, whole = agree(rows, one, monkeypatch)
        assert read <= whole


def test_a_copy_is_read_again_only_for_keys_that_were_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = pa.table({"_on_0": [*range(10)], "v": [*range(10)]})
    one, reads = looked_up(tmp_path / "copy", copied, keys=1), list[list[int]]()
    read = looked_up_rows._read

    def noted(one: LookedUp, keys: Any) -> pa.Table:
        reads.append(sorted(keys[0].to_pylist()))
        return read(one, keys)

    monkeypatch.setattr(looked_up_rows, "_read", noted)
    for keys in ([1, 2, 3], [2], [3, 1, None], [3, 4], [4]):
        rows = pa.table({"n": keys, "at": pa.array([DAY] * len(keys), INSTANT), "k0": keys})
        agree(rows, one, monkeypatch)
    assert reads == [[1, 2, 3], [3, 4]]
    # Another copy at the same place is another one, whatever its number.
    write_deltalake(
        tmp_path / "copy", copied.set_column(1, "v", [[*range(10, 20)]]), mode="overwrite"
    )
    newer = LookedUp(
        one.lookup, {}, LookupCopy(one.copied.place, DeltaTable(tmp_path / "copy"), 1, "", "")
    )
    rows = pa.table({"n": [4], "at": pa.array([DAY], INSTANT), "k0": [4]})
    agree(rows, newer, monkeypatch)
    assert reads[2:] == [[4]]


def test_what_is_found_does_not_rest_on_the_order_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, keys = Random(1), [f"k{number}" for number in range(60)]
    random.shuffle(keys)
    one = looked_up(tmp_path / "copy", pa.table({"_on_0": ["k"], "v": [0]}), keys=1)
    for mode, some in (("overwrite", keys[:40]), ("append", keys[40:])):
        rows = pa.table({"_on_0": some, "v": [int(key[1:]) for key in some]})
        few = WriterProperties(max_row_group_size=7)
        write_deltalake(tmp_path / "copy", rows, mode=mode, writer_properties=few)
    copy = LookupCopy(one.copied.place, DeltaTable(tmp_path / "copy"), 1, "", "")
    for _ in range(20):
        asked = random.sample([*keys, "k", "z", ""], random.randrange(1, 9))
        rows = pa.table(
            {"n": [*range(len(asked))], "at": pa.array([DAY] * len(asked), INSTANT), "k0": asked}
        )
        agree(rows, LookedUp(one.lookup, {}, copy), monkeypatch)
        looked_up_rows._remembered.cache_clear()


def test_a_column_of_bronze_that_a_lookup_has_the_name_of_is_left_out(tmp_path: Path) -> None:
    """A former file derived it."""
    table = WindowTable.model_validate(
        {"window": {"length": "1 hour"}, "measures": {"n": "count(*)"}, "where": "x.v > 0",
         "group_by": ["x_v"]}
    )  # fmt: skip
    one = looked_up(tmp_path / "copy", pa.table({"_on_0": [1], "v": [7]}), keys=1)
    one = LookedUp(one.lookup, {"x_v": "v"}, one.copy)
    bronze = pa.table(
        {"at": pa.array([DAY], INSTANT), "k0": [1], "X_V": ["former"],
         "x": pa.array([{"v": -1}]), "_event_date": [DAY.date()]}
    )  # fmt: skip
    write_deltalake(tmp_path / "bronze", bronze, partition_by=["_event_date"])
    rows = Windows("at", table, lookups={"x": one}).rows_in(DeltaTable(tmp_path / "bronze"))
    place = TablePlace(str(tmp_path / "bronze"))
    (found,) = rows.touched(place, [BatchRead(0, 0, 0, 0)], None, NEVER_MS).closed.to_pylist()
    assert (found["window_start"], found["x_v"]) == (DAY, 7)


@pytest.mark.parametrize("mode", ["update", "append"])
@pytest.mark.parametrize(
    ("window", "length", "ended"),
    [({"length": "1 hour"}, HOUR, 4), ({"calendar": "day", "zone": "UTC"}, 24 * HOUR, 6)],
)
def test_what_a_run_asks_for_is_read_at_once(
    tmp_path: Path,
    window: dict[str, str],
    length: timedelta,
    ended: int,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looked_up_rows, "FEW_ROWS", 0)
    content = {
        "window": window, "measures": {"n": "count(*)"}, "where": "x.v > 0",
        "group_by": ["x_v"], "stream": "recompute", "output_mode": mode,
    }  # fmt: skip
    copied = pa.table({"_on_0": [*range(1, 10)], "v": [*range(1, 10)]})
    one = looked_up(tmp_path / "copy", copied, keys=1)
    one, place = LookedUp(one.lookup, {"x_v": "v"}, one.copy), TablePlace(str(tmp_path / "bronze"))
    for first in (1, 4):
        times = [DAY, DAY + HOUR / 2, DAY + 3 * HOUR]
        rows = pa.table(
            {"at": pa.array(times, INSTANT), "k0": [first, first + 1, first + 2],
             "_event_date": pa.array([DAY.date()] * 3, pa.date32())}
        )  # fmt: skip
        write_deltalake(place.uri, rows, partition_by=["_event_date"], mode="append")
    bronze, reads = place.existing(), list[list[int]]()
    operator = (
        Calendars("at", CalendarTable.model_validate(content), lookups={"x": one})
        if "calendar" in window
        else Windows("at", WindowTable.model_validate(content), lookups={"x": one})
    )
    rows, read = operator.rows_in(bronze), looked_up_rows._read

    def noted(one: LookedUp, keys: Any) -> pa.Table:
        reads.append(sorted(keys[0].to_pylist()))
        return read(one, keys)

    monkeypatch.setattr(looked_up_rows, "_read", noted)
    batch, end = BatchRead(1, 1, 1, 0), DAY + length
    rows.look_ahead(place, [batch], 0, epoch_ms(end))
    touched = rows.touched(place, [batch], None, NEVER_MS)
    assert [touched.batches[0].rows, touched.batches[0].without_match] == [3, 0]
    ending = rows.ending(end, end)
    assert ending is not None
    rows.looked_up(touched.closed)
    assert rows.count_touched(touched.closed) == 3
    assert rows.count_ending(end, end) == ending.num_rows == ended
    assert reads == [[1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize("why", ["too many keys", "another type"])
def test_all_of_a_copy_is_read_where_few_keys_are_not_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    copied = pa.table({"_on_0": [*range(10)], "v": [*range(10)]})
    one = looked_up(tmp_path / "copy", copied, keys=1)
    monkeypatch.setattr(looked_up_rows, "_MOST", 2 if why == "too many keys" else 99)
    kind = pa.int64() if why == "too many keys" else pa.int32()
    keys = pa.array([1, 2, 3], kind)
    rows = pa.table({"n": [1, 2, 3], "at": pa.array([DAY] * 3, INSTANT), "k0": keys})
    assert agree(rows, one, monkeypatch) == (10, 10)


def test_rows_of_the_windows_alone_are_looked_up(
    tmp_path: Path, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = WindowTable.model_validate(
        {"window": {"length": "2 hours", "slide": "1 hour"}, "measures": {"n": "count(*)"},
         "where": "x.v > 0"}
    )  # fmt: skip
    copied = pa.table({"_on_0": [*range(10)], "v": [*range(10)]})
    one = looked_up(tmp_path / "copy", copied, keys=1)
    times = [
        DAY - HOUR,
        DAY,
        DAY + 3 * HOUR - timedelta(microseconds=1),
        DAY + 3 * HOUR,
        DAY + 30 * HOUR,
    ]
    bronze = pa.table(
        {"at": pa.array(times, INSTANT), "k0": [1, 2, 3, 4, 5],
         "_event_date": pa.array([one.date() for one in times], pa.date32())}
    )  # fmt: skip
    write_deltalake(tmp_path / "bronze", bronze, partition_by=["_event_date"])
    rows = Windows("at", table, lookups={"x": one}).rows_in(DeltaTable(tmp_path / "bronze"))
    starts = [DAY, DAY + HOUR, DAY]
    closed = pa.table({"window_start": pa.array(starts, INSTANT)})
    found = rows.looked_up(closed)
    assert [of.column("v").to_pylist() for of in found.values()] == ([] if few_rows else [[2, 3]])
    assert rows.count_touched(closed.slice(0, 2)) == 2
    assert rows.count_ending(DAY + 2 * HOUR, DAY + 3 * HOUR) == 2
    assert not found_within(rows.operator, rows.bronze, [], [])
    # Where a copy of before is lost, all that there can be is asked for.
    everything = [datetime(1653, 2, 10, tzinfo=UTC)], [DAY + 400 * 24 * HOUR]
    for listed in (1, 1_000):
        monkeypatch.setattr(looked_up_rows, "_MOST_LISTED", listed)
        found = found_within(rows.operator, rows.bronze, *everything)
        assert [sorted(of.column("v").to_pylist()) for of in found.values()] == (
            [] if few_rows else [[1, 2, 3, 4, 5]]
        )
