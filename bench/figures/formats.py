"""Rows of files of each format, read and judged; the rival is another library's reader alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import fastavro
from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.measured import spread
from bench.sizes import Sizes
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import FilesSource, Pipeline
from tidemark.sources.formats.formats import slices_of
from tidemark.sources.kinds import row_origin
from tidemark.storage.files import stat_files
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

BATCH_TIME_MS = 1_780_000_000_000
COLUMNS = {
    "at": "timestamp", "id": "string not null", "page": "string", "n": "int", "share": "double",
}  # fmt: skip
_TYPES = {"at": "VARCHAR", "id": "VARCHAR", "page": "VARCHAR", "n": "INTEGER", "share": "DOUBLE"}
_AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in zip(COLUMNS, ("string", "string", "string", "int", "double"), strict=True)
    ],
}
FORMATS = ("json_lines", "json_document", "csv", "parquet", "avro")
# Of JSON lines' rate, both read and judged in one thread.
_GOALS = {"csv": 0.8, "parquet": 2.0}
_MOST_BYTES = 16 * 1024 * 1024


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Rows a CPU second, in one thread of this process; ours and the rival take turns."""
    rows = 5 * sizes.judged_lines
    files = _written(folder / "formats", rows)
    found = {form: _measured(form, files[form], rows, sizes) for form in FORMATS}
    return [_figure(found, rows)]


def rows_of(number: int) -> Iterator[dict[str, Any]]:
    """Rows of COLUMNS, the same each time."""
    for n in range(number):
        yield {
            "at": f"2026-03-{1 + n % 28:02}T{n % 24:02}:{n % 60:02}:00.{n % 1000:03}Z",
            "id": f"id-{n:08}", "page": f"/shop/{n % 313}", "n": n % 1000, "share": n * 0.37,
        }  # fmt: skip


def _written(folder: Path, rows: int) -> dict[str, Path]:
    """One file of each format, all with the same rows."""
    folder.mkdir(parents=True, exist_ok=True)
    content = list(rows_of(rows))
    files = {form: folder / f"rows.{form}" for form in FORMATS}
    lines = [json.dumps(one, separators=(",", ":")) for one in content]
    files["json_lines"].write_text("\n".join(lines) + "\n")
    files["json_document"].write_text("[\n" + ",\n".join(lines) + "\n]\n")
    with duckdb.connect() as connection:
        types = ", ".join(f'"{name}" {kind}' for name, kind in _TYPES.items())
        connection.execute(f"CREATE TABLE rows ({types})")
        columns = json.dumps(_TYPES)
        connection.execute(
            "INSERT INTO rows SELECT * FROM read_json(?, format = 'newline_delimited', "
            f"columns = {columns})",
            [str(files["json_lines"])],
        )
        for form in ("csv", "parquet"):
            connection.execute(f"COPY rows TO '{files[form]}' (FORMAT {form})")
    with files["avro"].open("wb") as out:
        fastavro.writer(out, _AVRO, content, codec="snappy")
    return files


def _measured(form: str, file: Path, rows: int, sizes: Sizes) -> dict[str, list[float]]:
    pipeline = _pipeline(form)
    rates: dict[str, list[float]] = {"read and judged": [], "rival, read": []}
    for _ in range(sizes.warm_ups + sizes.repetitions):
        steps: Sequence[Callable[[], int]] = (
            lambda: _judged(pipeline, file),
            lambda: _RIVALS[form](file),
        )
        for what, step in zip(rates, steps, strict=True):
            begin = time.process_time()
            if (number := step()) != rows:
                raise AssertionError(f"{what}: {number:,} of {rows:,} rows of {form}")
            rates[what].append(rows / (time.process_time() - begin))
    return {what: some[sizes.warm_ups :] for what, some in rates.items()}


def _pipeline(form: str) -> Pipeline:
    source = {
        "files": "landing/*", "format": form, "columns": COLUMNS, "event_time": {"column": "at"},
    }  # fmt: skip
    table = {"window": {"length": "10 minutes"}, "measures": {"rows_seen": "count(*)"}}
    content = {"source": source, "watermark": {"delay": "10 minutes"}, "tables": {"all": table}}
    return pipeline_from_mapping("judged", content)


def _judged(pipeline: Pipeline, file: Path) -> int:
    assert isinstance(pipeline.source, FilesSource)
    uri = file.as_uri()
    facts = stat_files([uri], {})[uri]
    assert facts is not None
    by = BatchRules(
        rules_of(pipeline), row_origin(pipeline), 0, BATCH_TIME_MS, _MOST_BYTES,
        keeps_lines=False, by_line=False,
    )  # fmt: skip
    slices = slices_of(pipeline.source, {uri: facts}, {})
    found = judge_slices(by, slices, sys.maxsize)
    assert found is not None
    return sum(map(len, found.accepted))


def _by_duckdb(reader: str) -> Callable[[Path], int]:
    def read(file: Path) -> int:
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            found = connection.sql(f"SELECT * FROM {reader}", params=[str(file)])
            return int(found.to_arrow_table().num_rows)

    return read


def _by_fastavro(file: Path) -> int:
    with file.open("rb") as opened:
        return sum(1 for _ in fastavro.reader(opened))


_JSON = f"columns = {json.dumps(_TYPES)}"
_RIVALS: dict[str, Callable[[Path], int]] = {
    "json_lines": _by_duckdb(f"read_json(?, format = 'newline_delimited', {_JSON})"),
    "json_document": _by_duckdb(f"read_json(?, format = 'array', {_JSON})"),
    "csv": _by_duckdb(f"read_csv(?, header = true, {_JSON})"),
    "parquet": _by_duckdb("read_parquet(?)"),
    "avro": _by_fastavro,
}


def _figure(found: Mapping[str, Mapping[str, Sequence[float]]], rows: int) -> Figure:
    best = {form: max(rates["read and judged"]) for form, rates in found.items()}
    table = [
        [
            form,
            spread(rates["read and judged"], 0),
            spread(rates["rival, read"], 0),
            f"{best[form] / best['json_lines']:.2f}",
        ]
        for form, rates in found.items()
    ]

    def draw(axes: Axes) -> None:
        bars(axes, found, "rows a CPU second", 0)

    columns = ("format", "read and judged, rows/s", "rival, rows/s", "of JSON lines' rate")
    told = [
        f"{rows:,} rows of five columns in one file; one thread, CPU seconds. The rival only "
        "reads, into typed columns: DuckDB, of Avro fastavro. It judges nothing, and keeps no line."
    ]
    goals = [
        Goal(f"{form} of JSON lines' rate", best[form] / best["json_lines"], least, at_least=True)
        for form, least in _GOALS.items()
    ]
    title = "Files of each format, read and judged"
    numbers: dict[str, Any] = {form: dict(rates) for form, rates in found.items()}
    return Figure("formats", title, columns, table, told, numbers, draw, goals)
