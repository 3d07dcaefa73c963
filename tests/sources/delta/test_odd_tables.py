"""Tables of other writers: what lies in their files and logs that ours never write."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.judge.judging import judge_lines, pipeline_of
from tidemark.errors import SourceRefused
from tidemark.pipeline.granted import why_not_granted
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.delta.files import files_of, slice_of
from tidemark.sources.delta.following import source_change
from tidemark.sources.delta.log import AddedFile
from tidemark.sources.delta.offsets import Offset
from tidemark.sources.delta.planning import first_offset, lost_parts
from tidemark.sources.delta.table import SourceTable, open_table
from tidemark.sources.planned_source import Position

TIME = pa.timestamp("us", "UTC")
# The second row of a file is deleted.
VECTOR = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91"


def lines(uri: str, offset: Offset | None = None) -> list[str]:
    table = open_table(uri, {})
    return [
        line.decode(errors="replace")
        for part, file in files_of(table, offset or first_offset(table, "earliest"))
        for piece in slice_of(table, part, file).lines(10**9)
        for line in piece["_value"].to_pylist()
    ]


def table_with(folder: Path, rows: pa.Table, name: str = "x.parquet", **options: Any) -> str:
    """A table whose version 1 adds a file that pyarrow writes; its path as the log has it."""
    write_deltalake(folder, rows.schema.empty_table())
    pq.write_table(rows, folder / "x.parquet", **options)
    size = (folder / "x.parquet").stat().st_size
    add = {"path": name, "partitionValues": {}, "size": size, "dataChange": True}
    log = folder / "_delta_log" / f"{1:020}.json"
    log.write_text(json.dumps({"add": {**add, "modificationTime": 0}}))
    return str(folder)


def hide_second_row(uri: str, path: str) -> None:
    """As Spark deletes a row of a file of three by a deletion vector, one that stands in the log
    (PROTOCOL.md, "Deletion Vectors")."""
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    vector = {
        "storageType": "i", "pathOrInlineDv": VECTOR, "sizeInBytes": 34, "cardinality": 1,
    }  # fmt: skip
    log, number = Path(uri) / "_delta_log", DeltaTable(uri).version() + 1
    entries = [
        json.loads(line)
        for commit in sorted(log.glob("*.json"))
        for line in commit.read_text().splitlines()
    ]
    add = next(one["add"] for one in reversed(entries) if one.get("add", {}).get("path") == path)
    actions = (
        ("protocol", {**protocol, "readerFeatures": features, "writerFeatures": features}),
        ("remove", {"path": path, "dataChange": True, "deletionTimestamp": 1}),
        ("add", {**add, "deletionVector": vector, "stats": json.dumps({"numRecords": 3})}),
    )
    lines = [json.dumps({name: action}) for name, action in actions]
    (log / f"{number:020}.json").write_text("\n".join(lines))


def test_instants_in_int96_are_read_whatever_their_year(tmp_path: Path) -> None:
    far, old = datetime(9999, 12, 31, tzinfo=UTC), datetime(1500, 1, 1, tzinfo=UTC)
    nested = pa.struct([("n", pa.int32()), ("t", TIME)])
    rows = pa.table(
        {
            "t": pa.array([far, old], TIME),
            "s": pa.array([{"n": 1, "t": far}, None], nested),
            "l": pa.array([[far, None], []], pa.list_(TIME)),
            "m": pa.array([[("k", far)], None], pa.map_(pa.string(), TIME)),
        }
    )
    text = "9999-12-31T00:00:00Z"
    assert lines(table_with(tmp_path, rows, use_deprecated_int96_timestamps=True)) == [
        f'{{"t": "{text}", "s": {{"n": 1, "t": "{text}"}}, "l": ["{text}", null], '
        f'"m": {{"k": "{text}"}}}}',
        '{"t": "1500-01-01T00:00:00Z", "s": null, "l": [], "m": null}',
    ]


def test_a_value_that_has_no_json_spoils_its_row_alone(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"b"]).buffers())
    rows = pa.table(
        {
            "at": pa.array([253402300800000000, 0], pa.int64()).cast(TIME),
            "day": pa.array([2_932_897, 0], pa.int32()).cast(pa.date32()),
            "text": text,
        }
    )
    bad, good = lines(table_with(tmp_path, rows))
    assert good == '{"at": "1970-01-01T00:00:00Z", "day": "1970-01-01", "text": "b"}'
    with pytest.raises(json.JSONDecodeError):
        json.loads(bad)


def test_bytes_and_keys_of_maps_are_json_however_arrow_keeps_them(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "view": pa.array([b"q"], pa.binary_view()),
            "by_bytes": pa.array([[(b"k", 1)]], pa.map_(pa.binary(), pa.int64())),
            "by_day": pa.array([[(date(2026, 7, 1), 1)]], pa.map_(pa.date32(), pa.int64())),
            "by_flag": pa.array([[(True, 1)]], pa.map_(pa.bool_(), pa.int64())),
        }
    )
    write_deltalake(tmp_path, rows)
    assert lines(str(tmp_path)) == [
        '{"view": "cQ==", "by_bytes": {"aw==": 1}, "by_day": {"2026-07-01": 1}, '
        '"by_flag": {"true": 1}}'
    ]


def test_text_in_statistics_may_hold_what_unicode_calls_an_end_of_line(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"text": ["a\u2028b", "c\x85d"]}))
    assert lines(str(tmp_path)) == ['{"text": "a\u2028b"}', '{"text": "c\x85d"}']


def test_files_that_a_restore_brings_back_are_not_read_a_second_time(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [1]}))
    write_deltalake(tmp_path, pa.table({"n": [2]}), mode="append")
    DeltaTable(tmp_path).delete("n = 2")
    DeltaTable(tmp_path).restore(1)
    table = open_table(str(tmp_path), {})
    restored = table.version(3)
    assert restored is not None
    assert (len(restored.added), restored.removed) == (1, 0)
    assert lines(str(tmp_path)) == ['{"n": 1}', '{"n": 2}']
    begun = Position(0, Offset(table.id, 0, 2))
    found = lost_parts(begun, table, [], skips=False)
    assert [(str(one.part), one.reason) for one in found] == [
        ("2", "changed rows"),
        ("3", "changed rows"),
    ]


def test_a_snapshot_finds_files_whatever_their_partition_is_called(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2], "day": ["a b%/ü", "c"]})
    write_deltalake(tmp_path, rows, partition_by=["day"])
    table = open_table(str(tmp_path), {})
    assert lines(str(tmp_path), Offset(table.id, 1, 1, snapshot=0)) == [
        '{"n": 1, "day": "a b%/ü"}',
        '{"n": 2, "day": "c"}',
    ]


def test_a_file_that_the_log_names_by_its_uri_is_read_from_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "a b%20ü"
    for form in ("file:", "file://"):
        folder = tmp_path / form.strip(":/").ljust(len(form), "_")
        folder.mkdir()
        uri = table_with(folder, pa.table({"n": [1]}), f"{form}{quote(str(elsewhere))}/x.parquet")
        elsewhere.mkdir(exist_ok=True)
        (folder / "x.parquet").replace(elsewhere / "x.parquet")
        begun = Position(0, Offset(open_table(uri, {}).id, 0, 0))
        assert lost_parts(begun, open_table(uri, {}), [], skips=False) == ()
        assert lines(uri) == ['{"n": 1}']


@pytest.mark.parametrize("form", ["file:", "file://"])
def test_rows_that_are_deleted_of_a_file_that_the_log_names_by_its_uri_are_none(
    tmp_path: Path, form: str
) -> None:
    """As of a shallow clone; delta-rs writes URIs in one way."""
    elsewhere = tmp_path / "a b%20ü"
    elsewhere.mkdir()
    name = f"{form}{quote(str(elsewhere))}/x.parquet"
    uri = table_with(tmp_path / "t", pa.table({"n": [1, 2, 3]}), name)
    (tmp_path / "t" / "x.parquet").replace(elsewhere / "x.parquet")
    hide_second_row(uri, name)
    table = open_table(uri, {})
    assert [one.deleted for one in table.held(2).values()] == [(1,)]
    assert source_change(table, Offset(table.id, 2, 3), ["n"]).gone == ("2",)


def test_of_a_snapshot_rows_that_are_deleted_are_not_read(tmp_path: Path) -> None:
    uri = table_with(tmp_path, pa.table({"n": [1, 2, 3]}))
    hide_second_row(uri, "x.parquet")
    table = open_table(uri, {})
    first = first_offset(table, "earliest", follows=True)
    assert (first.snapshot, first.begin) == (2, 3)
    assert lines(uri, first) == ['{"n": 1}', '{"n": 3}']
    ((part, file),) = files_of(table, first)
    (piece,) = slice_of(table, part, file).typed(10**9)
    assert piece.origin["_row"].to_pylist() == [0, 2]


def test_a_deletion_vector_that_is_of_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should delta-rs name the files otherwise some day."""
    uri = table_with(tmp_path / "t", pa.table({"n": [1, 2, 3]}))
    hide_second_row(uri, "x.parquet")
    vectors = pa.table({"filepath": ["file:///y.parquet"], "selection_vector": [[True, False]]})
    monkeypatch.setattr(DeltaTable, "deletion_vectors", lambda _: vectors.to_reader())
    with pytest.raises(SourceRefused, match=r"of no file .*: file:///y.parquet"):
        open_table(uri, {}).held(2)


def test_the_uri_of_a_file_keeps_what_its_name_has_in_percents(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [1]}))
    now = DeltaTable(tmp_path)
    file = AddedFile("day=a%20b/x#1.parquet", {}, 1, 1, has_deletions=False)
    assert SourceTable("/t", {}, now).uri_of(file) == "/t/day=a%20b/x#1.parquet"
    assert (
        SourceTable("s3://bucket/t", {}, now).uri_of(file)
        == "s3://bucket/t/day%3Da%2520b/x%231.parquet"
    )


@pytest.mark.slow
def test_of_a_large_row_group_little_is_in_memory_at_a_time(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array(range(4_000_000), pa.int64())})
    whole = {"row_group_size": len(rows), "compression": "none", "use_dictionary": False}
    table = open_table(table_with(tmp_path, rows, **whole), {})
    size = rows.nbytes
    del rows
    ((part, file),) = files_of(table, first_offset(table, "earliest"))
    pieces = slice_of(table, part, file).lines(10**9)
    before = pa.total_allocated_bytes()
    assert next(pieces).num_rows > 0
    assert pa.total_allocated_bytes() - before < size / 4


def changed(folder: Path, schema: pa.Schema, fields: list[dict[str, Any]], **protocol: Any) -> str:
    """A table that a newer writer has changed in version 1: its protocol, and its columns."""
    write_deltalake(folder, schema.empty_table())
    begin = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (metadata,) = [json.loads(line) for line in begin if '"metaData"' in line]
    if fields:
        metadata["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    entries = [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **protocol}}, metadata]
    log = folder / "_delta_log" / f"{1:020}.json"
    log.write_text("\n".join(map(json.dumps, entries)))
    return str(folder)


def featured(folder: Path, *features: str, **protocol: Any) -> str:
    names = list(features)
    named = {"readerFeatures": names, "writerFeatures": names} | protocol
    return changed(folder, pa.schema({"n": pa.int32()}), [], **named)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (["shinyNew"], "has the feature shinyNew that is not known here"),
        (["deletionVectors", "geo-preview"], "has the feature geo-preview that is not known here"),
        (["catalogManaged"], "has the feature catalog-managed that is not known here"),
        (["variantType"], "has the features variantType, which are not read"),
    ],
)
def test_a_feature_that_is_not_known_is_refused_by_its_name(
    tmp_path: Path, features: list[str], said: str
) -> None:
    with pytest.raises(SourceRefused, match=said) as caught:
        open_table(featured(tmp_path, *features), {})
    assert not caught.value.retry_can_help


@pytest.mark.parametrize("version", [4, 99])
def test_a_protocol_that_is_not_known_is_refused(tmp_path: Path, version: int) -> None:
    uri = featured(tmp_path)
    log = tmp_path / "_delta_log" / f"{1:020}.json"
    protocol = {"minReaderVersion": version, "minWriterVersion": version}
    log.write_text(json.dumps({"protocol": protocol}))
    said = f"a version of Delta's protocol that is not known here.*version {version}"
    with pytest.raises(SourceRefused, match=said) as caught:
        open_table(uri, {})
    assert not caught.value.retry_can_help


WIDER = [
    ("integer", "long", pa.array([7], pa.int32()), pa.array([2**40]), ["7", f"{2**40}"]),
    ("integer", "double", pa.array([7], pa.int32()), pa.array([7.5]), ["7", "7.5"]),
    (
        *("integer", "decimal(12,2)", pa.array([7], pa.int32())),
        *(pa.array([7.5]).cast(pa.decimal128(12, 2)), ["7", "7.50"]),
    ),
    (
        *("decimal(3,1)", "decimal(12,2)", pa.array([7.5]).cast(pa.decimal128(3, 1))),
        *(pa.array([7.25]).cast(pa.decimal128(12, 2)), ["7.5", "7.25"]),
    ),
    (
        *("date", "timestamp_ntz", pa.array([date(2026, 7, 1)])),
        *(pa.array([datetime(2026, 7, 1, 5)], pa.timestamp("us")),),
        ['"2026-07-01"', '"2026-07-01T05:00:00"'],
    ),
]


@pytest.mark.parametrize(("old", "new", "before", "after", "values"), WIDER)
def test_of_a_table_whose_types_were_widened_each_value_is_read_as_its_file_has_it(
    tmp_path: Path,
    old: str,
    new: str,
    before: pa.Array[Any],
    after: pa.Array[Any],
    values: list[str],
) -> None:
    field = {"name": "n", "type": new, "nullable": True}
    field |= {"metadata": {"delta.typeChanges": [{"fromType": old, "toType": new}]}}
    names = ["typeWidening", "timestampNtz"]
    uri = changed(
        tmp_path,
        pa.schema({"n": before.type}),
        [field],
        readerFeatures=names,
        writerFeatures=names,
    )
    adds = []
    for name, column in (("1.parquet", before), ("2.parquet", after)):
        pq.write_table(pa.table({"n": column}), tmp_path / name)
        size = (tmp_path / name).stat().st_size
        adds.append({"path": name, "partitionValues": {}, "size": size, "modificationTime": 0})
    entries = [json.dumps({"add": {**one, "dataChange": True}}) for one in adds]
    (tmp_path / "_delta_log" / f"{2:020}.json").write_text("\n".join(entries))
    assert lines(uri) == [f'{{"n": {value}}}' for value in values]
    assert lines(uri, Offset(open_table(uri, {}).id, 3, 3, 2)) == lines(uri)


def test_a_value_that_only_the_wider_type_holds_is_a_reject_of_a_pipeline_with_the_narrow_one() -> (
    None
):
    given = [f'{{"at": "2026-11-01T00:00:00Z", "n": {n}}}' for n in (7, 2**40)]
    fits, too_large = judge_lines(pipeline_of({"n": "int"}), given)
    assert fits["n"] == 7
    assert (too_large["reason"], "n" in too_large["detail"]) == ("wrong type", True)
    assert [row["n"] for row in judge_lines(pipeline_of({"n": "double"}), given)] == [7, 2**40]
    day = '{"at": "2026-11-01T00:00:00Z", "t": "2026-07-01"}'
    (told,) = judge_lines(pipeline_of({"t": "timestamp"}, zone="UTC"), [day])
    assert told["reason"] == "wrong type"


@pytest.mark.parametrize(
    "named",
    ["file:///etc/private/x.parquet", "http://169.254.169.254/x", "../../private/x.parquet"],
)
def test_a_file_that_the_log_names_elsewhere_is_read_where_the_settings_grant_it(
    tmp_path: Path, named: str
) -> None:
    """Who writes the table's log names it, and a run has the keys."""
    uri = table_with(tmp_path / "landing" / "t", pa.table({"n": [1]}), named)
    settings = Settings(root=str(tmp_path))
    table = open_table(uri, {}, partial(why_not_granted, settings=settings))
    with pytest.raises(SourceRefused, match=r"names the file .* lies outside of the root"):
        lost_parts(Position(0, Offset(table.id, 0, 0)), table, [], skips=False)
