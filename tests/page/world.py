"""A root with pipelines as runs leave them, whose rows hold what somebody would want to be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from tests.kit.running import Place, clicks
from tests.kit.windows import at, millis, window
from tests.runs.pipelines import BEGAN, ended, windows_of
from tidemark.ledger.ledger import INGEST, LedgerLine, write_ledger
from tidemark.page.app import Access, Everything, page_app

Shown = Callable[[str], str]
NOW = BEGAN + timedelta(minutes=94)
EVIL = "<script>alert('x')</script>"
LONG = "a" * 100
REASONS = {"malformed": 2, EVIL: 1}
FILLED = {"name": "clicks", "table": "per_10m", "dag": "clicks"}
STORY = '?window=2026-07-01T10:20:00Z&key=["a"]'
_TIME = pa.timestamp("us", "UTC")
_ORIGIN = [
    pa.field("_file", pa.string()),
    pa.field("_place", pa.int64()),
    pa.field("_batch", pa.int64()),
    pa.field("_batch_time", _TIME),
]
_BRONZE = pa.schema(
    [
        pa.field("at", _TIME),
        pa.field("key", pa.string()),
        pa.field("amount", pa.int64()),
        pa.field("_extra", pa.string()),
        *_ORIGIN,
        pa.field("_event_date", pa.date32()),
    ]
)
_REJECTS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("reason", "detail", "raw")),
        pa.field("raw_bytes", pa.binary()),
        pa.field("event_time", _TIME),
        *_ORIGIN,
        pa.field("id", pa.string()),
    ]
)


def make_world(root: Path) -> Place:
    """`clicks`, whose windows were corrected, and which rejected rows; `new`, one with a long name,
    one whose file is broken and one whose table is. That of `clicks` comes back."""
    (root / "landing").mkdir(parents=True, exist_ok=True)
    table = clicks()["tables"]["per_10m"] | {"measures": {"total": "sum(amount)"}}
    place = Place(root, clicks(description=EVIL, tables={"per_10m": table}))
    others = [Place(root, name=name) for name in ("new", LONG, "damaged")]
    for one in (place, *others):
        one.write_file()
    (root / "pipelines" / "broken.yaml").write_text("source: {files: x\ntables: 3\n")
    windows = windows_of(place)
    windows.change(window(at(10, 0), key=EVIL, total=5, rows=2))
    windows.publish(windows.pin(at(10, 40), bronze=0))
    windows.change(window(at(10, 0), key=EVIL, total=8, rows=3), cause="late", run="next")
    windows.change(window(at(10, 50), key=EVIL, total=1, rows=1), run="next")
    windows.publish(windows.pin(at(10, 40)), "next")
    accepted(place, 0, (at(10, 1), EVIL, 2), (at(10, 2), EVIL, 3), (at(10, 21), "a", 1))
    accepted(place, 1, (at(10, 3), EVIL, 3), (at(10, 50), EVIL, 1))
    ended(place)
    ended(place, "next", BEGAN + timedelta(minutes=10))
    rejected(place, 0, ("malformed", "{" + EVIL, 1), ("malformed", "not json", 2))
    rejected(place, 1, (EVIL, EVIL, 3))
    for position, run in enumerate(("run", "next")):
        reasons = dict(list(REASONS.items())[position : position + 1])
        line = LedgerLine(
            INGEST, "ingest", position, batch=position, read=9 + sum(reasons.values()),
            accepted=9, rejected=sum(reasons.values()), reasons=reasons,
        )  # fmt: skip
        write_ledger(place.warehouse.ledger, place.name, run, millis(BEGAN), [line], NOW)
    damaged = others[-1]
    windows_of(damaged)
    ended(damaged)
    (Path(damaged.places.gold("per_10m")) / "_delta_log" / f"{0:020}.json").write_text("{")
    return place


def accepted(place: Place, batch: int, *rows: tuple[datetime, str, int]) -> None:
    """Rows of a batch that were accepted: time, key, amount."""
    shared = {"_file": "landing/b.json", "_batch": batch, "_batch_time": NOW, "_extra": None}
    table = pa.Table.from_pylist(
        [
            shared | {"at": time, "key": key, "amount": amount, "_place": number}
            | {"_event_date": time.date()}
            for number, (time, key, amount) in enumerate(rows)
        ],
        _BRONZE,
    )  # fmt: skip
    write_deltalake(place.places.bronze, table, mode="append", partition_by=["_event_date"])


def rejected(place: Place, batch: int, *rows: tuple[str, str, int]) -> None:
    """Rows of a batch that were rejected: reason, line, where the line is."""
    table = pa.Table.from_pylist(
        [
            {
                "reason": reason, "detail": f"found {line}", "raw": line, "_file": "landing/a.json",
                "_place": at_, "_batch": batch, "_batch_time": NOW, "id": f"{batch}-{at_}",
            }
            for reason, line, at_ in rows
        ],
        _REJECTS,
    )  # fmt: skip
    write_deltalake(place.places.rejects, table, mode="append")


def app_for(place: Place, access: Access | None = None) -> FastAPI:
    """The page of a root, for somebody."""
    let = access or Everything()
    return page_app(lambda: place.settings, lambda: let, lambda: NOW)


def addresses(routes: list[BaseRoute]) -> Iterator[str]:
    """An address of each route; what is mounted would have a door of its own."""
    for route in routes:
        assert isinstance(route, Route), route
        of_files = {"name": "page.css"} if route.path.startswith("/static") else {}
        yield route.path.format(**FILLED | of_files) + (STORY if "story" in route.path else "")
