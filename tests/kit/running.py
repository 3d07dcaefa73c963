"""A root with one pipeline; its runs, in the warm session or as a job; and what came of them.

A table without its stream is in `windows.py`: tests append to `changes`, and publish.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pydantic import SecretStr
from ruamel.yaml import YAML

from tests.kit.patience import HUNG_SECONDS
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import load_pipeline, pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.connections import Connection
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.generation import generation_of
from tidemark.storage.result_file import read_result
from tidemark.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kit.windows import Windows
    from tidemark.streaming.progress import Progress

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "jobs" / "stream.py"
# What the scheduler's clock says, where a test does not care.
SCHEDULED = datetime(2026, 7, 1, tzinfo=UTC)


def session_for_tests() -> SparkSession:
    """The platform's session on two cores, whatever pipeline it will run."""
    from tidemark.streaming.session import start_session

    # The first compiler alone, as in a job, costs least here too: each test's pipeline is new code,
    # so that what the second compiler takes is not won back even by hundreds of runs.
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master local[2] --driver-memory 2g --driver-java-options "
        '"-Xmn1g -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m" pyspark-shell'
    )
    # Of the code that Spark writes for its plans, what a hundred plans need is kept unless told.
    kept = {"spark.sql.codegen.cache.maxEntries": "2000"}
    settings = Settings(root="/unused", pipelines="/unused", spark=kept)
    return start_session(pipeline_from_mapping("tests", clicks()), settings)


def clicks(**changes: Any) -> dict[str, Any]:
    """A small pipeline as its file would hold it; `changes` replace top-level keys."""
    content: dict[str, Any] = {
        "source": {
            "files": "landing/*.json*",
            "columns": {"at": "timestamp", "key": "string", "amount": "long"},
            "event_time": {"column": "at"},
        },
        "watermark": {"delay": "10 minutes"},
        "tables": {
            "per_10m": {
                "window": {"length": "10 minutes"},
                "group_by": ["key"],
                "measures": {"events": "count(*)", "amount": "sum(amount)"},
            }
        },
    }
    return content | changes


@dataclass
class Place:
    """A root of its own, with one pipeline in it."""

    root: Path
    content: Mapping[str, Any] = field(default_factory=clicks)
    name: str = "clicks"
    spark: Mapping[str, str] = field(default_factory=dict)
    connections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    max_line_bytes: int = 16 * 1024**2
    acts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    erasure_key: str | None = None

    @property
    def pipeline(self) -> Pipeline:
        return pipeline_from_mapping(self.name, self.content)

    @property
    def settings(self) -> Settings:
        connections = {
            name: Connection.model_validate(one) for name, one in self.connections.items()
        }
        return Settings(
            root=str(self.root),
            pipelines=str(self.root / "pipelines"),
            spark=dict(self.spark),
            connections=connections,
            sources=self.sources,
            max_line_bytes=self.max_line_bytes,
            erasure_key=None if self.erasure_key is None else SecretStr(self.erasure_key),
        )

    @property
    def places(self) -> Places:
        return Places(str(self.root), self.name)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.places, {})

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which commands and jobs find this root and its pipelines."""
        own = {"TIDEMARK_ROOT": str(self.root), "TIDEMARK_PIPELINES": self.settings.pipelines}
        own |= {"TIDEMARK_ACTS": json.dumps(dict(self.acts))} if self.acts else {}
        own |= {} if self.erasure_key is None else {"TIDEMARK_ERASURE_KEY": self.erasure_key}
        connections = json.dumps(dict(self.connections))
        return {**own, "TIDEMARK_CONNECTIONS": connections} if self.connections else own

    def run(self, run_id: str, scheduled: datetime = SCHEDULED, trigger: str = "manual") -> Run:
        return Run(self.pipeline, self.settings, run_id, epoch_ms(scheduled), trigger)

    def windows(self) -> Windows:
        """The tables of `per_10m`, made as a run makes them, without a run."""
        from tests.kit.windows import Windows

        return Windows(Path(self.places.gold("per_10m")).parent)

    def keep(self) -> None:
        """Keep a copy of all that is here now, for `again`."""
        shutil.copytree(self.root, self._kept)

    def again(self, **changes: Any) -> Place:
        """All as it was kept, where it was: runs go on. `changes` are of the pipeline's file."""
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root)
        return replace(self, content={**self.content, **changes})

    @property
    def _kept(self) -> Path:
        return self.root.with_name(f"{self.root.name}-kept")

    def copied(self, root: Path) -> Place:
        """A copy elsewhere, where no run can go on: checkpoints hold absolute paths."""
        shutil.copytree(self.root, root)
        return replace(self, root=root)

    def write_file(self) -> Path:
        """Write the pipeline's file where the settings look for it."""
        file = self.root / "pipelines" / f"{self.name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as out:
            YAML().dump(dict(self.content), out)
        return file

    def land(
        self, name: str, rows: Iterable[Mapping[str, Any] | str], folder: str = "landing"
    ) -> Path:
        """Write a file of JSON lines; a row given as text is written as it is."""
        path = self.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def table(self, uri: str) -> pa.Table:
        return pa.table(DeltaTable(uri).to_pyarrow_dataset().to_table())

    def bronze(self) -> pa.Table:
        return self.table(self.places.bronze)

    def rejects(self) -> pa.Table:
        return self.table(self.places.rejects)

    def gold(self, table: str = "per_10m") -> pa.Table:
        return self.table(self.places.gold(table))

    def changes(self, table: str = "per_10m") -> pa.Table:
        generation = generation_of(DeltaTable(self.places.gold(table)))
        return self.table(self.places.changes(table, generation))


class SamplePlace(Place):
    """A root in which a sample's own pipeline file runs."""

    def __init__(self, root: Path, file: Path) -> None:
        super().__init__(root, {}, file.stem)
        self.file = file

    @property
    def pipeline(self) -> Pipeline:
        return load_pipeline(self.file)


def quiet() -> Progress:
    """A job's progress, kept out of the test's output."""
    from tidemark.streaming.progress import Progress

    return Progress("clicks", out=io.StringIO())


def run_warm(
    spark: SparkSession,
    place: Place,
    run_id: str = "run",
    hold: bool = False,
    scheduled: datetime = SCHEDULED,
    progress: Progress | None = None,
) -> RunResult:
    """One run in the shared session."""
    from tidemark.streaming.jobs.stream import run_once

    return run_once(
        place.run(run_id, scheduled),
        progress or quiet(),
        datetime.now(UTC),
        hold,
        session=lambda *_: spark,
        on_lapse=lambda lost: None,
    )


def accept_changed_file(place: Place) -> list[str]:
    """Accept what the next run would wait for; what that was."""
    from tidemark.runs.contract.accept import accept_file

    now = datetime.now(UTC)
    accepted = accept_file(place.pipeline, place.settings, place.warehouse, "known", "Ada", now)
    return [found.what for found in accepted]


def succeed(
    spark: SparkSession,
    place: Place,
    run_id: str = "run",
    hold: bool = False,
    scheduled: datetime = SCHEDULED,
) -> RunResult:
    """One run that must succeed."""
    result = run_warm(spark, place, run_id, hold, scheduled)
    assert result.error is None, result.error
    return result


@dataclass(frozen=True)
class JobEnd:
    """How a job process ended; `result` where it wrote one."""

    exit_code: int
    output: str
    result: RunResult | None


def run_job(
    place: Place,
    run_id: str = "run",
    script: Path = JOB,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> JobEnd:
    """One run as a process of its own, by plain spark-submit, as the README shows it."""
    process = start_job(place, run_id, script, arguments, environment=environment or {})
    output, _ = process.communicate(timeout=HUNG_SECONDS)
    target = place.root / f"{run_id}.result.json"
    result = read_result(RunResult, str(target), {}) if target.exists() else None
    return JobEnd(process.returncode, output, result)


def start_job(
    place: Place,
    run_id: str = "run",
    script: Path = JOB,
    arguments: Sequence[str] = (),
    master: str = "local[1]",
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a job in a process group of its own, so that a test can end all of it."""
    file = place.write_file()
    command = [
        "spark-submit",
        "--master",
        master,
        str(script),
        "--pipeline",
        str(file),
        "--run-id",
        run_id,
        "--result",
        str(place.root / f"{run_id}.result.json"),
        *arguments,
    ]
    variables = os.environ | place.variables | {"PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=variables | dict(environment or {}),
        start_new_session=True,
        cwd=REPOSITORY,
    )


def sorted_rows(table: pa.Table, without: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """The rows as tuples in a fixed order, without the named columns."""
    kept = table.drop_columns([name for name in without if name in table.column_names])
    return sorted((tuple(row.values()) for row in kept.to_pylist()), key=repr)


def append_a_row_again(uri: str) -> list[tuple[Any, ...]]:
    """By a writer that takes no lease, one of a table's rows; all that it has then, sorted."""
    rows = DeltaTable(uri).to_pyarrow_table()
    write_deltalake(uri, rows.slice(0, 1), mode="append")
    return sorted_rows(pa.concat_tables([rows, rows.slice(0, 1)]))


def query(sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    """Rows of a DuckDB query over Arrow tables, in UTC."""
    with duckdb_in_utc() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).fetchall()
