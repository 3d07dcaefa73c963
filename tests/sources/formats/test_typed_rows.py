"""Rows that have types are judged as the lines that they would be."""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.running import clicks
from tidemark.judge.judge import Judge
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import FilesSource
from tidemark.sources.formats import parquet
from tidemark.sources.formats.formats import slices_of
from tidemark.sources.kinds import row_origin
from tidemark.storage.files import stat_files
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

NOW_MS = 1_780_000_000_000
UTC_MICROS = pa.timestamp("us", "UTC")
TEXTS = st.one_of(
    st.text(max_size=8), st.sampled_from(["NA", " NA ", "\x00", 'a"b\\', "é", "x" * 90])
)
TIMES = st.one_of(
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 5, 1)),
    st.datetimes(),
    st.sampled_from(
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), datetime(1969, 12, 31)]
    ),
)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.date32(): st.one_of(st.dates(), st.sampled_from([date(1, 1, 1), date(9999, 12, 31)])),
    UTC_MICROS: TIMES,
    pa.timestamp("us"): TIMES,
    pa.timestamp("ms", "UTC"): TIMES.map(lambda one: one.replace(microsecond=0)),
    pa.decimal128(10, 2): st.decimals(-99_999_999, 99_999_999, places=2),
    pa.decimal128(12, 3): st.decimals(-99_999_999, 99_999_999, places=3),
    pa.decimal128(30, 12): st.decimals(-99, 99, places=12),
    pa.decimal128(5, 0): st.decimals(-99_999, 99_999, places=0),
    pa.binary(): st.binary(max_size=5),
    pa.list_(pa.int64()): st.lists(st.integers(0, 5), max_size=2),
}
DECLARED = {
    "string": pa.string(), "long": pa.int64(), "int": pa.int32(), "byte": pa.int8(),
    "double": pa.float64(), "float": pa.float32(), "boolean": pa.bool_(), "date": pa.date32(),
    "timestamp": UTC_MICROS, "decimal(10,2)": pa.decimal128(10, 2), "binary": pa.binary(),
}  # fmt: skip
# Of a number's column, types whose values may be its own.
TYPES_OF_NUMBERS = [one for one in VALUES if pa.types.is_integer(one) or pa.types.is_decimal(one)]
TYPES_OF_NUMBERS += [pa.float32(), pa.float64()]
ISO_TEXTS = st.one_of(
    TIMES.map(lambda one: f"{one.isoformat()}Z"),
    st.sampled_from(["", "2026-03-01", "2026-02-30T00:00:00Z"]),
)
EVENT_TIMES: list[tuple[pa.DataType, st.SearchStrategy[Any], dict[str, Any]]] = [
    (UTC_MICROS, TIMES, {}),
    (UTC_MICROS, TIMES, {"format": "epoch_millis"}),
    (pa.timestamp("us"), TIMES, {"zone": "Europe/Vienna"}),
    (pa.timestamp("ms", "UTC"), VALUES[pa.timestamp("ms", "UTC")], {}),
    (pa.string(), ISO_TEXTS, {}),
    (pa.string(), ISO_TEXTS, {"zone": "Europe/Vienna"}),
    (pa.int64(), st.integers(1_700_000_000, 1_790_000_000), {"format": "epoch_seconds"}),
    (pa.int64(), VALUES[pa.int64()], {"format": "epoch_millis"}),
    (
        pa.decimal128(14, 3),
        st.decimals(1_770_000_000, 1_790_000_000, places=3),
        {"format": "epoch_seconds"},
    ),
]


DAY_MICROS = 86_400_000_000
# Numbers of times within the calendar, just outside of it, and where Arrow's years begin anew.
EDGES = [-62_135_596_800_000_001, -62_135_596_800_000_000, 253_402_300_799_999_999]
MICROS = st.one_of(
    st.sampled_from([*EDGES, 253_402_300_800_000_000, 23_956_986 * DAY_MICROS, 0]),
    st.integers(-(2**63), 2**63 - 1),
)


@st.composite
def unknown_fields(draw: st.DrawFn, number: int) -> pa.Array[Any]:
    """A field that no column takes, also of values that no line can hold."""
    source = draw(st.sampled_from([*VALUES, pa.time64("us"), pa.float16()]))
    if pa.types.is_string(source):
        texts = st.sampled_from([b"a", b"\xff", "é".encode(), b"\xed\xa0\x80", None])
        broken: Any = pa.array([draw(texts) for _ in range(number)], pa.binary())
        return broken.view(source)
    if pa.types.is_date32(source) or pa.types.is_timestamp(source):
        size = {"date32[day]": DAY_MICROS, "timestamp[ms, tz=UTC]": 1_000}.get(str(source), 1)
        numbers = [draw(st.none() | MICROS.map(lambda one: one // size)) for _ in range(number)]
        return pa.array(numbers, pa.int32() if size == DAY_MICROS else pa.int64()).view(source)
    values = {pa.time64("us"): st.times(), pa.float16(): VALUES[pa.float32()], **VALUES}[source]
    drawn = [draw(st.none() | values) for _ in range(number)]
    if source == pa.float16():
        return pa.array(drawn, pa.float32()).cast(source)
    return pa.array(drawn, source)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], pa.Table]:
    """A pipeline's source, and rows that it may read."""
    columns: dict[str, Any] = {}
    number = draw(st.integers(1, 12))
    usual = draw(st.integers(0, 2)) > 0
    kind, times, written = EVENT_TIMES[0] if usual else draw(st.sampled_from(EVENT_TIMES))
    maybe = st.none() if draw(st.integers(0, 9)) == 0 else st.nothing()
    content = {"at": pa.array([draw(st.one_of(maybe, times)) for _ in range(number)], kind)}
    columns["at"] = "timestamp"
    for place in range(draw(st.integers(1, 4))):
        name, declared = f"c{place}", draw(st.sampled_from(list(DECLARED)))
        entry: dict[str, Any] = {"type": declared}
        if draw(st.integers(0, 4)) == 0:
            entry["type"] += " not null"
        if declared == "string" and draw(st.integers(0, 3)) == 0:
            entry |= {"nulls": ["NA"], "trim": draw(st.booleans())}
        columns[name] = entry
        if draw(st.integers(0, 9)) == 0:
            continue
        # Mostly of its own type, as what else there is ends the tier for all rows.
        source = DECLARED[declared]
        if source in TYPES_OF_NUMBERS and draw(st.integers(0, 2)) == 0:
            source = draw(st.sampled_from(TYPES_OF_NUMBERS))
        elif draw(st.integers(0, 11)) == 0:
            source = draw(st.sampled_from(list(VALUES)))
        values = [draw(st.one_of(st.none(), VALUES[source])) for _ in range(number)]
        content[name] = pa.array(values, source)
    if draw(st.integers(0, 2)) == 0:
        content["more"] = draw(unknown_fields(number))
    source_entries = {
        "files": "landing/*.parquet",
        "columns": columns,
        "event_time": {"column": "at", **written},
        "unknown_fields": draw(st.sampled_from(["keep", "ignore", "reject"])),
    }
    return source_entries, pa.table(content)


def judged(folder: Path, source: dict[str, Any], rows: pa.Table, by_line: bool, most: int) -> Any:
    """Accepted and rejected rows, in the order of what they hold."""
    file = folder / "rows.parquet"
    pq.write_table(rows, file)
    return judged_file(file, source, by_line, most)


def judged_file(file: Path, source: dict[str, Any], by_line: bool, most: int) -> Any:
    *tables, by_reason = rows_of_file(file, source, by_line, most)
    return [sorted(map(repr, table)) for table in tables], by_reason


def rows_of_file(file: Path, source: dict[str, Any], by_line: bool, most: int) -> Any:
    """Accepted and rejected rows, and how many of these each reason has."""
    pipeline = pipeline_from_mapping("judged", clicks(source=source, tables=TABLES, keep="60 days"))
    uri = file.as_uri()
    facts = stat_files([uri], {})[uri]
    assert facts is not None
    rules, origin = rules_of(pipeline), row_origin(pipeline)
    by = BatchRules(rules, origin, 0, NOW_MS, most, keeps_lines=False, by_line=by_line)
    assert isinstance(pipeline.source, FilesSource)
    found = judge_slices(by, slices_of(pipeline.source, {uri: facts}, {}), sys.maxsize)
    assert found is not None
    assert found.read == sum(map(len, (*found.accepted, *found.rejected)))
    for one in found.accepted:
        one.validate(full=True)
    accepted, rejected = [
        [row for one in rows for row in one.to_pylist()]
        for rows in (found.accepted, found.rejected)
    ]
    return accepted, rejected, found.by_reason


TABLES = {"all": {"window": {"length": "10 minutes"}, "measures": {"n": "count(*)"}}}


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=list(HealthCheck), deadline=None)
@given(case=cases(), most=st.sampled_from([10_000_000, 3_000]))
def test_typed_rows_are_judged_as_their_lines_one_by_one(
    tmp_path: Path, case: tuple[dict[str, Any], pa.Table], most: int
) -> None:
    source, rows = case
    fast = judged(tmp_path, source, rows, by_line=False, most=most)
    assert fast == judged(tmp_path, source, rows, by_line=True, most=most)


CELLS = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                '""',
                "5",
                "05",
                "-0",
                "1.5",
                "1.505",
                "1e3",
                "1e999",
                "NaN",
                " 5",
                "0x1F",
                '"7"',
            ),
            *("true", "TRUE", '"true"', "NA", "abc", '"a,""b"', "é", "2026-03-01", "x" * 200),
            *("99999999999999999999", "2026-03-01T00:00:00Z", "9007199254740993", "3000000000"),
        ]
    ),
    st.integers(-300, 300).map(str),
)
EVENTS = st.sampled_from(
    ["2026-04-01T00:00:00Z", "2026-04-01T00:00:00.123456+02:00", "2026-04-02T00:00:00Z", "", "soon"]
)


NUMBERS = ("long", "int", "byte", "double", "float", "decimal(10,2)")


@st.composite
def csv_cases(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A pipeline's source, and a file that it may read."""
    names = [f"c{place}" for place in range(draw(st.integers(1, 4)))]
    columns: dict[str, Any] = {"at": "timestamp"}
    for name in names:
        columns[name] = {
            "type": draw(st.sampled_from([one for one in DECLARED if one != "binary"]))
        }
        if draw(st.integers(0, 5)) == 0:
            columns[name] |= {"nulls": ["NA", "5"], "trim": True}
        if columns[name]["type"] in NUMBERS and draw(st.integers(0, 5)) == 0:
            columns[name]["from_text"] = True
    form: dict[str, Any] = {"decimal": ","} if draw(st.integers(0, 9)) == 0 else {}
    if form:
        form["delimiter"] = ";"
    lines = [[draw(EVENTS), *(draw(CELLS) for _ in names)] for _ in range(draw(st.integers(1, 8)))]
    if draw(st.integers(0, 5)) == 0:
        lines[-1].append("more")
    delimiter = form.get("delimiter", ",")
    text = "".join(delimiter.join(one) + "\n" for one in [["at", *names], *lines])
    source = {
        "files": "landing/*.csv",
        "format": {"csv": form} if form else "csv",
        "columns": columns,
        "event_time": {"column": "at"},
        "unknown_fields": draw(st.sampled_from(["keep", "ignore"])),
    }
    return source, text


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=list(HealthCheck), deadline=None)
@given(case=csv_cases(), most=st.sampled_from([10_000_000, 300]))
def test_records_of_csv_are_judged_as_their_lines_one_by_one(
    tmp_path: Path, case: tuple[dict[str, Any], str], most: int
) -> None:
    source, text = case
    file = tmp_path / "rows.csv"
    file.write_text(text)
    fast = judged_file(file, source, by_line=False, most=most)
    assert fast == judged_file(file, source, by_line=True, most=most)


@pytest.mark.parametrize(
    ("declared", "cells", "form", "accepted"),
    [
        ("boolean", ["TRUE", "1", "true"], {}, 1),
        ("long", ["05", "+5", "0x1F", "5"], {}, 1),
        ("double", [".5", "5.", "1e3", "inf"], {}, 1),
        ("decimal(10,2)", ["1.505", "1e1", "1.5"], {}, 2),
        ("decimal(10,2)", ["+5", ".5", "007", "5.", '"12"'], {}, 1),
        ("float", ["1e999", "1.5"], {}, 1),
        ("double", ["1,5", "1.5", "2"], {"decimal": ",", "delimiter": ";"}, 2),
    ],
)
def test_what_arrow_reads_leniently_is_refused_to_it(
    tmp_path: Path, declared: str, cells: list[str], form: dict[str, str], accepted: int
) -> None:
    delimiter = form.get("delimiter", ",")
    lines = [f"2026-04-01T00:00:00Z{delimiter}{cell}\n" for cell in cells]
    source = {
        "files": "landing/*.csv",
        "format": {"csv": form},
        "columns": {"at": "timestamp", "v": declared},
        "event_time": {"column": "at"},
    }
    file = tmp_path / "rows.csv"
    # Each by itself too, where no other one makes Arrow refuse all of them.
    counts = []
    for chosen in [lines, *([line] for line in lines)]:
        file.write_text(f"at{delimiter}v\n" + "".join(chosen))
        found = judged_file(file, source, by_line=False, most=10**7)
        assert found == judged_file(file, source, by_line=True, most=10**7)
        counts.append(len(found[0][0]))
    assert counts[0] == sum(counts[1:]) == accepted


CELLS_OF_NUMBERS = st.one_of(
    st.sampled_from(["12.500", "12,500", "1.234,5", "-999", " 5 ", "+5", ".5", "007", "1e2", "NA"]),
    st.text(st.sampled_from("0159.,+-e "), max_size=6),
)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    cells=st.lists(st.tuples(CELLS_OF_NUMBERS, st.booleans()), min_size=1, max_size=6),
    declared=st.sampled_from(["decimal(18,6)", "double"]),
    point=st.sampled_from([".", ","]),
    column=st.fixed_dictionaries(
        {},
        optional={
            "nulls": st.lists(st.sampled_from(["-999", "NA", "5", ""]), min_size=1, max_size=2),
            "trim": st.booleans(),
            "from_text": st.booleans(),
        },
    ),
    nulls_of_all=st.sampled_from([[], ["-999"]]),
)
def test_a_number_of_csv_is_one_with_the_files_own_point_or_no_number(
    tmp_path: Path,
    cells: list[tuple[str, bool]],
    declared: str,
    point: str,
    column: dict[str, Any],
    nulls_of_all: list[str],
) -> None:
    nulls = column.get("nulls", nulls_of_all)
    expected: list[Any] = []
    rejected = 0
    for cell, is_quoted in cells:
        text = cell.strip(" ") if column.get("trim") else cell
        number = rf"-?(0|[1-9]\d*)({re.escape(point)}\d+)?([eE][+-]?\d+)?"
        if (cell == "" and not is_quoted) or text in nulls:
            expected.append(None)
        elif not re.fullmatch(number, text):
            rejected += 1
        else:
            value = Decimal(text.replace(",", "."))
            fits = abs(value) < 10**12 and value == round(value, 6)
            if declared == "double":
                expected.append(float(value))
            elif fits:
                expected.append(value)
            else:
                rejected += 1
    file = tmp_path / "rows.csv"
    lines = [f'{AT.isoformat()};"{one}"' if q else f"{AT.isoformat()};{one}" for one, q in cells]
    file.write_text("at;v\n" + "".join(f"{line}\n" for line in lines))
    source = {
        "files": "landing/*.csv",
        "format": {"csv": {"delimiter": ";", "decimal": point}},
        "columns": {"at": "timestamp", "v": {"type": declared, **column}},
        "event_time": {"column": "at"},
        "nulls": nulls_of_all,
    }
    for by_line in (False, True):
        rows, rejects = rows_of_file(file, source, by_line, 10**7)[:2]
        assert [row["v"] for row in sorted(rows, key=lambda row: row["_place"])] == expected
        assert [reject["reason"] for reject in rejects] == ["wrong type"] * rejected


@pytest.mark.parametrize("by_line", [False, True])
def test_an_epoch_of_csv_is_a_number_with_the_files_own_point(
    tmp_path: Path, by_line: bool
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("at;v\n1775001600,5;a\n1775001600.500;b\n 1775001600;c\n-;d\n")
    source = {
        "files": "landing/*.csv",
        "format": {"csv": {"delimiter": ";", "decimal": ","}},
        "columns": {"at": {"type": "timestamp", "trim": True, "nulls": ["-"]}, "v": "string"},
        "event_time": {"column": "at", "format": "epoch_seconds"},
    }
    rows, rejects, _ = rows_of_file(file, source, by_line, 10**7)
    assert {row["v"]: row["at"].microsecond for row in rows} == {"a": 500_000, "c": 0}
    assert [(one["reason"], one["detail"]) for one in rejects] == [
        ("wrong type", 'at should be timestamp, found "1775001600.500"'),
        ("missing field", "at is null"),
    ]


PLAIN = {
    "files": "landing/*.parquet",
    "columns": {"at": "timestamp", "n": "long", "s": "string"},
    "event_time": {"column": "at"},
}
AT = datetime(2026, 4, 1, tzinfo=UTC)


def lines_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were made into lines, by each call."""
    made: list[int] = []
    original = parquet.lines_of_columns

    def counted(names: Any, values: Any) -> Any:
        made.append(len(values[0]))
        return original(names, values)

    monkeypatch.setattr(parquet, "lines_of_columns", counted)
    return made


def test_lines_are_made_only_of_rows_that_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lines_made(monkeypatch)
    rows = pa.table(
        {
            "at": pa.array([AT] * 999 + [None], UTC_MICROS),
            "n": pa.array(range(1000), pa.int64()),
            "s": pa.array([f"s{n}" for n in range(1000)]),
        }
    )
    (accepted, rejected), _ = judged(tmp_path, PLAIN, rows, by_line=False, most=10**7)
    assert (len(accepted), len(rejected), made) == (999, 1, [1])
    # An unknown field is kept as it would be in a line.
    made.clear()
    wide = rows.append_column("more", rows["n"])
    (accepted, _), _ = judged(tmp_path, PLAIN, wide, by_line=False, most=10**7)
    assert (len(accepted), made) == (999, [1000])
    assert "'_extra': '{\"more\":7}'" in "".join(accepted)
    made.clear()
    ignoring = {**PLAIN, "unknown_fields": "ignore"}
    judged(tmp_path, ignoring, wide, by_line=False, most=10**7)
    assert made == [1]


def test_text_that_is_not_utf8_is_one_rows_fault(tmp_path: Path) -> None:
    texts = pa.array([b"a", b"\xff", b"c"], pa.binary())
    broken = pa.StringArray.from_buffers(3, *texts.buffers()[1:])
    rows = pa.table({"at": pa.array([AT] * 3, UTC_MICROS), "n": pa.array([1, 2, 3]), "s": broken})
    (accepted, rejected), reasons = judged(tmp_path, PLAIN, rows, by_line=False, most=10**7)
    assert (len(accepted), len(rejected), dict(reasons)) == (2, 1, {"malformed": 1})


@pytest.mark.parametrize(
    "ignored",
    [
        pa.array([1.5, float("nan"), float("-inf"), None]),
        pa.array([1.5, float("nan"), float("inf"), None], pa.float32()),
        pa.array([b"a", b"\xff", b"\xed\xa0\x80", None], pa.binary()).view(pa.string()),
        pa.array([0, 2_932_897, 23_956_986, None], pa.int32()).view(pa.date32()),
        pa.array([0, -62_135_596_800_001, 2**62, None], pa.int64()).view(pa.timestamp("ms", "UTC")),
        pa.array([0, -62_135_596_800_000_001, 23_956_986 * DAY_MICROS, None], pa.timestamp("us")),
    ],
    ids=lambda one: str(one.type),
)
@pytest.mark.parametrize("by_line", [False, True])
def test_a_value_without_json_in_a_field_that_is_ignored_makes_its_row_malformed(
    tmp_path: Path, ignored: Any, by_line: bool
) -> None:
    columns = [pa.array([AT] * 4, UTC_MICROS), pa.array(range(4)), pa.array(["a"] * 4), ignored]
    pq.write_table(pa.table(columns, ["at", "n", "s", "more"]), tmp_path / "rows.parquet")
    ignoring = {**PLAIN, "unknown_fields": "ignore"}
    accepted, _, reasons = rows_of_file(tmp_path / "rows.parquet", ignoring, by_line, 10**7)
    assert [row["n"] for row in accepted] == [0, 3]
    assert dict(reasons) == {"malformed": 2}


def test_large_rows_are_told_by_their_numbers(tmp_path: Path) -> None:
    texts = ["x" * 5_000 if n in (2, 5) else "x" for n in range(7)]
    rows = pa.table(
        {"at": pa.array([AT] * 7, UTC_MICROS), "n": pa.array(range(7)), "s": pa.array(texts)}
    )
    (_, rejected), reasons = judged(tmp_path, PLAIN, rows, by_line=False, most=4_096)
    assert dict(reasons) == {"too large": 2}
    assert [one in "".join(rejected) for one in ("Row 3 has", "Row 6 has", "Row 4 has")] == [
        True, True, False,
    ]  # fmt: skip
    # Also by what no column takes, which no type bounds.
    lists = pa.array([list(range(2_000))] + [[1]] * 6)
    ignoring = {**PLAIN, "unknown_fields": "ignore"}
    small = rows.set_column(2, "s", pa.array(["x"] * 7)).append_column("more", lists)
    (_, rejected), reasons = judged(tmp_path, ignoring, small, by_line=False, most=4_096)
    assert dict(reasons) == {"too large": 1}
    assert "Row 1 has" in rejected[0]


@pytest.mark.parametrize(
    ("entry", "values", "reasons"),
    [
        ({"type": "string", "nulls": ["NA"]}, pa.array(["NA", "x"]), {}),
        ({"type": "double"}, pa.array([1.5, float("nan")]), {"malformed": 1}),
        ({"type": "float"}, pa.array([float("inf"), 2], pa.float32()), {"malformed": 1}),
        ({"type": "timestamp"}, pa.array(["2026-03-01T00:00:00Z", "soon"]), {"wrong type": 1}),
        ({"type": "date"}, pa.array(["2026-02-30", "2026-02-28"]), {"wrong type": 1}),
        ({"type": "long not null"}, pa.array([None, 2], pa.int64()), {"missing field": 1}),
        ({"type": "long"}, pa.array(["1", "2"]), {"wrong type": 2}),
        ({"type": "binary"}, pa.array(["AA==", "A"]), {"wrong type": 1}),
        (
            {"type": "timestamp"},
            pa.array([-62_135_596_800_000_001, 0], UTC_MICROS),
            {"malformed": 1},
        ),
    ],
)
def test_a_value_that_its_type_does_not_say_enough_of_is_its_lines_to_say(
    tmp_path: Path, entry: dict[str, Any], values: Any, reasons: dict[str, int]
) -> None:
    columns = {**PLAIN["columns"], "v": entry}  # type: ignore[dict-item]
    rows = pa.table(
        {"at": pa.array([AT] * 2, UTC_MICROS), "n": pa.array([1, 2]), "s": pa.array(["a", "b"])}
    ).append_column("v", values)
    found = judged(tmp_path, {**PLAIN, "columns": columns}, rows, by_line=False, most=10**7)
    assert dict(found[1]) == reasons
    assert found == judged(tmp_path, {**PLAIN, "columns": columns}, rows, by_line=True, most=10**7)


def test_a_try_after_a_crash_reads_no_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Judge, "typed", never)
    rows = pa.table({"at": pa.array([AT], UTC_MICROS), "n": pa.array([1]), "s": pa.array(["a"])})
    (accepted, _), _ = judged(tmp_path, PLAIN, rows, by_line=True, most=10**7)
    assert len(accepted) == 1
    # Digits that a decimal does not have are for its line to say.
    wide = {**PLAIN, "columns": {**PLAIN["columns"], "d": "decimal(10,2)"}}  # type: ignore[dict-item]
    more = rows.append_column("d", pa.array([Decimal("1.005")], pa.decimal128(12, 3)))
    monkeypatch.undo()
    _, reasons = judged(tmp_path, wide, more, by_line=False, most=10**7)
    assert dict(reasons) == {"wrong type": 1}
