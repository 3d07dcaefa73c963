"""CSV files as JSON lines: what Python's and DuckDB's readers find, verdicts for what is odd."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.sources.files import codecs
from tidemark.sources.formats import csv_records
from tidemark.sources.formats.csv import CsvSlice, _RecordReader, csv_slice
from tidemark.sources.formats.csv_form import BOOLEAN, NUMBER, CsvForm, CsvValue
from tidemark.sources.formats.csv_records import BadRecord, fields_of, records
from tidemark.sources.large_lines import LargeLine
from tidemark.sources.source import AS_READ, DETAIL, REASON, PartUnreadable
from tidemark.storage import files
from tidemark.storage.files import stat_files

MOST = 1_000_000
FORM = CsvForm(values=(("n", CsvValue(NUMBER)), ("b", CsvValue(BOOLEAN))))
Told = list[tuple[str, Any]]


def slice_of(path: Path, form: CsvForm = FORM) -> CsvSlice:
    facts = stat_files([path.as_uri()], {})[path.as_uri()]
    assert facts is not None
    return csv_slice(path.as_uri(), facts, {}, form)


def told_of(path: Path, form: CsvForm = FORM, most: int = MOST) -> Told:
    """Of each record what it is as JSON, or the reason and detail of its reject."""
    found: Told = []
    for piece in slice_of(path, form).lines(most):
        columns = piece.to_pydict()
        for n in range(len(piece)):
            if REASON in columns and columns[REASON][n] is not None:
                found.append((columns[REASON][n], columns[DETAIL][n]))
            else:
                found.append(("row", json.loads(columns[AS_READ][n])))
    return found


def told(data: bytes | str, form: CsvForm = FORM, name: str = "a.csv", most: int = MOST) -> Told:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return told_of(path, form, most)


def rows(data: bytes | str, form: CsvForm = FORM) -> list[Any]:
    found = told(data, form)
    assert {kind for kind, _ in found} <= {"row"}, found
    return [row for _, row in found]


def test_a_record_is_an_object_by_the_header_and_the_types_of_its_columns() -> None:
    data = 'n,b,t\n12,true,x\n-0.5e3,false,"a, ""b"""\n007,yes,\n,,""\n"1","true","null"\n'
    assert rows(data) == [
        {"n": 12, "b": True, "t": "x"},
        {"n": -500.0, "b": False, "t": 'a, "b"'},
        {"n": "007", "b": "yes", "t": None},
        {"n": None, "b": None, "t": ""},
        {"n": 1, "b": True, "t": "null"},
    ]


@pytest.mark.parametrize("text", ["+5", ".5", "5.", " 5", "5 ", "0x1F", "1_000", "NaN", "inf", "१"])
def test_a_number_is_one_as_json_writes_it_and_else_text(text: str) -> None:
    assert rows(f"n\n{text}\n") == [{"n": text}]


def test_names_are_those_of_each_files_own_header() -> None:
    assert rows("t,n\nx,1\n") == [{"t": "x", "n": 1}]
    form = CsvForm(header=False, names=("n", "t"), values=FORM.values)
    assert rows("1,x\n2,y\n", form) == [{"n": 1, "t": "x"}, {"n": 2, "t": "y"}]


def test_what_is_said_of_the_form_holds() -> None:
    form = CsvForm(
        delimiter=";", quote="'", nulls=("", "nil"), decimal=",", comment="#", values=FORM.values
    )
    data = "# by hand\nn;t\n1,5;'a;b'\n#no;row\nnil;'nil'\n1.5;it\n1e3;2\n"
    assert rows(data, form) == [
        {"n": 1.5, "t": "a;b"},
        {"n": None, "t": "nil"},
        {"n": "1.5", "t": "it"},
        {"n": 1000.0, "t": "2"},
    ]
    escaped = CsvForm(escape="\\")
    assert rows('t,u\n"a \\"b\\" \\\\",2\n', escaped) == [{"t": 'a "b" \\', "u": "2"}]
    assert rows('t,u\n5" pipe,2\n', CsvForm(quote="")) == [{"t": '5" pipe', "u": "2"}]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_file_is_read_in_its_encoding(encoding: str) -> None:
    form = CsvForm(encoding="utf-8" if encoding == "utf-8-sig" else encoding)
    assert rows("t,ü\nstraße,é\n".encode(encoding), form) == [{"t": "straße", "ü": "é"}]


def test_a_mark_that_begins_a_record_is_part_of_it_wherever_the_record_lies() -> None:
    marked, plain = "\ufeffx,1\n", "y,2\n"
    for before in ("", plain):
        found = rows("name,n\n" + before + marked + plain)
        assert [row["name"] for row in found] == ["y"] * bool(before) + ["\ufeffx", "y"]


@pytest.mark.parametrize("beside", ["x", "\t"])
def test_what_a_column_says_of_texts_holds_for_numbers(beside: str) -> None:
    """In records that Arrow reads, and in others."""
    value = CsvValue(NUMBER, trim=True, nulls=("-999", "n/a"))
    form = CsvForm(values=(("n", value), ("b", CsvValue(BOOLEAN, trim=True, nulls=("-",)))))
    texts = ["-999", '"-999"', " -999 ", " 5", '" 5 "', "n/a", "", '""', " x ", "-999.0"]
    data = "n,t\n" + "".join(f"{text},{beside}\n" for text in texts)
    values = [None, None, None, 5, 5, None, None, "", "x", -999.0]
    assert rows(data, form) == [{"n": n, "t": beside} for n in values]
    assert rows(f"b,t\n true,{beside}\n -,{beside}\n", form) == [
        {"b": True, "t": beside}, {"b": None, "t": beside},
    ]  # fmt: skip
    untouched = CsvForm(values=(("n", CsvValue(NUMBER)),))
    assert rows(f"n,t\n-999,{beside}\n 5,{beside}\n", untouched) == [
        {"n": -999, "t": beside}, {"n": " 5", "t": beside},
    ]  # fmt: skip


def test_ends_of_lines_are_those_of_either_kind_and_within_quotes_they_stay() -> None:
    assert rows(b't,u\r\n1,"a\r\nb"\r\n2,"c\nd"\r\n3,x') == [
        {"t": "1", "u": "a\r\nb"},
        {"t": "2", "u": "c\nd"},
        {"t": "3", "u": "x"},
    ]


RETURN = r"a `\r` without `\n` stands outside of quotes: lines end with `\n` or `\r\n`"


def test_a_return_alone_ends_no_line_and_is_told() -> None:
    form = CsvForm(header=False, names=("t", "u"), comment="#")
    assert told(b"1,2\r3,4\r", form) == [("malformed", RETURN)]
    assert told(b"# by hand\r1,2\r3,4\r", form) == [("malformed", RETURN)]
    assert told(b'# by hand\r\n1,2\r3\r\n"4\r",5\r\n', form) == [
        ("malformed", RETURN),
        ("row", {"t": "4\r", "u": "5"}),
    ]
    # In a record of several lines it makes no records of a text.
    assert told(b'1\r,"a\n2,evil\n"\n3,4\n', form) == [
        ("malformed", RETURN),
        ("row", {"t": "3", "u": "4"}),
    ]


def test_what_is_no_record_is_a_reject_with_its_reason_and_the_others_are_rows() -> None:
    data = 'n,t\n1,a\n2\n3,b,c\n\n4,5" pipe\n5,"x"y\n6,c\n7,"never closed\n8,d\n'
    assert told(data) == [
        ("row", {"n": 1, "t": "a"}),
        ("malformed", "1 fields, the header has 2"),
        ("malformed", "3 fields, the header has 2"),
        ("malformed", "blank line"),
        ("malformed", "a quote is not closed"),
        ("malformed", "there is text behind the closing quote of field 2"),
        ("row", {"n": 6, "t": "c"}),
        ("malformed", "a quote is not closed"),
        ("row", {"n": 8, "t": "d"}),
    ]


def test_a_quote_too_many_takes_no_other_record_along() -> None:
    good = "".join(f"{n},x{n}\n" for n in range(50))
    found = told(f'n,t\n0,5" pipe\n{good}1,7" pipe\n{good}')
    assert [row["n"] for kind, row in found if kind == "row"] == [*range(50), *range(50)]
    assert [detail for kind, detail in found if kind != "row"] == ["a quote is not closed"] * 2


def test_bytes_that_are_no_text_are_the_judges_to_reject() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(b"n,t\n1,\xff\n2,b\n")
        (piece,) = slice_of(path).lines(MOST)
    assert piece[AS_READ].to_pylist()[0] == b"1,\xff"
    assert json.loads(piece[AS_READ].to_pylist()[1]) == {"n": 2, "t": "b"}


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"a,b,a\n1,2,3\n", "Its header names a twice"),
        (b'a,"b"c\n1,2\n', "Its header cannot be read: there is text behind"),
        (b'"a,b\n1,2\n', "Its header cannot be read: a quote is not closed"),
        (b"a,b\r1,2\r", r"Its header cannot be read: a `\r` without `\n` stands outside of quotes"),
        (b'"a","b"\r"1","2"', r"Its header cannot be read: a `\r` without `\n` stands outside"),
        (b"\xff,b\n1,2\n", "Its header is not valid UTF-8"),
    ],
)
def test_a_file_whose_header_says_nothing_is_unreadable(data: bytes, cause: str) -> None:
    with pytest.raises(PartUnreadable) as found:
        told(data)
    assert found.value.cause.startswith(cause)


def test_a_file_of_another_encoding_than_it_should_be_is_unreadable() -> None:
    with pytest.raises(PartUnreadable, match="cannot be read to its end"):
        told(b"a,b\n1,\x81\n", CsvForm(encoding="windows-1252"))


def test_a_file_with_a_header_alone_or_without_a_line_has_no_row() -> None:
    assert told("n,t\n") == told("n,t") == []


def test_a_record_that_is_too_large_is_told_and_the_others_are_rows() -> None:
    found = told(f"n,t\n1,{'x' * 5_000}\n2,a\n", most=4_096)
    assert [kind for kind, _ in found] == ["too large", "row"]
    assert "Record 1 has 5,002 bytes, at most 4,096 are taken" in found[0][1]


@pytest.mark.parametrize("field", ["9,evil\n" * 700, "x" * 5_000 + "\n9,evil\n"])
def test_a_record_that_is_too_large_is_one_reject_whatever_lines_it_holds(field: str) -> None:
    found = told(f'n,t\n1,"{field}"\n2,a\n', most=4_096)
    assert [kind for kind, _ in found] == ["too large", "row"]
    size = len(field) + 4
    assert found[0][1].startswith(f"Record 1 has {size:,} bytes, at most 4,096 are taken")
    assert digest_in(found[0][1]) == sha256(f'1,"{field}"'.encode()).hexdigest()


MEASURED = """
import json, resource, sys
from pathlib import Path
from tests.sources.formats.test_csv import slice_of
from tidemark.sources.source import DETAIL
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
slice_of(Path(sys.argv[2])).names(100)
of, before = slice_of(Path(sys.argv[1])), peak()
found = [row.get(DETAIL) for piece in of.lines(16 * 1024**2) for row in piece.to_pylist()]
print(json.dumps([peak() - before, found]))
"""


@pytest.mark.slow
def test_a_record_of_a_quarter_of_a_gigabyte_takes_no_more_memory_than_one_that_is_taken(
    tmp_path: Path,
) -> None:
    large, small = tmp_path / "large.csv", tmp_path / "small.csv"
    small.write_text("n,t\n1,a\n")
    line = f"9,{'x' * 97}\n"
    with large.open("w") as file:
        file.write('n,t\n1,"')
        for _ in range(25):
            file.write(line * 100_000)
        file.write('"\n2,a\n')
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(large), str(small)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    more, (detail, none) = json.loads(ran.stdout)
    assert none is None
    assert detail.startswith("Record 1 has 250,000,004 bytes, at most 16,777,216 are taken")
    # In MiB: what is held, also line by line, and a piece of what is read.
    assert more < 150


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_of_what_is_too_large_to_be_held_and_is_no_record_the_first_line_alone_is_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str, encoding: str
) -> None:
    """Its other lines are read again: from a file, whatever packs it and however it is written."""
    monkeypatch.setattr(csv_records, "_HELD", 4_096)
    monkeypatch.setattr(files, "_CHUNK", 1_000)
    monkeypatch.setattr(codecs, "_CHUNK", 1_000)
    good = "".join(f"{n},é{n}\n" for n in range(900))
    # Never closed; closed with text behind it; a record; never closed.
    text = f'n,t\n1,"open\n{good}2,"open\n{good}3"x\n4,"{good}"\n5,"open\n{good}'
    data = text.encode(encoding)
    form = CsvForm(encoding=encoding, values=FORM.values)
    found = told(gzip.compress(data) if name.endswith(".gz") else data, form, name, most=4_000)
    rows = [("row", {"n": n, "t": f"é{n}"}) for n in range(900)]
    not_closed = ("malformed", "a quote is not closed")
    large = found[2 * 901 + 1]
    assert large[0] == "too large"
    assert digest_in(large[1]) == sha256(f'4,"{good}"'.encode()).hexdigest()
    expected = [not_closed, *rows, not_closed, *rows, not_closed, large, not_closed, *rows]
    assert found == expected


def test_a_packed_file_is_read_as_a_plain_one() -> None:
    assert told(gzip.compress(b"n,t\n1,a\n"), name="a.csv.gz") == [("row", {"n": 1, "t": "a"})]


# Not `\r`: Python leaves it without quotes, where it is part of the end of the line to others.
TEXTS = st.text(st.sampled_from('ab1,;." \n\\é-e\t#'), max_size=8)


@given(
    st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=8),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_python_writes_is_read_as_python_and_duckdb_read_it(
    written: list[list[str]], quoting: Any, end: str
) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator=end)
    writer.writerows([["t", "u"], *written])
    form, new_line = CsvForm(nulls=()), repr(end)[1:-1]
    found = rows(out.getvalue().encode(), form)
    assert found == [{"t": one, "u": two} for one, two in written]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder) / "a.csv"
        path.write_bytes(out.getvalue().encode())
        by_duckdb = connection.execute(
            f"""
            FROM read_csv('{path}', header = true, delim = ',', quote = '"', escape = '"',
                all_varchar = true, null_padding = false, nullstr = 'no such text',
                columns = {{'t': 'VARCHAR', 'u': 'VARCHAR'}}, auto_detect = false,
                new_line = '{new_line}')
            """
        ).fetchall()
    assert [tuple(row.values()) for row in found] == [
        (one or "", two or "") for one, two in by_duckdb
    ]


FORMS = st.builds(
    CsvForm,
    delimiter=st.sampled_from([",", ";", "\t", "|", "^", "]", "-"]),
    header=st.just(False),
    quote=st.sampled_from(['"', '"', "'", ""]),
    escape=st.sampled_from(["", "", "\\"]),
    nulls=st.sampled_from([("",), (), ("", "a")]),
    comment=st.sampled_from(["", "#"]),
    decimal=st.sampled_from([".", ".", ":"]),
    values=st.sampled_from(
        [
            FORM.values,
            (("n", CsvValue(NUMBER, trim=True, nulls=("17", "a"))), ("b", CsvValue(BOOLEAN))),
            (("n", CsvValue(NUMBER, nulls=("", "1"))), ("t", CsvValue(BOOLEAN, trim=True))),
        ]
    ),
    names=st.just(("n", "t")),
)


def test_the_end_of_a_large_record_may_be_cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "_HELD", 4)
    form, whole = CsvForm(header=False, names=("n", "t")), b'1,"aaaa\r\nb\rb"\r\n2,x\r\n'
    for cut in range(len(whole)):
        assert read([whole[:cut], whole[cut:]], form, 9) == exactly(whole, form, 9)


MORE_TOKENS = ["\r\n", "\r", '""', "\\", "x" * 9, '"\n', "#"]
TOKENS = ["1", "17", "a", "true", " ", ",", ",", ";", "\n", "\n", '"', '"a\n17"', "\t", "1.5"]


@given(
    st.one_of(
        st.text(st.sampled_from("ab17,.:\"' \n\r\\é-eE+\x00t;|^]#\t"), max_size=60),
        st.lists(st.sampled_from(TOKENS), max_size=24).map("".join),
    ),
    FORMS,
    st.data(),
)
def test_however_a_file_is_cut_each_record_is_what_the_exact_reader_says(
    text: str, form: CsvForm, data: st.DataObject
) -> None:
    """Also that of records which Arrow reads."""
    whole = text.replace(",", form.delimiter).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(chunks, form) == exactly(whole, form)


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from([*TOKENS, "\r\n", "\r", '""', "\\", "x" * 9, '"\n', "#"]), max_size=40
    ),
    FORMS,
    st.integers(2, 30),
    st.integers(0, 30),
    st.data(),
)
def test_however_much_of_a_record_is_held_it_is_a_row_a_reject_or_too_large(
    tokens: list[str], form: CsvForm, most: int, held: int, data: st.DataObject
) -> None:
    """As where all of it is held, but for those that are too large."""
    whole = "".join(tokens).replace(",", form.delimiter).replace('"', form.quote).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "_HELD", held)
        found = read(chunks, form, most)
    assert found == exactly(whole, form, most)


@pytest.mark.parametrize("columns", [1, 150, 151, 600])
def test_a_file_of_many_columns_is_read(columns: int) -> None:
    names = [f"c{n}" for n in range(columns)]
    data = f"{','.join(names)}\n{','.join(map(str, range(columns)))}\n"
    assert rows(data) == [{name: str(n) for n, name in enumerate(names)}]


def read(chunks: Sequence[bytes], form: CsvForm, most: int = MOST) -> Told:
    found: Told = []
    for piece in _RecordReader("part", form, most).pieces(lambda: iter(chunks)):
        columns = piece.lines(None)
        values = columns.get(AS_READ, columns["_value"]).to_pylist()
        told_why = columns[DETAIL].to_pylist() if DETAIL in columns else [None] * len(values)
        for value, why in zip(values, told_why, strict=True):
            if digest := digest_in(why or ""):
                found.append(("too large", digest))
            else:
                found.append((why or "row", value if why else json.loads(value)))
    return found


def digest_in(detail: str) -> str:
    return detail.partition("SHA-256 of all: ")[2]


def exactly(whole: bytes, form: CsvForm, most: int = MOST) -> Told:
    found: Told = []
    for piece in records(lambda: iter([whole]), form, most):
        if isinstance(piece, LargeLine):
            found.append(("too large", digest_in(piece.detail("", most))))
        elif isinstance(piece, BadRecord):
            found.append((piece.why, piece.text))
        else:
            for line in piece.to_pylist():
                text, why = _RecordReader("part", form, MOST)._by_itself(line)
                if len(line) > most:
                    found.append(("too large", sha256(line).hexdigest()))
                else:
                    found.append((why or "row", text if why else json.loads(text)))
    return found


def test_the_fields_of_a_record_are_told_with_their_quotes() -> None:
    assert fields_of('a,"b",,""', CsvForm()) == [
        ("a", False), ("b", True), ("", False), ("", True),
    ]  # fmt: skip
