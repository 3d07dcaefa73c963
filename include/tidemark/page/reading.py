"""What the page shows: what the commands tell, and what tables of `ops/`, gold and its history
say for charts. Nothing is written, and no Spark is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.state import gold_state
from tidemark.ledger.report import LedgerReport, RejectedOfRun, read_ledger, rejected_rows
from tidemark.operators.kinds import operator_of
from tidemark.page.corrections import Correction, corrections_of
from tidemark.page.rejects import MOST_EXAMPLES, Reject, newest_rejects
from tidemark.page.series import Series, numbers_of, series_of
from tidemark.page.tables import OpenTables
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import load_pipeline, pipeline_files
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.status.pipeline_status import RECENT, PipelineStatus, file_status
from tidemark.runs.status.recent_runs import RecentRun, counted_once, recent_rows, run_of
from tidemark.runs.status.state import PipelineState
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.ops import newest_rows
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import STATE_CHECK

P = ParamSpec("P")
T = TypeVar("T")
MOST_RUNS = 200
_LINES = 50
_CHECKS = 200
# The worst first.
WORST = tuple(reversed(PipelineState))


@dataclass(frozen=True)
class RunShown:
    """A run as charts show it. `tables` has each table's watermark and close frontier after it.
    What a run of an earlier version did not note is None. Times are in UTC."""

    run: RecentRun
    late_rows: int
    seconds: Mapping[str, float]
    newest_event: datetime | None
    state_bytes: int | None
    tables: Mapping[str, tuple[datetime | None, datetime | None]]
    docs: str | None = None

    @property
    def stands_for(self) -> datetime:
        """The time on the schedule; of a run that was not scheduled, when it began."""
        return self.run.scheduled_at or self.run.started_at


@dataclass(frozen=True)
class LastStateCheck:
    """What the newest state check said of a query's store."""

    checkpoint: str
    verdict: str
    reason: str | None
    time: datetime


@dataclass(frozen=True)
class PipelineView:
    """A pipeline: how it stands, its newest runs, the oldest first, and what the ledger and the
    state check say. `faults` tell what could not be read, and why; it is missing then."""

    status: PipelineStatus
    runs: tuple[RunShown, ...]
    ledger: LedgerReport | None
    state: tuple[LastStateCheck, ...]
    corrections: Mapping[str, tuple[Correction, ...]]
    faults: Sequence[str]


@dataclass(frozen=True)
class ShownColumn:
    """A column of gold."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True)
class TableView:
    """A table: its columns, the numbers that can be drawn, one of them by key, what was corrected,
    and what the checks said last. `closed_to` is gold's close frontier, UTC; `columns` is empty
    where no run has made gold yet."""

    columns: tuple[ShownColumn, ...]
    numbers: tuple[str, ...]
    measure: str | None
    series: Series | None
    closed_to: datetime | None
    corrections: tuple[Correction, ...]
    checks: tuple[Mapping[str, Any], ...]
    faults: Sequence[str]


@dataclass(frozen=True)
class RejectsView:
    """Rejected rows of a pipeline: by run and reason as the ledger counts them, the newest run
    first, and some of the newest."""

    counts: tuple[RejectedOfRun, ...]
    examples: tuple[Reject, ...]
    faults: Sequence[str]


class Parts:
    """Reads parts of a page: one that cannot be read is told, and the others are shown."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def read(
        self, what: str, ask: Callable[P, T | None], *given: P.args, **named: P.kwargs
    ) -> T | None:
        """What is asked; None where it is not there, or cannot be read."""
        try:
            return ask(*given, **named)
        except Exception as error:  # noqa: BLE001  whatever it is, the page tells the rest
            first = str(error).partition("\n")[0]
            self.faults.append(f"{what} cannot be read: {type(error).__name__}: {first}")
            return None


@dataclass(frozen=True)
class PageReading:
    """The pipelines of the settings, read by the tables that this process holds open."""

    settings: Settings
    tables: OpenTables

    def file_of(self, name: str) -> Path | None:
        """The file of a pipeline; None where there is none."""
        files = pipeline_files(self.settings.pipelines_folder)
        return next((file for file in files if file.stem == name), None)

    def pipeline(self, name: str) -> Pipeline | None:
        """The pipeline of this name; None where there is none, or its file cannot be used."""
        file = self.file_of(name)
        try:
            return None if file is None else load_pipeline(file)
        except PipelineFileInvalid:
            return None

    def dag(self, name: str) -> str | None:
        """The Dag that the newest of the pipeline's recent runs noted."""
        rows = self._rows(Warehouse.of(name, self.settings)) or []
        return next((row["dag"] for row in rows[:RECENT] if row.get("dag")), None)

    def status(self, name: str, now: datetime) -> PipelineStatus | None:
        """What `tidemark status` has; None where there is no such pipeline."""
        file = self.file_of(name)
        return None if file is None else file_status(file, self.settings, now)

    def pipeline_view(self, status: PipelineStatus) -> PipelineView:
        """What is shown of one pipeline beside its tables."""
        name, parts = status.name, Parts()
        warehouse, pipeline = Warehouse.of(name, self.settings), self.pipeline(name)
        rows = parts.read("ops/runs", self._rows, warehouse)
        docs = parts.read("ops/quality", self._docs, warehouse)
        verdicts, sizes = parts.read("ops/upkeep", self._state, warehouse) or ((), {})
        return PipelineView(
            status=status,
            runs=_shown(rows or (), docs or {}, sizes),
            ledger=parts.read("ops/ledger", self._ledger, warehouse),
            state=verdicts,
            corrections={}
            if pipeline is None
            else {
                table: parts.read(table, self._corrections, warehouse, pipeline, table) or ()
                for table in pipeline.tables
            },
            faults=parts.faults,
        )

    def table_view(
        self, pipeline: Pipeline, table: str, measure: str, find: str, days: int
    ) -> TableView:
        """What is shown of one table. `measure` where it is none of its numbers: the first."""
        parts, operator = Parts(), operator_of(pipeline, table)
        warehouse = Warehouse.of(pipeline.name, self.settings)
        ask, place = self.tables.ask, warehouse.gold(table)
        known = (operator.identity, operator.values)
        gold = parts.read("Gold", ask, place, "columns", _gold_facts)
        numbers: tuple[str, ...] = ()
        drawn = series = None
        if gold is not None:
            numbers = ask(place, ("numbers", known), lambda of: numbers_of(of, operator)) or ()
            drawn = measure if measure in numbers else next(iter(numbers), None)
        if drawn is not None:
            asked, name = ("series", known, drawn, find, days), drawn
            series = parts.read(
                "Gold", ask, place, asked, lambda of: series_of(of, operator, name, find, days)
            )
        return TableView(
            columns=gold[0] if gold else (),
            numbers=numbers,
            measure=drawn,
            series=series,
            closed_to=gold[1] if gold else None,
            corrections=parts.read("Changes", self._corrections, warehouse, pipeline, table) or (),
            checks=parts.read("ops/quality", self._checks, warehouse, table) or (),
            faults=parts.faults,
        )

    def rejects_view(self, name: str, reason: str | None) -> RejectsView:
        """Counts of all time, and examples of one reason, or of all."""
        parts, warehouse, ask = Parts(), Warehouse.of(name, self.settings), self.tables.ask
        asked = (name, "rejects")
        counts = parts.read(
            "ops/ledger", ask, warehouse.ledger, asked, lambda of: rejected_rows(of, name)
        )
        examples = parts.read(
            "rejects", ask, warehouse.rejects, reason,
            lambda of: tuple(islice(newest_rejects(of, reason), MOST_EXAMPLES)),
        )  # fmt: skip
        return RejectsView(counts or (), examples or (), parts.faults)

    def rejects(self, name: str, reason: str | None) -> Iterator[Reject]:
        """All rejected rows of a pipeline, not read yet."""
        table = Warehouse.of(name, self.settings).rejects.open()
        return iter(()) if table is None else newest_rejects(table, reason)

    def _rows(self, warehouse: Warehouse) -> list[Mapping[str, Any]] | None:
        name = warehouse.places.pipeline
        return self.tables.ask(
            warehouse.runs, (name, "rows"), lambda of: recent_rows(of, name, MOST_RUNS)
        )

    def _ledger(self, warehouse: Warehouse) -> LedgerReport | None:
        place, name = warehouse.ledger, warehouse.places.pipeline
        return self.tables.ask(place, name, lambda _: read_ledger(place, name, _LINES))

    def _docs(self, warehouse: Warehouse) -> dict[str, str] | None:
        """Where the Data Docs of runs begin, by run."""
        name = warehouse.places.pipeline

        def answer(table: DeltaTable) -> dict[str, str]:
            rows = _of(table, name, ["run", "time", "data_docs"], "data_docs")
            return {row["run"]: row["data_docs"] for row in sorted(rows, key=lambda r: r["time"])}

        return self.tables.ask(warehouse.quality, (name, "docs"), answer)

    def _checks(self, warehouse: Warehouse, table: str) -> tuple[Mapping[str, Any], ...]:
        """What the checks of a table, and of all, said of the run that was validated last."""
        name = warehouse.places.pipeline
        rows = self.tables.ask(
            warehouse.quality,
            (name, "checks"),
            lambda of: newest_rows(of, name, "time", _CHECKS),
        )
        last = max((row["time"] for row in rows or ()), default=None)
        return tuple(
            row for row in rows or () if row["time"] == last and row["table"] in (table, None)
        )

    def _state(
        self, warehouse: Warehouse
    ) -> tuple[tuple[LastStateCheck, ...], dict[str, int]] | None:
        """What the newest state check said, and the bytes that each run's check found."""
        name = warehouse.places.pipeline

        def answer(upkeep: DeltaTable) -> tuple[tuple[LastStateCheck, ...], dict[str, int]]:
            rows = newest_rows(upkeep, name, "time", MOST_RUNS, (STATE_CHECK,))
            last = max((row["time"] for row in rows), default=None)
            verdicts = tuple(
                LastStateCheck(
                    row["checkpoint"], row["verdict"], row["state"]["reason"], row["time"]
                )
                for row in rows
                if row["time"] == last
            )
            # A check that was repeated has rows of its own: the last one counts.
            newest = {row["run"]: row["time"] for row in reversed(rows)}
            sizes: Counter[str] = Counter()
            for row in rows:
                if row["time"] == newest[row["run"]]:
                    sizes[row["run"]] += row["state"]["bytes"]
            return verdicts, dict(sizes)

        return self.tables.ask(warehouse.upkeep, (name, "state"), answer)

    def _corrections(
        self, warehouse: Warehouse, pipeline: Pipeline, table: str
    ) -> tuple[Correction, ...] | None:
        """What follows from gold's version, from that of `changes`, and from `ops/runs`."""
        gold, name, operator = warehouse.gold(table), pipeline.name, operator_of(pipeline, table)
        facts = self.tables.ask(gold, "version", lambda of: (generation_of(of), of.version()))
        if facts is None:
            return None
        generation, version = facts
        columns = ["run", "started_at", "tables"]
        known = self.tables.ask(
            warehouse.runs, (name, "all"), lambda of: (of.version(), _of(of, name, columns))
        )
        at, runs = known or (None, [])
        asked = (operator.identity, operator.values, version, at)
        return self.tables.ask(
            warehouse.changes(table, generation),
            asked,
            lambda of: corrections_of(gold.existing(), of, operator, runs),
        )


def _of(
    table: DeltaTable, name: str, columns: Sequence[str], known: str | None = None
) -> list[dict[str, Any]]:
    """A pipeline's rows; those in which this column is known."""
    wanted = ds.field("pipeline") == name
    if known is not None:
        wanted &= ds.field(known).is_valid()
    rows = dataset_of(table, f"pipeline = '{name}'")
    return rows.to_table(list(columns), filter=wanted).to_pylist()


def _shown(
    rows: Sequence[Mapping[str, Any]], docs: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[RunShown, ...]:
    runs = [run_of(row) for row in rows]
    late = [run.late_rows for run in counted_once(runs)]
    shown = [
        RunShown(
            run,
            late_rows,
            dict(row["seconds"] or ()),
            row.get("newest_event"),
            sizes.get(run.run),
            {one["table"]: (one["watermark_after"], _closed(one)) for one in row["tables"] or ()},
            docs.get(run.run),
        )
        for row, run, late_rows in zip(rows, runs, late, strict=True)
    ]
    return tuple(reversed(shown))


def _closed(table: Mapping[str, Any]) -> datetime | None:
    """Gold's frontier after the run: what a held run would close is not closed."""
    at: datetime | None = table["close_before" if table["gold_version"] is None else "close_after"]
    return at


def _gold_facts(gold: DeltaTable) -> tuple[tuple[ShownColumn, ...], datetime | None]:
    """Gold's columns, and its close frontier."""
    comments = {one.name: one.metadata.get("comment") for one in gold.schema().fields}
    close_ms = gold_state(gold).close_ms
    columns = tuple(
        ShownColumn(one.name, str(one.type), comments[one.name]) for one in schema_of(gold)
    )
    return columns, instant_of(close_ms) if close_ms else None


def worst_first(statuses: Sequence[PipelineStatus]) -> list[PipelineStatus]:
    """Pipelines by how they stand, and those that stand alike by name."""
    return sorted(statuses, key=lambda one: (WORST.index(one.state), one.name))
