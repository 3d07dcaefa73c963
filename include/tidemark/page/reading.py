"""What the page shows of one pipeline: what the commands tell, and what tables of `ops/`, gold and
its history say for charts. Nothing is written, and no Spark is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.state import gold_state
from tidemark.ledger.report import LedgerReport, RejectedOfRun, read_ledger, rejected_rows
from tidemark.operators.kinds import operator_of
from tidemark.page.corrections import Correction, corrections_of
from tidemark.page.rejects import MOST_EXAMPLES, Reject, newest_rejects
from tidemark.page.series import numbers_of, series_of
from tidemark.page.tables import OpenTables
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import load_pipeline, pipeline_files
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import DAG_SUFFIXES
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.status.pipeline_status import RECENT
from tidemark.runs.status.recent_runs import recent_rows
from tidemark.storage.delta.dropped_rejects import dropped_text
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.ops import newest_rows, own_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import STATE_CHECK

T = TypeVar("T")
Row = Mapping[str, Any]
MOST_RUNS = 200
_LINES = 50
_CHECKS = 200


def stream_dag(noted: Iterable[str | None]) -> str | None:
    """Of Dags that runs noted, the newest first, the newest of the stream: who may read that of
    rewinds is not who may read the pipeline."""
    others = tuple(DAG_SUFFIXES)
    return next((dag for dag in noted if dag and not dag.endswith(others)), None)


class PageReading:
    """A pipeline, read for one page by the tables that this process holds open. A part that cannot
    be read is told in `faults`, and is missing; the others are shown."""

    def __init__(self, name: str, settings: Settings, tables: OpenTables) -> None:
        self.name, self.settings, self._tables = name, settings, tables
        self.warehouse = Warehouse.of(name, settings)
        files = pipeline_files(settings.pipelines_folder)
        self.file = next((file for file in files if file.stem == name), None)
        self.faults: list[str] = []

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """None where there is none, or its file cannot be used."""
        try:
            return None if self.file is None else load_pipeline(self.file)
        except PipelineFileInvalid:
            return None

    @cached_property
    def runs(self) -> list[Row]:
        """The rows of `ops/runs` of its newest runs, the newest first. Who may see it rests on
        these: what keeps them from being read is raised."""
        asked = (self.name, "runs")
        return (
            self._tables.ask(
                self.warehouse.runs, asked, lambda of: recent_rows(of, self.name, MOST_RUNS)
            )
            or []
        )

    @property
    def dag(self) -> str | None:
        """The Dag of its stream, by its recent runs."""
        return stream_dag(row.get("dag") for row in self.runs[:RECENT])

    def _ask(
        self, place: TablePlace, question: Hashable, answer: Callable[[DeltaTable], T]
    ) -> T | None:
        try:
            return self._tables.ask(place, (self.name, question), answer)
        except Exception as error:  # noqa: BLE001  whatever it is, the page tells the rest
            what = place.uri.removeprefix(f"{self.warehouse.places.root}/")
            first = str(error).partition("\n")[0]
            self.faults.append(f"{what} cannot be read: {type(error).__name__}: {first}")
            return None

    def ledger(self) -> LedgerReport | None:
        """What `tidemark ledger show` has."""
        place = self.warehouse.ledger
        return self._ask(place, "report", lambda _: read_ledger(place, self.name, _LINES))

    def docs(self) -> Mapping[str, str]:
        """Where the Data Docs of runs begin, by run."""

        def answer(quality: DeltaTable) -> dict[str, str]:
            has_docs: Any = ds.field("data_docs").is_valid()
            rows = own_rows(quality, self.name, ["run", "time", "data_docs"], has_docs)
            return {row["run"]: row["data_docs"] for row in sorted(rows, key=lambda r: r["time"])}

        return self._ask(self.warehouse.quality, "docs", answer) or {}

    def checks(self, table: str) -> list[Row]:
        """What the checks of a table, and of all, said of the run that was validated last."""

        def answer(quality: DeltaTable) -> list[Row]:
            return _newest(newest_rows(quality, self.name, "time", _CHECKS))

        rows = self._ask(self.warehouse.quality, "checks", answer) or []
        return [row for row in rows if row["table"] in (table, None)]

    def state(self) -> tuple[list[Row], Mapping[str, int]]:
        """What the newest state check said, and the bytes that each run's check found."""

        def answer(upkeep: DeltaTable) -> tuple[list[Row], Mapping[str, int]]:
            rows = newest_rows(upkeep, self.name, "time", MOST_RUNS, (STATE_CHECK,))
            # A check that was repeated has rows of its own: the last one counts.
            last = {row["run"]: row["time"] for row in reversed(rows)}
            sizes: Counter[str] = Counter()
            for row in rows:
                if row["time"] == last[row["run"]]:
                    sizes[row["run"]] += row["state"]["bytes"]
            return _newest(rows), sizes

        return self._ask(self.warehouse.upkeep, "state", answer) or ([], {})

    def rejected(self) -> tuple[RejectedOfRun, ...]:
        """Rejected rows of all time by run and reason, the newest run first."""
        place = self.warehouse.ledger
        return self._ask(place, "rejected", lambda of: rejected_rows(of, self.name)) or ()

    def examples(self, reason: str | None) -> list[Reject]:
        """Some of the newest rejects; of one reason where one is named."""

        def answer(rejects: DeltaTable) -> list[Reject]:
            return list(islice(newest_rejects(rejects, reason), MOST_EXAMPLES))

        return self._ask(self.warehouse.rejects, reason, answer) or []

    def dropped(self) -> str | None:
        """Which rejects are in their table no more, in a sentence; None: none were dropped."""
        return self._ask(self.warehouse.rejects, "dropped", dropped_text)

    def all_rejects(self, reason: str | None) -> Iterator[Reject]:
        """Every reject, not read yet."""
        table = self.warehouse.rejects.open()
        return iter(()) if table is None else newest_rejects(table, reason)

    def gold(
        self, pipeline: Pipeline, table: str
    ) -> tuple[list[tuple[str, str, str | None]], datetime | None, tuple[str, ...]] | None:
        """Gold's columns as name, type and comment, its close frontier, and what can be drawn; None
        where no run has made it."""
        operator = operator_of(pipeline, table)

        def answer(gold: DeltaTable) -> Any:
            comments = {one.name: one.metadata.get("comment") for one in gold.schema().fields}
            columns = [(one.name, str(one.type), comments[one.name]) for one in schema_of(gold)]
            close = gold_state(gold).close_ms
            return columns, instant_of(close) if close else None, numbers_of(gold, operator)

        return self._ask(self.warehouse.gold(table), ("gold", operator.values), answer)

    def series(
        self, pipeline: Pipeline, table: str, measure: str, find: str, days: int
    ) -> Mapping[str, Any] | None:
        """A number over time, by key."""
        operator = operator_of(pipeline, table)
        asked = ("series", operator.identity, operator.values, measure, find, days)
        place = self.warehouse.gold(table)
        return self._ask(place, asked, lambda of: series_of(of, operator, measure, find, days))

    def corrections(self, pipeline: Pipeline, table: str) -> tuple[Correction, ...]:
        """What follows from gold's version, from that of `changes`, and from `ops/runs`."""
        place, operator = self.warehouse.gold(table), operator_of(pipeline, table)
        gold = self._ask(place, "version", lambda of: (generation_of(of), of.version()))
        if gold is None:
            return ()
        generation, version = gold
        columns = ["run", "started_at", "tables"]
        at, runs = self._ask(
            self.warehouse.runs, "all", lambda of: (of.version(), own_rows(of, self.name, columns))
        ) or (None, [])
        asked = ("corrections", operator.identity, operator.values, version, at)

        def answer(changes: DeltaTable) -> tuple[Correction, ...]:
            return corrections_of(place.existing(), changes, operator, runs)

        return self._ask(self.warehouse.changes(table, generation), asked, answer) or ()


def _newest(rows: Sequence[Row]) -> list[Row]:
    """Those of the last time."""
    last = max((row["time"] for row in rows), default=None)
    return [row for row in rows if row["time"] == last]
