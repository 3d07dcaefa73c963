"""One run of a pipeline: tables, ingest, aggregate, and the pins that publish starts from."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.instants import instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings import Settings
from tidemark.streaming.aggregate import Aggregate, aggregate, start_aggregate, with_event_time
from tidemark.streaming.ingest import Ingest, start_ingest
from tidemark.streaming.judge import judge
from tidemark.streaming.progress import Progress
from tidemark.streaming.queries import await_all
from tidemark.streaming.schemas import (
    bronze_schema,
    changes_schema,
    gold_schema,
    rejects_schema,
)
from tidemark.streaming.source import check_source, source_of
from tidemark.tables.commits import rows_appended
from tidemark.tables.create import TableSpec, ensure_table, existing_table
from tidemark.tables.plan import GENERATION, GoldState
from tidemark.tables.publish import gold_state
from tidemark.tables.result import Rows, TableResult

_FIRST_GENERATION = 1


@dataclass
class Outcome:
    """What a run has done so far: filled as it goes, so that a failed run tells it too."""

    rows: Rows = field(default_factory=Rows)
    versions: dict[str, int] = field(default_factory=dict)
    tables: dict[str, TableResult] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One scheduled execution of a pipeline."""

    pipeline: Pipeline
    settings: Settings
    run_id: str

    @property
    def places(self) -> Places:
        return Places(self.settings.root, self.pipeline.name)

    def checkpoint(self, uri: str) -> Checkpoint:
        return Checkpoint(uri, self.settings.storage_options)


def run_stream(spark: SparkSession, run: Run, progress: Progress, outcome: Outcome) -> None:
    """Ingest what is new in the source and aggregate it into `changes`; gold stays as it is.

    When it returns, `outcome.tables` holds the pins for publish. Killed anywhere, the next run
    finishes what this one began.
    """
    check_source(source_of(run.pipeline, run.places))
    gold = _ensure_tables(spark, run)
    with progress.stage("ingest"), progress.tasks_of(spark):
        _ingest(spark, run, progress, outcome)
    with progress.stage("aggregate"), progress.tasks_of(spark):
        before = {name: _versions_before(run, name, gold[name]) for name in gold}
        _aggregate(spark, run, gold, progress)
    for name, (changes, watermark) in before.items():
        outcome.tables[name] = _pins(run, name, gold[name], changes, watermark, outcome)
        after = instant_text(outcome.tables[name].watermark_after_ms)
        progress.say(
            f"{name}: {outcome.tables[name].windows_changed:,} windows changed, watermark {after}"
        )


def _ingest(spark: SparkSession, run: Run, progress: Progress, outcome: Outcome) -> None:
    ingest = Ingest(
        pipeline=run.pipeline,
        source=source_of(run.pipeline, run.places),
        bronze=run.places.bronze,
        rejects=run.places.rejects,
        checkpoint=run.checkpoint(run.places.ingest_checkpoint),
    )
    try:
        await_all([start_ingest(spark, ingest, progress)])
    finally:
        outcome.rows = ingest.rows
    for name, place in (("bronze", ingest.bronze), ("rejects", ingest.rejects)):
        outcome.versions[name] = _version(run, place)


def _aggregate(
    spark: SparkSession, run: Run, gold: dict[str, GoldState], progress: Progress
) -> None:
    plans = [_query(run, name, state.generation) for name, state in gold.items()]
    await_all([start_aggregate(spark, plan, progress) for plan in plans])


def _query(run: Run, table: str, generation: int) -> Aggregate:
    return Aggregate(
        pipeline=run.pipeline,
        table_name=table,
        bronze=run.places.bronze,
        changes=run.places.changes(table),
        checkpoint=run.checkpoint(run.places.query_checkpoint(table, generation)),
        generation=generation,
        run_id=run.run_id,
    )


def _ensure_tables(spark: SparkSession, run: Run) -> dict[str, GoldState]:
    """Make what is missing; the state of each gold table. TableMismatch before any row moves."""
    pipeline, options = run.pipeline, run.settings.storage_options
    lines = spark.createDataFrame([], "value string, _file string")
    bronze = bronze_schema(pipeline, judge(lines, pipeline, 0).schema)
    ensure_table(
        TableSpec(
            run.places.bronze,
            bronze.json(),
            ("_event_date",),
            f"Accepted rows of {pipeline.name}",
            may_add_columns=True,
        ),
        options,
    )
    ensure_table(
        TableSpec(
            run.places.rejects,
            rejects_schema().json(),
            description=f"Rejected rows of {pipeline.name}",
            may_add_columns=True,
        ),
        options,
    )
    accepted = with_event_time(spark.createDataFrame([], bronze), pipeline)
    return {
        name: _ensure_gold(run, name, aggregate(accepted, table).schema)
        for name, table in pipeline.tables.items()
    }


def _ensure_gold(run: Run, name: str, aggregated: StructType) -> GoldState:
    table, options = run.pipeline.tables[name], run.settings.storage_options
    comments = dict(table.measures)
    gold = ensure_table(
        TableSpec(
            run.places.gold(name),
            gold_schema(aggregated, comments).json(),
            ("window_date",),
            table.description,
            transactions={GENERATION: _FIRST_GENERATION},
        ),
        options,
    )
    ensure_table(
        TableSpec(
            run.places.changes(name),
            changes_schema(aggregated).json(),
            description=f"History of the windows of {run.pipeline.name}.{name}",
            # Readers learn from the change feed in which commit a row came.
            properties={"delta.enableChangeDataFeed": "true"},
        ),
        options,
    )
    return gold_state(gold)


def _versions_before(run: Run, name: str, gold: GoldState) -> tuple[int, int]:
    """The version of changes, and the watermark, before the table's query runs."""
    changes = _version(run, run.places.changes(name))
    return changes, _watermark(run, name, gold.generation)


def _watermark(run: Run, name: str, generation: int) -> int:
    checkpoint = run.checkpoint(run.places.query_checkpoint(name, generation))
    last = checkpoint.last_batch("commits")
    return checkpoint.next_watermark_ms(last) if last is not None else 0


def _pins(
    run: Run, name: str, gold: GoldState, changes: int, watermark: int, outcome: Outcome
) -> TableResult:
    table = existing_table(run.places.changes(name), run.settings.storage_options)
    after = _watermark(run, name, gold.generation)
    return TableResult(
        generation=gold.generation,
        changes=table.version(),
        bronze=outcome.versions["bronze"],
        windows_changed=rows_appended(table, changes),
        watermark_before_ms=watermark,
        watermark_after_ms=after,
        close_before_ms=gold.close_ms,
        close_after_ms=max(gold.close_ms, after),
    )


def _version(run: Run, place: str) -> int:
    return existing_table(place, run.settings.storage_options).version()
