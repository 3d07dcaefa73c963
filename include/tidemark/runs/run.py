"""One run of a pipeline: what it is asked to do, and what it has done so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.pins import TableResult
from tidemark.gold.plan import GoldState
from tidemark.gold.retention import table_frozen_before_ms
from tidemark.gold.state import gold_state
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.operators.other_inputs import ReadAt, read_at, reading, versions_read
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.clocks import Clock, clocks_of
from tidemark.runs.results.result import RunResult
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import SourceHandle
from tidemark.storage.delta.newest_event import newest_event
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.storage.file_place import Fence, unfenced
from tidemark.storage.result_file import RunError
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Run:
    """One scheduled execution of a pipeline.

    `scheduled_ms` is the time that it stands for on the scheduler's clock, in milliseconds since
    1970, UTC; `trigger` the scheduler's word for what started it. `fence` is the `check` of the
    lease, once the run holds it. `by` and `dag` say who started it, and which Dag.
    """

    pipeline: Pipeline
    settings: Settings
    run_id: str
    scheduled_ms: int
    trigger: str = "manual"
    fence: Fence = unfenced
    by: str | None = None
    dag: str | None = None

    @property
    def places(self) -> Places:
        return Places(self.settings.root, self.pipeline.name)

    @property
    def warehouse(self) -> Warehouse:
        """The pipeline's places, and those that it shares; written only behind the run's fence."""
        return Warehouse(self.places, self.settings.storage_options, self.fence)

    def operator(self, table: str) -> Operator:
        return operator_of(self.pipeline, table)

    @property
    def source(self) -> SourceHandle:
        """Where rows come from, as far as it is known without Spark."""
        return source_handle(self.pipeline, self.settings)

    def ingest_checkpoint(self) -> Checkpoint:
        return ingest_checkpoint(self.warehouse)

    def table(self, name: str) -> TableRun:
        """One of the pipeline's tables, by its gold as it is now."""
        inputs = self.operator(name).inputs
        return TableRun(self, name, gold_state(self.warehouse.gold(name).existing(), inputs))

    def restart_cases(self, tables: Iterable[TableRun]) -> dict[str, str]:
        """How each query finds its checkpoint, by table; `ingest` is the source's."""
        queries = {table.name: table.checkpoint for table in tables}
        queries["ingest"] = self.ingest_checkpoint()
        return {name: checkpoint.restart_case() for name, checkpoint in queries.items()}


@dataclass(frozen=True)
class TableRun:
    """One table in a run: how it is computed, where it lies, and what gold says of it.

    `state` is gold's as the run found it, which no step of a run moves before publish. The tables
    are handles: what they hold is read when it is asked for, for the run itself adds to them.
    """

    run: Run
    name: str
    state: GoldState

    @cached_property
    def operator(self) -> Operator:
        return self.run.operator(self.name)

    @property
    def pipeline(self) -> Pipeline:
        return self.run.pipeline

    @property
    def warehouse(self) -> Warehouse:
        return self.run.warehouse

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @property
    def generation(self) -> int:
        return self.state.generation

    @property
    def bronze(self) -> TablePlace:
        return self.warehouse.bronze

    @property
    def gold(self) -> TablePlace:
        return self.warehouse.gold(self.name)

    @property
    def changes(self) -> TablePlace:
        """The history of the generation in use."""
        return self.warehouse.changes(self.name, self.generation)

    @property
    def checkpoint(self) -> Checkpoint:
        """That of its query."""
        return query_checkpoint(self.warehouse, self.name, self.generation)

    @property
    def query(self) -> str:
        """The id of its query; `None` as text where that never began."""
        return str(self.checkpoint.query_id())

    @property
    def clocks(self) -> tuple[Clock, ...]:
        """Those of a join's sides, by the order of its inputs."""
        return clocks_of(self.pipeline, self.warehouse, self.name, self.generation)

    def watermark_ms(self) -> int:
        """The watermark that its query left, in milliseconds; 0 for none."""
        last = self.checkpoint.last_batch("commits")
        return self.checkpoint.next_watermark_ms(last) if last is not None else 0

    def closed_ms(self) -> int:
        """Up to where its stream has closed rows, in milliseconds; 0 for none."""
        return closed_by_stream_ms(self.checkpoint, self.operator)

    def frozen_before_ms(self) -> int | None:
        """Closed rows that start before this stay as they are; None: none is kept so."""
        bronze = self.bronze.existing()
        return table_frozen_before_ms(
            self.pipeline, self.warehouse, self.name, self.operator, bronze, self.state.close_ms
        )

    def read_at(self) -> ReadAt:
        """The versions of its other inputs, as far as its query has read them."""
        return read_at(self.operator, self.warehouse, self.checkpoint)

    def versions_read(self) -> dict[str, int]:
        """The newest versions of its other inputs that its query has read, by their names."""
        return versions_read(self.operator, self.warehouse, self.checkpoint)

    def reading(self, at: ReadAt) -> Operator:
        """Its operator with its other inputs at these versions."""
        return reading(self.operator, self.warehouse, at)


def closed_by_stream_ms(checkpoint: Checkpoint, operator: Operator) -> int:
    """Up to where a query has closed rows, in milliseconds; 0 for none.

    That follows from its watermark, but where a batch without data emits, from the one that its
    last batch ran by: a run that dies before that batch has not emitted what its last watermark
    closes, and the engine makes up for that only with the next row.
    """
    last = checkpoint.last_batch("commits")
    if last is None:
        return operator.traits.closed_to_ms(0)
    if not operator.traits.emits_without_input:
        return operator.traits.closed_to_ms(checkpoint.next_watermark_ms(last))
    return operator.traits.closed_to_ms(checkpoint.offsets(last).watermark_ms)


@dataclass
class Outcome:
    """What a run has done so far: filled as it goes, so that a failed run tells it too."""

    rows: Rows = field(default_factory=Rows)
    versions: dict[str, int] = field(default_factory=dict)
    tables: dict[str, TableResult] = field(default_factory=dict)
    restart: dict[str, str] = field(default_factory=dict)
    took_over: str | None = None
    held: bool = True
    without_spark: str | None = None


def run_result(
    run: Run,
    outcome: Outcome,
    started: datetime,
    batches: dict[str, list[int]],
    seconds: dict[str, float],
    error: RunError | None = None,
) -> RunResult:
    """The result of a run that ends now."""
    return RunResult(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        outcome="failed" if error else "succeeded",
        held=outcome.held,
        trigger=run.trigger,
        scheduled_at=instant_of(run.scheduled_ms),
        started_at=started,
        ended_at=datetime.now(UTC),
        rows=outcome.rows,
        batches=batches,
        seconds=seconds,
        versions=outcome.versions,
        tables=outcome.tables,
        restart=outcome.restart,
        took_over=outcome.took_over,
        without_spark=outcome.without_spark,
        newest_event=_newest_event(run),
        by=run.by,
        dag=run.dag,
        error=error,
    )


def _newest_event(run: Run) -> datetime | None:
    """That of bronze, by the statistics of its files; None where they cannot be read: what a run
    came to is told all the same."""
    try:
        return newest_event(run.warehouse.bronze, run.pipeline.source.event_time.column)
    except Exception:  # noqa: BLE001  see above
        return None
