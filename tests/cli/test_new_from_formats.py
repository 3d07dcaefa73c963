"""`tidemark new` and `tidemark try` take files of each format for what they are."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.cli.test_new import ROWS, land, new, project, types, written
from tests.kit.formats import avro_bytes, record
from tidemark.pipeline.model import CsvFormatOptions, FilesSource
from tidemark.sources.files.first_lines import copy_first_lines
from tidemark.sources.files.lines import first_lines

__all__ = ["project"]

MOST_BYTES = 10_000


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=";")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, bool) else v for k, v in row.items()})
    return out.getvalue().encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return bytes(out.getvalue())


def as_avro(rows: list[dict[str, Any]]) -> bytes:
    kinds = ["null", "boolean", "long", "double", "string"]
    return avro_bytes(record(**dict.fromkeys(rows[0], kinds)), rows)


WRITTEN = {
    "array.json": lambda rows: json.dumps(rows).encode(),
    "pretty.json": lambda rows: json.dumps(rows, indent=2).encode(),
    "array_by_lines.json": lambda rows: (
        b"[\n" + b",\n".join(json.dumps(row).encode() for row in rows) + b"\n]\n"
    ),
    "objects.json": lambda rows: "\n".join(json.dumps(row, indent=1) for row in rows).encode(),
    "rows.csv": as_csv,
    "rows.parquet": as_parquet,
    "rows.avro": as_avro,
}


def landed(project: Path, name: str) -> Path:
    file = land(project, [], f"landing/{name.replace('.', '_')}/{name}")
    file.write_bytes(WRITTEN[name]([dict(row) for row in ROWS]))
    return file


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_rows_in_another_format_are_the_same_pipeline(project: Path, name: str) -> None:
    assert new(land(project, ROWS), name="lines").exit_code == 0
    ended = new(landed(project, name), name="other")
    assert ended.exit_code == 0, ended.stderr
    assert "A run accepts all of them." in ended.output
    lines, other = written(project, "lines"), written(project, "other")
    assert isinstance(other.source, FilesSource)
    assert types(other) == types(lines)
    assert other.tables == lines.tables
    if name.endswith(".json"):
        assert other.source.format == "json_document"
    elif name.endswith(".csv"):
        assert isinstance(other.source.format, CsvFormatOptions)
        assert other.source.format.csv.delimiter == ";"
    else:
        assert other.source.format is None


@pytest.mark.parametrize("said", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_the_first_records_are_copied_as_a_run_reads_them(
    project: Path, name: str, said: bool
) -> None:
    file = landed(project, name)
    assert new(file, name="other").exit_code == 0
    source = written(project, "other").source
    assert isinstance(source, FilesSource)
    if said and source.format is None:
        source = source.model_copy(update={"format": name.rpartition(".")[2]})

    def records(of: FilesSource, place: str, most: int) -> list[str]:
        return [
            line.decode()
            for piece in first_lines(of, place, {}, most, MOST_BYTES)
            for line in piece["_value"].to_pylist()
        ]

    place = file.as_uri()
    taken = copy_first_lines(source, [place], {}, 3, MOST_BYTES, project / "copies")
    assert (taken.rows, taken.notes) == (3, ())
    (copy,) = (path for path in (project / "copies").rglob("*") if path.is_file())
    entries = yaml.safe_load((project / "include/pipelines/other.yaml").read_text())["source"]
    tried = FilesSource.model_validate({**entries, **taken.source})
    assert records(tried, copy.as_uri(), 9) == records(source, place, 3)


def test_an_array_that_is_cut_gives_its_whole_elements(project: Path) -> None:
    file = landed(project, "pretty.json")
    file.write_bytes(file.read_bytes()[:-10])
    ended = new(file, name="other")
    assert ended.exit_code == 0, ended.stderr
    assert "A run accepts 3 of them and rejects 1 (1 malformed)." in ended.output
