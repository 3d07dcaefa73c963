"""A pipeline of many runs, for charts: rows that come late, rejects by reason, windows by key."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from tests.kit.running import Place, clicks
from tests.kit.windows import millis, window
from tests.page.world import accepted
from tests.runs.pipelines import TABLE, begun, checked
from tidemark.gold.pins import Late
from tidemark.ledger.ledger import INGEST, LedgerLine, write_ledger
from tidemark.runs.recorded_runs import record_run
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.rows import Rows

STEP, DELAY = timedelta(minutes=10), timedelta(minutes=20)
KEYS = ("AT", "DE", "FR", "IT", "ES", "NL", "<script>alert('x')</script>", "PL")
_REASONS = ("malformed", "duplicate", "wrong type")


def make_busy(root: Path, first: datetime, runs: int = 48) -> Place:
    """A pipeline `orders`, each of whose runs is ten minutes after the one before; the first stands
    for a time. Every seventh run, about, brings rows that are late."""
    table = clicks()["tables"]["per_10m"] | {"measures": {"total": "sum(amount)"}}
    place = Place(
        root, clicks(description="Orders by country", tables={"per_10m": table}), "orders"
    )
    (root / "landing").mkdir(parents=True)
    place.write_file()
    windows, draw = place.windows(), random.Random(7)
    accepted(place, 0, (first, KEYS[0], 1))
    totals: Counter[tuple[datetime, str]] = Counter()
    closed = before = None
    newest = first
    for number in range(runs):
        begins, run = first + number * STEP, f"scheduled__{first + number * STEP:%Y-%m-%dT%H:%M}"
        stalled = 20 <= number < 23
        newest = begins - timedelta(seconds=draw.randint(20, 200)) if not stalled else newest
        now = [begins - back * STEP for back in (1, 2)]
        changed = {(at, key) for at in now for key in KEYS if draw.random() < 0.9}
        totals.update({name: draw.randint(10, 60 - 6 * KEYS.index(name[1])) for name in changed})
        old = [name for name in totals if closed and name[0] + STEP <= closed][-50:]
        late = (
            set(draw.sample(old, min(len(old), draw.randint(3, 14)))) if number % 7 == 5 else set()
        )
        if not stalled:
            rows = [window(at, key=key, total=totals[at, key], rows=9) for at, key in changed]
            windows.change(*rows, batch=number, run=run)
        if late:
            totals.update({name: draw.randint(1, 9) for name in late})
            rows = [window(at, key=key, total=totals[at, key], rows=9) for at, key in late]
            windows.change(*rows, cause="late", batch=None, run=run)
        watermark = before if stalled and before else newest - DELAY
        closed = watermark
        windows.publish_at(closed, run)
        rejects = {
            one: draw.randint(0, 12 - 4 * at) * (not stalled) for at, one in enumerate(_REASONS)
        }
        good = 0 if stalled else draw.randint(700, 1_100)
        told = TABLE.model_copy(
            update={
                "watermark_before_ms": millis(before) if before else 0,
                "watermark_after_ms": millis(watermark),
                "close_after_ms": millis(closed),
                "late": Late(rows=3 * len(late), corrected=len(late)),
            }
        )
        result = RunResult(
            pipeline=place.name, run_id=run, outcome="succeeded", held=False, trigger="scheduled",
            scheduled_at=begins, started_at=begins, ended_at=begins + timedelta(seconds=31),
            rows=Rows(read=good + sum(rejects.values()), accepted=good, rejected=rejects),
            tables={"per_10m": told},
            newest_event=newest,
            seconds={"session": 6, "ingest": draw.randint(5, 9), "aggregate": draw.randint(9, 14),
                     "repair": 5 if late else 0.1, "ledger": 0.2, "validate": 1, "publish": 2},
        )  # fmt: skip
        record_run(place.warehouse.runs, result)
        line = LedgerLine(
            INGEST, "ingest", number, batch=number, read=result.rows.read, accepted=good,
            rejected=sum(rejects.values()), reasons=rejects,
        )  # fmt: skip
        write_ledger(place.warehouse.ledger, place.name, run, millis(begins), [line], begins)
        before = watermark
    accepted(place, runs, (newest, KEYS[0], 1))
    begun(place)
    checked(place, begins, 2_400_000)
    return place
