"""Random acts of a pipeline's users, one after the other, beside a model of them in plain Python.

The model knows which rows are in bronze, in rejects and in `retracted`, and which gold shows. It
draws an act from those that are possible now, with some that have to be refused among them; ends
some at a commit point, and finishes them as a user would. After each of them all tables are the
model's: `Campaign.check`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable

from tests.kit.killed import Killed, killed
from tests.kit.replaying import mended, replay_warm
from tests.kit.retracting import retract_warm
from tests.kit.rewinding import rewind_warm
from tests.kit.running import clicks, quiet, run_warm
from tests.operators.contract.kinds import (
    DAY,
    IDLE,
    MINUTE,
    TABLE,
    KindPlace,
    Known,
    Row,
    of,
)
from tests.operators.contract.test_operator_kinds import check_gold, close_ms
from tests.streaming.audits import audit, backfill_warm
from tidemark.errors import TidemarkError
from tidemark.ledger.ledger import check_balance, check_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.reasons import DUPLICATE, LEFT_OUT, MALFORMED
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.requests import MigrationRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.unfinished_act import ActKind, unfinished_act
from tidemark.storage.result_file import RunError
from tidemark.upkeep.maintenance.maintain import maintain_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE: Mapping[str, Any] = {
    "files": "landing/*.json*",
    "columns": {
        "at": "timestamp",
        "key": "string",
        "amount": "long",
        "id": "long not null",
        "name": "string",
    },
    "event_time": {"column": "at"},
    # Wider than all rows lie apart: of a name one row is in bronze.
    "unique": {"by": "name", "within": "30 days"},
}
ENDED, REFUSED = 0.3, 0.12
NONE, YEARS = timedelta(0), timedelta(days=36_500)
# Whatever no reader has to read any more goes at once.
AT_ONCE = Maintenance.model_construct(
    retention=NONE, log_retention=NONE, ops_retention=YEARS, result_retention=NONE
)
PACKING = Maintenance(ops_retention=YEARS)

# Where the acts may be ended: what each passes, but for what every lease does.
_INGEST = ("accepted rows", "rejected rows")
_RUN = (*_INGEST, "query started", "windows of the stream", "recomputed windows", "ledger")
_GENERATION = (
    *("windows of a generation", "query of a generation named"),
    "gold of another generation",
)
_ACT = ("pipeline stopped for an act", "upkeep recorded", "pipeline released after an act")
POINTS: Mapping[str, Sequence[str]] = {
    "run": (*_RUN, "gold", "run recorded"),
    "hold": _RUN,
    "publish": ("gold", "run recorded", "result"),
    "retract": (
        *("retraction planned", *_ACT, "rows copied to `retracted`", "rows taken out of bronze"),
        *(*_GENERATION, "ledger"),
    ),
    "restore": (
        *(*_ACT, "rows brought back to bronze", "rows taken out of `retracted`"),
        *(*_GENERATION, "ledger"),
    ),
    "replay": (
        *("replay planned", *_ACT, "replayed rows in bronze", "rejects copied to `replayed`"),
        *("replayed rejects taken out of rejects", "ledger"),
    ),
    "rewind": (
        *("pipeline backed up", *_ACT, "table of a pipeline taken back", *_GENERATION),
        *("ingest's checkpoint taken back", "ledger rewound"),
    ),
    "rebuild": _GENERATION,
    "backfill": ("recomputed windows", "gold"),
    "maintain": ("small files packed", "unneeded files removed", "log checkpoint written"),
}
_ID = re.compile(r'"id": (\d+)')


class Line(NamedTuple):
    """A line of a file: its row, None where it is none until it is mended."""

    id: int
    row: Row
    good: bool

    @property
    def text(self) -> str:
        told = json.dumps({**self.row, "at": self.row["at"].isoformat()})
        return told if self.good else told.removesuffix("}")


# What names a reject: the id of its line, or a file that was left out.
Mark = int | str


@dataclass
class Held:
    """What a rewind takes back: rows of bronze and marks of rejects with their reasons, both by
    what they are of, which run has read each file, and the files that are left out."""

    bronze: dict[int, Row] = field(default_factory=dict)
    rejects: dict[Mark, str] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    # Which batch that had rows for it each table has last.
    bronze_batch: int = 0
    rejects_batch: int = 0
    # Of a table that is followed: how many of its versions were read, and what it held then.
    versions: int = 0
    seen: dict[int, Row] = field(default_factory=dict)


@dataclass(frozen=True)
class Act:
    """Rows that went from bronze or came back, or rejects whose rows came: behind which batches."""

    name: str
    gone: Mapping[int, Row]
    came: Mapping[int, Row]
    bronze_batch: int
    # Of a replay only.
    rejects_batch: int | None = None

    def is_kept(self, held: Held) -> bool:
        """Does it stay where the pipeline goes back to these batches?"""
        of_rejects = (None, held.rejects_batch)
        return self.bronze_batch == held.bronze_batch and self.rejects_batch in of_rejects

    def redo(self, held: Held) -> None:
        for one in self.gone:
            del held.bronze[one]
        held.bronze |= self.came
        if self.rejects_batch is not None:
            for one in self.came:
                del held.rejects[one]


@dataclass(frozen=True)
class Past:
    """What was at some time: the tables, the runs to go back to then, how many acts there had been,
    and at which step it was."""

    held: Held
    runs: Mapping[str, Past]
    acts: int
    step: int


@dataclass
class ActsPlace(KindPlace):
    """A kind whose rows have ids, and some of them names that stand in bronze once."""

    source: ClassVar[Mapping[str, Any]] = SOURCE

    @property
    def pipeline(self) -> Pipeline:
        found = super().pipeline
        watermark = {"delay": "10 minutes", "seal_after_idle": IDLE}
        content = clicks(watermark=watermark, source=dict(self.source))
        source = pipeline_from_mapping(self.name, content).source
        self.content = content
        return found.model_copy(update={"source": source})


class Unexpected(AssertionError):
    """An act came to something else than the model says."""


@dataclass
class Campaign:
    """The acts of one seed, told as they are drawn."""

    spark: SparkSession
    place: ActsPlace
    seed: int
    told: list[str] = field(default_factory=list)
    held: Held = field(default_factory=Held)
    files: dict[str, list[Line]] = field(default_factory=dict)
    # Of each retraction its rows; those that went to `replayed`.
    retracted: dict[str, dict[int, Row]] = field(default_factory=dict)
    replayed: set[int] = field(default_factory=set)
    runs: dict[str, Past] = field(default_factory=dict)
    rewinds: dict[str, Past] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    batches: int = 0
    # Results of held runs, with bronze as it was then, while they can be published.
    waiting: list[tuple[RunResult, dict[int, Row]]] = field(default_factory=list)
    stale: list[RunResult] = field(default_factory=list)
    others: list[Row] = field(default_factory=list)
    # What gold shows, where it does not stand for all of bronze.
    shown: Known | None = None
    all_shown: bool = True
    # Windows may wait for their publish, though no row does: an append mode's, of closed ones.
    may_wait: bool = False
    # Windows do wait, by what a held run told.
    waits: bool = False
    step: int = 0
    vacuumed: int = -1
    minutes: float = 0.0
    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    # Acts that the source knows nothing of.
    never: ClassVar[tuple[str, ...]] = ()
    leaves_files_out: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)

    # What is drawn.

    def go(self, steps: int) -> None:
        """So many acts, and a last run and audit; a failure tells what was done before."""
        try:
            self.land()
            self.land()
            self.run()
            self.check()
            for _ in range(steps):
                self.step += 1
                self.act()
                self.check()
            self.told.append("at the end")
            self.land()
            self.run(may_end=False)
            self.check()
            assert audit(self.spark, self.place).outcome == "equal"
        except Exception as error:
            told = "\n".join(f"  {number}. {one}" for number, one in enumerate(self.told, 1))
            said = f"{self.place.kind.name}, seed {self.seed}: {error}\n{told}"
            raise Unexpected(said) from error

    def act(self) -> None:
        """One that is possible now; of runs and files more than of others."""
        possible = {
            "land": 6,
            "run": 5,
            "hold": 2,
            "retract": 4,
            "rewind": 3,
            "replay_mended": 2,
            "replay_again": 1,
            "rebuild": 1,
            "backfill": 1,
            "audit": 1,
            "maintain": 1,
            "publish": 3 * bool(self.waiting),
            "publish_stale": bool(self.stale),
            "restore": 3 * bool(self.retracted),
            "undo_rewind": 2 * bool(self.rewinds),
        }
        possible |= dict.fromkeys(self.never, 0)
        chosen = self.draw.choices([*possible], [*possible.values()])[0]
        self.counts[chosen] += 1
        getattr(self, chosen)()

    def pick(self, some: Any) -> Any:
        return self.draw.choice(sorted(some, key=str))

    # The acts.

    def land(self) -> None:
        """A file of rows that go on with time, late ones, twins, and lines that are none."""
        draw = self.draw
        self.minutes += draw.uniform(3, 30)
        names = [line.row["name"] for lines in self.files.values() for line in lines]
        lines = []
        for _ in range(draw.randint(1, 7)):
            self.lines += 1
            named = [name for name in names if name is not None]
            name = f"n{self.lines}" if draw.random() < 0.3 else None
            if named and draw.random() < 0.2:
                name = draw.choice(named)
            row = {**self._row(), "id": self.lines, "name": name}
            lines.append(Line(self.lines, row, draw.random() < 0.85))
        file = f"f{len(self.files)}.json"
        self.files[file] = lines
        self.place.land(file, [line.text for line in lines])
        good = [line.id if line.good else f"bad {line.id}" for line in lines]
        self.told.append(f"land {file}: {', '.join(map(str, good))}")

    def _row(self) -> Row:
        draw, known = self.draw, [line for lines in self.files.values() for line in lines]
        kind = draw.random()
        if kind < 0.2 and known:
            near = (draw.choice(known).row["at"] - DAY) / MINUTE
            minute = near + draw.choice([-6, 6, draw.uniform(-7, 7)])
        elif kind < 0.35:
            minute = draw.uniform(0, self.minutes)
        else:
            minute = self.minutes - draw.uniform(0, 20)
        # No two rows of one time: which of them is the first is not asked here.
        minute = max(minute, 0) + self.lines / 60_000
        amount: int | None = draw.randint(0, 3)
        key = draw.choice(["a", "b", None])
        if self.place.kind.counts_some:
            amount, key = draw.choice([2, 0, -1, 3, None]), draw.choice(["a", "b", None, "nobody"])
        at = DAY + timedelta(microseconds=round(minute * 60_000_000))
        return {"at": at, "key": key, "amount": amount}

    def run(self, may_end: bool = True) -> None:
        self._others_change()
        run = f"run-{len(self.told)}"
        do = partial(self._run, run, self._scheduled())
        self._do("run", f"run {run}", do, may_end=may_end)
        self._ingested(run)
        self._shows_all()
        self.stale += [result for result, _ in self.waiting]
        self.waiting.clear()
        self._note_run(run)

    def hold(self) -> None:
        run = f"held-{len(self.told)}"
        scheduled = self._scheduled()
        results: list[RunResult] = []
        shown, bronze = self.place.known(), dict(self.held.bronze)

        def do() -> RunError | None:
            result = run_warm(self.spark, self.place, run, hold=True, scheduled=scheduled)
            results.append(result)
            return result.error

        self._do("hold", f"hold {run}", do)
        self._ingested(run)
        self.waiting.append((results[-1], dict(self.held.bronze)))
        self.may_wait = True
        self.waits |= any(table.windows_changed for table in results[-1].tables.values())
        if bronze != self.held.bronze:
            self._shows(shown)

    def publish(self) -> None:
        """A held run; of several one, and those before it are in it."""
        number = self.draw.randrange(len(self.waiting))
        result, bronze = self.waiting[number]
        self._do("publish", f"publish {result.run_id}", partial(self._publish, result))
        self.stale += [one for one, _ in self.waiting[:number]]
        del self.waiting[: number + 1]
        rows = [*bronze.values(), *self.others]
        check_gold(self.place, rows)
        if bronze == self.held.bronze:
            self._shows_all()
            self.may_wait = bool(self.waiting)
        else:
            self._shows(self.place.known())
            self.waits = False
        if not self.waiting and self.held.read.get(self._last_read()) == result.run_id:
            self._note_run(result.run_id)

    def _last_read(self) -> str:
        return next(reversed(self.held.read), "")

    def publish_stale(self) -> None:
        """One whose windows were published otherwise since, or are undone: gold stays."""
        result = self.stale.pop(self.draw.randrange(len(self.stale)))
        do = partial(self._publish, result)
        self._do("publish", f"publish {result.run_id}, stale", do, may=None, may_end=False)

    def retract(self) -> None:
        how = self.draw.choice(["where", "where", "file", "run"])
        asked: dict[str, Any]
        rows: dict[int, Row] = self.held.bronze
        if how == "where" or not self.held.read:
            of, part = self.draw.choice([2, 3, 5, 9]), self.draw.randrange(2)
            asked = {"where": f"pmod(id, {of}) = {part}"}
            gone = {one: row for one, row in rows.items() if one % of == part}
        elif how == "file":
            file = self.pick(self.held.read)
            asked, gone = {"file": file}, self._in([file])
        else:
            run = self.pick({*self.held.read.values()})
            files = [file for file, by in self.held.read.items() if by == run]
            asked, gone = {"of_run": run}, self._in(files)
        self._retract(asked, gone)

    def _retract(self, asked: Mapping[str, Any], gone: dict[int, Row]) -> None:
        refused = () if gone else ("RetractionRefused",)
        if self.waits:
            refused = ("UnpublishedChanges",)
        label = f"retract {next(iter(asked.values()))} ({sorted(gone)})"
        # Logs that maintenance has cleaned up name no runs any more, nor do they one of which
        # nothing was accepted when it ran.
        unnamed = "of_run" in asked and (self.vacuumed >= 0 or gone.keys() <= self.replayed)
        may = ("RetractionRefused",) if unnamed else ()
        may += self._may_wait()
        done = self._do(
            "retract", label, lambda: retract_warm(self.spark, self.place, **asked).error,
            refused=refused, may=may, is_done=lambda: not gone.keys() & self._bronze().keys(),
        )  # fmt: skip
        if not done:
            return
        act = self._new_retraction()
        self.retracted[act] = gone
        self.told[-1] += f" is {act}"
        self._acted(act, gone=gone)
        self._began_generations()

    def _in(self, files: Sequence[str]) -> dict[int, Row]:
        ids = {line.id for file in files for line in self.files[file]}
        return {one: row for one, row in self.held.bronze.items() if one in ids}

    def restore(self) -> None:
        """Undo a retraction."""
        act = self.pick(self.retracted)
        back = self.retracted[act]
        names = {row["name"] for row in self.held.bronze.values()} - {None}
        self._restore(act, any(row["name"] in names for row in back.values()))

    def _restore(self, act: str, is_another: bool) -> None:
        """`is_another`: it came again since, or is another in the source."""
        back = self.retracted[act]
        refused = ("RetractionRefused",) if is_another else ()
        if self.waits:
            refused = ("UnpublishedChanges",)
        done = self._do(
            "restore", f"undo {act} ({sorted(back)})",
            lambda: retract_warm(self.spark, self.place, undo=act).error,
            refused=refused, may=self._may_wait(),
            is_done=lambda: back.keys() <= self._bronze().keys(),
        )  # fmt: skip
        if done:
            del self.retracted[act]
            self._acted(act, came=back)
            self._began_generations()

    def rewind(self) -> None:
        if not self.runs:
            return
        run = self.pick(self.runs)
        past = self._kept(self.runs[run])
        again = [file for file in self.held.read if file not in past.held.read]
        asked: dict[str, Any] = {}
        left = frozenset[str]()
        if again and self.leaves_files_out and self.draw.random() < 0.3:
            left = frozenset({self.pick(again)})
            asked = {"without": (*left,), "reason": "wrong"}
        label = f"rewind to {run}{f' without {[*left]}' if left else ''}"
        do = partial(self._rewind, to_run=run, **asked)
        since = [act for act in self.acts[past.acts :] if not act.is_kept(past.held)]
        if self._do_rewind(label, do, past, self._is_odd(since)):
            # Stays left out, whether a run has passed it over yet or not.
            still = self.held.left_out - past.held.read.keys()
            self._go_back(past, still | left)

    def undo_rewind(self) -> None:
        rewind = self.pick(self.rewinds)
        past = self.rewinds[rewind]
        do = partial(self._rewind, undo=rewind)
        if self._do_rewind(f"undo {rewind}", do, past, self._is_odd(self.acts[past.acts :])):
            # What a rewind since was to go on without, it still is.
            still = self.held.left_out - past.held.read.keys()
            self._go_back(past, past.held.left_out | still)

    def _rewind(self, **asked: Any) -> RunError | None:
        result = rewind_warm(self.spark, self.place, **asked)
        if result.error is None and result.refused:
            return RunError.of(TidemarkError("; ".join(result.refused)))
        return result.error

    def _do_rewind(
        self, label: str, do: Callable[[], RunError | None], past: Past, is_odd: bool
    ) -> bool:
        refused = ("RewindRefused",) if is_odd else ()
        may = ("RewindRefused",) if past.step <= self.vacuumed else ()
        before = self._past()

        def is_done() -> bool:
            return self._bronze() == past.held.bronze and self._rejects() == Counter(
                past.held.rejects.items()
            )

        if not self._do("rewind", label, do, refused=refused, may=may, is_done=is_done):
            return False
        known, upkeep = self.rewinds.keys(), self.place.places.upkeep
        # One that took nothing back, and was ended before it began, has left no record.
        has_record = DeltaTable.is_deltatable(upkeep)
        rows = self.place.table(upkeep).to_pylist() if has_record else []
        new = [row["rewind"]["id"] for row in rows
               if row["kind"] == "rewind" and row["rewind"]["id"] not in known]  # fmt: skip
        for one in new:
            self.rewinds[one] = before
            self.told[-1] += f" is {one}"
        return True

    def _acted(
        self,
        name: str,
        gone: Mapping[int, Row] | None = None,
        came: Mapping[int, Row] | None = None,
        of_rejects: bool = False,
        of_next_batch: bool = False,
    ) -> None:
        """`of_next_batch`: it goes wherever that goes."""
        held = self.held
        rejects_batch = held.rejects_batch if of_rejects else None
        batch = self.batches + 1 if of_next_batch else held.bronze_batch
        act = Act(name, gone or {}, came or {}, batch, rejects_batch)
        self.acts.append(act)
        act.redo(held)

    def _go_back(self, past: Past, left_out: frozenset[str]) -> None:
        self.held = deepcopy(past.held)
        self.held.left_out = left_out
        self.runs = dict(past.runs)
        self._began_generations()

    def _kept(self, past: Past) -> Past:
        """With the acts since that no batch was behind."""
        held = deepcopy(past.held)
        for act in self.acts[past.acts :]:
            if act.is_kept(past.held):
                act.redo(held)
        return replace(past, held=held)

    @staticmethod
    def _is_odd(since: Sequence[Act]) -> bool:
        """Was anything retracted or replayed that was not taken back?"""
        return any(number % 2 for number in Counter(act.name for act in since).values())

    def replay_mended(self) -> None:
        bad = [one for one, why in self.held.rejects.items() if why != LEFT_OUT]
        if not bad:
            return
        chosen = self.draw.sample(bad, self.draw.randint(1, min(3, len(bad))))
        lines = {line.id: line for of_file in self.files.values() for line in of_file}
        by_line = self._reject_ids()
        good = {one: {**lines[int(one)].row, "name": None} for one in chosen}
        texts = [{"id": by_line[int(one)], "raw": {**row, "at": row["at"].isoformat()}}
                 for one, row in good.items()]  # fmt: skip
        file = mended(self.place, *texts)
        asked = {"mended": file}
        self._replay(f"replay mended {sorted(good)}", asked, {int(k): v for k, v in good.items()})

    def replay_again(self) -> None:
        twins = [int(one) for one, why in self.held.rejects.items() if why == DUPLICATE]
        lines = {line.id: line for of_file in self.files.values() for line in of_file}
        rows = [lines[one].row for one in twins]
        accepted, _ = judged(rows, self.held.bronze)
        asked: dict[str, Any] = {"again": True}
        if self.draw.random() < 0.5:
            asked["of"] = DUPLICATE
        self._replay(f"replay again {sorted(accepted)}", asked, accepted)

    def _replay(self, label: str, asked: Mapping[str, Any], accepted: dict[int, Row]) -> None:
        done = self._do(
            "replay", label, lambda: replay_warm(self.spark, self.place, **asked).error,
            is_done=lambda: bool(accepted) and accepted.keys() <= self._bronze().keys(),
        )  # fmt: skip
        if not done or not accepted:
            return
        self.replayed |= accepted.keys()
        self._acted(f"replay {len(self.acts)}", came=accepted, of_rejects=True)
        self._shows(self.place.known())

    def rebuild(self) -> None:
        from tidemark.streaming.jobs.act import JobAct
        from tidemark.streaming.jobs.migrate import migrate_once

        asked = MigrationRequest(pipeline=self.place.name, table=TABLE, rebuild=True)
        run = f"rebuild-{len(self.told)}"

        def do() -> RunError | None:
            of_run, now = self.place.run(run, trigger="migration"), datetime.now(UTC)
            act = JobAct(of_run, asked, quiet(), now, session=lambda *_: self.spark)
            return migrate_once(act).error

        self._do("rebuild", "rebuild", do)
        self._began_generations()

    def backfill(self) -> None:
        """All that is closed."""
        operator = self.place.kind.operator
        end = operator.first_open_start(close_ms(self.place))
        start = DAY - timedelta(days=2)
        # Nothing is closed; gold does not stand for all of bronze.
        may = ("BackfillRefused", *self._may_wait())
        self._do(
            "backfill", "backfill",
            lambda: backfill_warm(self.spark, self.place, start, end, table=TABLE).error, may=may,
        )  # fmt: skip

    def audit(self) -> None:
        if self.all_shown:
            self.told.append("audit")
            assert audit(self.spark, self.place).outcome == "equal"

    def maintain(self) -> None:
        at_once = self.draw.random() < 0.5
        keep = AT_ONCE if at_once else PACKING
        settings = self.place.settings.model_copy(update={"maintenance": keep})

        def do() -> RunError | None:
            maintain_pipeline(self.place.pipeline, settings, "maintenance", datetime.now(UTC))
            return None

        self._do("maintain", f"maintain{' at once' if at_once else ''}", do)
        if at_once:
            self.vacuumed = self.step

    # Their parts.

    def _run(self, run: str, scheduled: datetime) -> RunError | None:
        return run_warm(self.spark, self.place, run, scheduled=scheduled).error

    def _publish(self, result: RunResult) -> RunError | None:
        uri = self.place.places.result(result.run_id)
        return publish_and_record(self.place.pipeline, result, uri, self.place.settings).error

    def _scheduled(self) -> datetime:
        """Now and then long behind the last rows, so that what is idle is sealed."""
        idle = timedelta(hours=3 if self.draw.random() < 0.15 else 0)
        return DAY + self.minutes * MINUTE + idle

    def _others_change(self) -> None:
        """Lookups, and the other side of a join: what a run is the first to show."""
        if self.draw.random() < 0.6 or not self.runs:
            self.place.change_lookups()
        if self.place.kind.joins:
            draw = self.draw
            new = [of(max(0.0, self.minutes - draw.uniform(0, 40)), draw.choice("ab"))
                   for _ in range(draw.randint(0, 4))]  # fmt: skip
            self.place.land_rows("unused.txt", new)
            self.others += new

    def _ingested(self, run: str) -> None:
        """By a batch of all files that were not read yet."""
        held, rows = self.held, list[Row]()
        before = len(held.rejects)
        if held.read.keys() == self.files.keys():
            return
        for file, lines in self.files.items():
            if file in held.read:
                continue
            held.read[file] = run
            if file in held.left_out:
                held.rejects[file] = LEFT_OUT
                continue
            rows += [line.row for line in lines if line.good]
            held.rejects |= {line.id: MALFORMED for line in lines if not line.good}
        accepted, twins = judged(rows, held.bronze)
        held.bronze |= accepted
        held.rejects |= dict.fromkeys(twins, DUPLICATE)
        self.batches += 1
        held.bronze_batch = self.batches if accepted else held.bronze_batch
        rejects = len(held.rejects) > before or not accepted
        held.rejects_batch = self.batches if rejects else held.rejects_batch

    def _past(self) -> Past:
        return Past(deepcopy(self.held), dict(self.runs), len(self.acts), self.step)

    def _note_run(self, run: str) -> None:
        self.runs[run] = self._past()

    def _shows_all(self) -> None:
        self.all_shown, self.shown, self.may_wait, self.waits = True, None, False, False

    def _may_wait(self) -> tuple[str, ...]:
        return ("UnpublishedChanges",) if self.may_wait or not self.all_shown else ()

    def _shows(self, shown: Known) -> None:
        self.all_shown, self.shown = False, shown

    def _began_generations(self) -> None:
        """Each table is computed from all of bronze."""
        self._shows_all()
        self.stale += [result for result, _ in self.waiting]
        self.waiting.clear()

    def _do(
        self,
        kind: str,
        label: str,
        do: Callable[[], RunError | None],
        refused: Sequence[str] = (),
        may: Sequence[str] | None = (),
        may_end: bool = True,
        is_done: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Was it done? It has to be refused by one of the errors `refused`, where there are any,
        and may be by those of `may` (None: by any of ours); then nothing is another."""
        self.told.append(label)
        ended = may_end and self.draw.random() < ENDED
        when: Literal["before", "after"] = self.draw.choice(["before", "after"])
        point, time = self.draw.choice(POINTS[kind]), self.draw.choice([1, 1, 1, 2])
        if ended:
            with killed(when, point, time):
                error = caught(do)
            if error is not None and "Killed" in f"{error.type} {error.message}":
                self.told[-1] += f", ended {when} {point} ({time})"
                for query in self.spark.streams.active:
                    query.stop()
                error = self._finish(kind, do, is_done)
        else:
            error = caught(do)
        if refused:
            if error is None or error.type not in (*refused, *(may or ())):
                raise Unexpected(f"{label} was to be refused by {refused}: {error}")
            self.told[-1] += f", refused ({error.type})"
            return False
        if error is not None and (may is None or error.type in may):
            self.told[-1] += f", refused ({error.type}: {error.message[:100]})"
            return False
        if error is not None:
            raise Unexpected(f"{label}: {error.type}: {error.message}")
        return True

    def _finish(
        self, kind: str, do: Callable[[], RunError | None], is_done: Callable[[], bool]
    ) -> RunError | None:
        """As a user does: by the command that the pipeline names, or by the same once more."""
        act = unfinished_act(self.place.warehouse)
        finished: RunError | None = None
        if act is not None:
            self.told[-1] += ", finished"
            if act.kind is ActKind.RETRACTION:
                finished = retract_warm(self.spark, self.place).error
            elif act.kind is ActKind.REPLAY:
                finished = replay_warm(self.spark, self.place).error
            elif act.kind is ActKind.REWIND:
                finished = rewind_warm(self.spark, self.place).error
            else:
                return caught(do)
            return finished
        if is_done():
            return None
        self.told[-1] += ", repeated"
        return caught(do)

    # What is found.

    def check(self) -> None:
        """All tables hold the model's rows, each once; gold is the batch over them; the ledger's
        equation holds, also by hand."""
        assert unfinished_act(self.place.warehouse) is None
        held = self.held
        assert self._bronze() == held.bronze
        assert self._rejects() == Counter(held.rejects.items())
        found = {act: {*rows} for act, rows in self._retracted().items()}
        assert self._of_persons(found) == {act: {*rows} for act, rows in self.retracted.items()}
        assert self._replayed() == Counter(self.replayed)
        if not self.all_shown:
            assert self.place.known() == self.shown
        elif self.runs:
            check_gold(self.place, [*held.bronze.values(), *self.others])
        self._check_ledger()

    def _check_ledger(self) -> None:
        place, held = self.place, self.held
        check_ledger(place.warehouse.ledger, place.name)
        lines = [row for row in place.table(place.places.ledger).to_pylist()
                 if row["rewound"] is None and row["kind"] == "ingest"]  # fmt: skip
        landed = self._landed()
        retracted = sum(map(len, self._retracted().values()))
        assert landed == len(held.bronze) + len(held.rejects) + retracted
        sums = [sum(row[name] for row in lines) for name in ("read", "accepted", "rejected")]
        came = len(self.replayed)
        assert sums == [
            landed,
            len(held.bronze) + retracted - came,
            len(held.rejects) + came,
        ]
        source = Ledgered(
            place.pipeline, place.warehouse, seeds_of(place.pipeline, place.warehouse)
        )
        rebuilt = rebuilt_lines(source)
        check_balance(place.name, rebuilt, "")
        of_ingest = [line for line in rebuilt if line.kind == "ingest"]
        assert sums[1:] == [
            sum(line.accepted or 0 for line in of_ingest),
            sum(line.rejected or 0 for line in of_ingest),
        ]

    def _landed(self) -> int:
        """How many lines were read; a file that was passed over stands for one."""
        held = self.held
        passed = {file for file, why in held.rejects.items() if why == LEFT_OUT}
        return sum(1 if file in passed else len(self.files[file]) for file in held.read)

    def _bronze(self) -> dict[int, Row]:
        rows = self.place.bronze().select(["id", "at", "key", "amount", "name"]).to_pylist()
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows), "a row stands twice in bronze"
        return found

    def _rejects(self) -> Counter[tuple[Mark, str]]:
        return Counter((self._mark(row), row["reason"]) for row in self.place.rejects().to_pylist())

    def _mark(self, reject: Mapping[str, Any]) -> Mark:
        if reject["reason"] == LEFT_OUT:
            return Path(unquote(reject["_file"])).name
        found = _ID.search(reject["raw"])
        assert found is not None, reject
        return int(found[1])

    def _reject_ids(self) -> dict[int, str]:
        rows = self.place.rejects().to_pylist()
        return {mark: row["id"] for row in rows if isinstance(mark := self._mark(row), int)}

    def _retracted(self) -> dict[str, list[int]]:
        uri = self.place.places.retracted
        found: dict[str, list[int]] = {}
        for row in self.place.table(uri).to_pylist() if DeltaTable.is_deltatable(uri) else ():
            found.setdefault(row["_retraction"], []).append(row["id"])
        assert all(len(rows) == len({*rows}) for rows in found.values())
        return found

    def _replayed(self) -> Counter[int]:
        uri = self.place.places.replayed
        rows = self.place.table(uri).to_pylist() if DeltaTable.is_deltatable(uri) else []
        return Counter(int(self._mark(row)) for row in rows)

    def _of_persons(self, acts: dict[str, set[int]]) -> dict[str, set[int]]:
        return acts

    def _new_retraction(self) -> str:
        (act,) = (
            self._of_persons({act: {*rows} for act, rows in self._retracted().items()}).keys()
            - self.retracted.keys()
        )
        return act


def caught(do: Callable[[], RunError | None]) -> RunError | None:
    """What an act comes to; what it raises, as a job would report it."""
    try:
        return do()
    except (TidemarkError, Killed) as error:
        return RunError.of(error)


def judged(rows: Sequence[Row], bronze: Mapping[int, Row]) -> tuple[dict[int, Row], list[int]]:
    """Which rows of a batch are accepted beside bronze, and which repeat another by their name."""
    names = {row["name"] for row in bronze.values()}
    accepted, twins = {}, []
    for row in sorted(rows, key=lambda one: one["at"]):
        if row["name"] is not None and row["name"] in names:
            twins.append(row["id"])
        else:
            names.add(row["name"])
            accepted[row["id"]] = row
    return accepted, twins
