"""Make the warehouse of a former version, and pack it: two pipelines below one root.

`clicks` has a table of each output mode; two runs are published, the third is held. `killed` has
one table; two runs are published, the third died with its accepted rows in bronze, its rejected
rows nowhere, its batch planned and not committed, its lease not given back.

Written for the layout of commit 4850152, and run there: its imports are those of that commit. In a
checkout of it that is set up, with this file copied to the same place:

    . .tidemark/env && PYTHONPATH=include:. python tests/end_to_end/make_former_warehouse.py ARCHIVE
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark.tables.results.result import RunResult
from tidemark.tables.results.result_file import read_result

from tests.end_to_end.killed_runs import AT, KILLED_JOB
from tests.kit.patience import HUNG_SECONDS
from tests.runs import Place, start_job

# Checkpoints and tables hold absolute paths of landed files: the root is the same everywhere.
ROOT = Path("/tmp/tidemark-former-warehouse")
KEYS = ("a", "B", None)

MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
UPDATED: dict[str, Any] = {
    "window": {"length": "10 minutes", "slide": "5 minutes"},
    "group_by": ["team"],
    "measures": dict(MEASURES),
}
APPENDED = {
    "window": {"length": "10 minutes"},
    "group_by": ["team", "key"],
    "measures": dict(MEASURES),
    "output_mode": "append",
}
COMPLETED = {
    "window": {"length": "30 minutes"},
    "group_by": ["team"],
    "measures": dict(MEASURES),
    "output_mode": "complete",
    "accept_unbounded_state": True,
}


def content(name: str, **tables: Any) -> dict[str, Any]:
    columns = {"at": "timestamp", "key": "string", "amount": "long", "id": "string"}
    return {
        "source": {
            "files": f"landing/{name}/*.json",
            "columns": columns,
            "event_time": {"column": "at"},
            "unique": {"by": "id", "within": "1 day"},
            "derive": {"team": "lower(key)"},
        },
        "watermark": {"delay": "10 minutes", "seal_after_idle": "30 minutes"},
        "tables": tables,
        "advanced": {"shuffle_partitions": 2},
    }


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 7, 1, hour, minute, tzinfo=UTC)


def row(hour: int, minute: int, key: str | None, amount: int | str, of: str) -> dict[str, Any]:
    name = f"{of}-{hour:02}{minute:02}-{key}"
    return {"at": at(hour, minute).isoformat(), "key": key, "amount": amount, "id": name}


# What each run lands: rows on time; from the second run on also late rows (wholly, and for the
# sliding windows partly), lines that are rejected, and a row of an id that is in bronze already.
LANDED: dict[str, list[Any]] = {
    "1": [row(10, m, key, m, "1") for m in range(0, 29, 4) for key in KEYS],
    "2": [
        *(row(10, m, key, m, "2") for m in range(30, 59, 4) for key in KEYS),
        row(10, 1, "a", 100, "late"),
        row(10, 14, "B", 200, "late"),
        row(10, 28, "a", 1_000, "1"),
        '{"at": "2026-07-01T10:5',
        row(10, 59, "a", "many", "wrong"),
    ],
    "3": [
        *(row(11, m, key, m, "3") for m in range(0, 29, 4) for key in (*KEYS, "held")),
        row(10, 2, None, 300, "late"),
        row(10, 33, "held", 400, "late"),
        row(10, 58, "a", 1_000, "2"),
        "not JSON",
    ],
}
SCHEDULED = {"1": at(10, 30), "2": at(11, 0), "3": at(11, 30)}


def land(place: Place, number: str) -> None:
    """The file's time is that of its run: the engine keeps it, and a later run compares."""
    file = place.land(f"{number}.json", LANDED[number], f"landing/{place.name}")
    seconds = int(SCHEDULED[number].timestamp())
    os.utime(file, (seconds, seconds))


def run(place: Place, number: str, *arguments: str) -> int:
    """A run as a job, which takes its lease as a process of another machine would."""
    land(place, number)
    run_id = f"{place.name}-{number}"
    told = ("--elsewhere", "--scheduled-time", SCHEDULED[number].isoformat())
    target = ("--result", place.places.result(run_id))
    job = start_job(place, run_id, KILLED_JOB, (*told, *target, *arguments))
    output, _ = job.communicate(timeout=HUNG_SECONDS)
    print(run_id, "ended with", job.returncode)
    if job.returncode not in (0, -signal.SIGKILL):
        sys.exit(output)
    return job.returncode


def make() -> None:
    shutil.rmtree(ROOT, ignore_errors=True)
    clicks = Place(ROOT, content("clicks", updated=UPDATED, appended=APPENDED, completed=COMPLETED))
    run(clicks, "1")
    run(clicks, "2")
    run(clicks, "3", "--hold")
    held = read_result(RunResult, clicks.places.result("clicks-3"), {})
    assert held.held
    assert held.outcome == "succeeded"
    killed = Place(ROOT, content("killed", updated=UPDATED), "killed")
    run(killed, "1")
    run(killed, "2")
    code = run(killed, "3", "--kill", "before", AT["rejected rows"], "1")
    assert code == -signal.SIGKILL


def pack(archive: Path) -> None:
    """Pack the root. The same files give the same bytes; times are kept, in whole seconds."""
    with (
        archive.open("wb") as out,
        gzip.GzipFile("", "wb", 9, out, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for file in sorted(path for path in ROOT.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(ROOT)))
            entry.size, entry.mtime = file.stat().st_size, int(file.stat().st_mtime)
            with file.open("rb") as content_of:
                tar.addfile(entry, content_of)


if __name__ == "__main__":
    make()
    pack(Path(sys.argv[1]))
    shutil.rmtree(ROOT)
