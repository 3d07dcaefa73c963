"""One run of a pipeline: what it is asked to do, and what it has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.pins import TableResult
from tidemark.gold.plan import GoldState
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.operators.other_inputs import read_at, reading
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.results.result import RunResult
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import SourceHandle
from tidemark.storage.delta.rows import Rows
from tidemark.storage.file_place import Fence, unfenced
from tidemark.storage.result_file import RunError
from tidemark.storage.warehouse import Warehouse

# The state of each gold table as a run found it, by the table's name.
GoldStates = dict[str, GoldState]


@dataclass(frozen=True)
class Run:
    """One scheduled execution of a pipeline.

    `scheduled_ms` is the time that it stands for on the scheduler's clock, in milliseconds since
    1970, UTC; `trigger` the scheduler's word for what started it. `fence` is the `check` of the
    lease, once the run holds it.
    """

    pipeline: Pipeline
    settings: Settings
    run_id: str
    scheduled_ms: int
    trigger: str = "manual"
    fence: Fence = unfenced

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

    def query_checkpoint(self, table: str, generation: int) -> Checkpoint:
        return query_checkpoint(self.warehouse, table, generation)

    def watermark_ms(self, table: str, generation: int) -> int:
        """The watermark that a table's query left, in milliseconds; 0 for none."""
        checkpoint = self.query_checkpoint(table, generation)
        last = checkpoint.last_batch("commits")
        return checkpoint.next_watermark_ms(last) if last is not None else 0

    def closed_ms(self, table: str, generation: int) -> int:
        """Up to where a table's stream has closed rows, in milliseconds; 0 for none.

        That follows from its watermark, but where a batch without data emits, from the one that its
        last batch ran by: a run that dies before that batch has not emitted what its last watermark
        closes, and the engine makes up for that only with the next row.
        """
        checkpoint, operator = self.query_checkpoint(table, generation), self.operator(table)
        last = checkpoint.last_batch("commits")
        if last is None or not operator.emits_without_input:
            return operator.closed_to_ms(self.watermark_ms(table, generation))
        return operator.closed_to_ms(checkpoint.offsets(last).watermark_ms)

    def reading(self, table: str, generation: int) -> Operator:
        """A table's operator with the other inputs that it reads, as far as its query has read
        them."""
        operator, checkpoint = self.operator(table), self.query_checkpoint(table, generation)
        if len(operator.inputs) == 1:
            return operator
        return reading(operator, self.warehouse, read_at(operator, self.warehouse, checkpoint))

    def ingest_checkpoint(self) -> Checkpoint:
        return ingest_checkpoint(self.warehouse)

    def restart_cases(self, gold: GoldStates) -> dict[str, str]:
        """How each query finds its checkpoint, by table; `ingest` is the source's."""
        of_tables = {
            name: self.query_checkpoint(name, state.generation) for name, state in gold.items()
        }
        queries = {**of_tables, "ingest": self.ingest_checkpoint()}
        return {name: checkpoint.restart_case() for name, checkpoint in queries.items()}


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
        error=error,
    )
