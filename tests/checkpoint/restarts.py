"""Restart a query on a checkpoint, with a few new rows, and tell what the engine did."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.checkpoint.archives import land, usual_rows
from tests.checkpoint.make_checkpoints import KINDS, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# Three rows of the window that is still open, and one that closes it.
NEW_FILE = 4
NEW_ROWS = [
    {"at": f"2026-07-01T10:{minute}:00", "key": f"k{number % 3}", "amount": 100}
    for number, minute in enumerate((36, 37, 38, 59))
]
LENGTH = timedelta(minutes=10)
# Long enough for two batches; a restart that waits for ever is told as such.
TIMEOUT = 60
_CONDITION = re.compile(r"\[([A-Z0-9_.]{8,})\]")
_SHOWN = 110

# The session may be one of the platform's, which has changelogs.
_AS_MADE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
}
Window = tuple[str, str]
Value = tuple[int, int]


@dataclass(frozen=True)
class Restart:
    """`ends`: stops, or goes on. `said`: the error's condition, or its class and message.
    `batches`: those that ran. `result`: right, or how it differs from a batch over the source."""

    ends: str
    said: str = ""
    batches: tuple[int, ...] = ()
    result: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"batches": list(self.batches)}


def restart(spark: SparkSession, checkpoint: Path, kind: str) -> Restart:
    """One run of the checkpoint's query, with a new file, to its end."""
    land(checkpoint.parent / "input", NEW_FILE, NEW_ROWS)
    session = spark.newSession()
    for name, value in (_AS_MADE | KINDS[kind].conf).items():
        session.conf.set(name, value)
    told: dict[int, list[Row]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        told[number] = batch.collect()

    query = KINDS[kind].query(Place(session, checkpoint.parent))
    writer = query.writeStream.outputMode(KINDS[kind].mode).foreachBatch(keep)
    started = None
    try:
        started = (
            writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )
        if not started.awaitTermination(TIMEOUT):
            started.stop()
            return Restart("does not end", batches=tuple(sorted(told)))
    except Exception as error:  # noqa: BLE001 - whatever the engine says is the answer
        return Restart("stops", _said(started, error, checkpoint.parent), tuple(sorted(told)))
    return Restart("goes on", "", tuple(sorted(told)), _result(told, checkpoint.parent))


def _result(told: dict[int, list[Row]], folder: Path) -> str:
    """Compare the last value of each window that was emitted with a batch over all files."""
    emitted: dict[Window, Value] = {}
    for number in sorted(told):
        for row in told[number]:
            # Rows come in the zone of this process.
            start = row["window"]["start"].astimezone(UTC)
            emitted[start.isoformat(), row["key"]] = (row["rows"], row["amount"])
    right = _truth(folder)
    touched = {(_window(row["at"]), str(row["key"])) for row in NEW_ROWS[:3]}
    wrong = [one for one in touched | emitted.keys() if emitted.get(one) != right.get(one)]
    if not emitted:
        return "wrong: nothing is emitted"
    return f"wrong: {len(wrong)} of {len(touched | emitted.keys())} windows" if wrong else "right"


def _truth(folder: Path) -> dict[Window, Value]:
    sums: dict[Window, Value] = defaultdict(lambda: (0, 0))
    for number in range(NEW_FILE + 1):
        for row in _rows(folder / "input" / f"{number}.json"):
            window = (_window(row["at"]), row["key"])
            rows, amount = sums[window]
            sums[window] = (rows + 1, amount + row["amount"])
    return sums


def _rows(file: Path) -> list[dict[str, Any]]:
    """What a file holds; what it held, where it is gone."""
    if not file.exists():
        return usual_rows(int(file.stem))
    return [json.loads(line) for line in file.read_text().splitlines()]


def _window(at: object) -> str:
    instant = datetime.fromisoformat(f"{at}+00:00")
    return (instant - (instant - datetime.min.replace(tzinfo=UTC)) % LENGTH).isoformat()


def _said(started: Any, error: Any, folder: Path) -> str:
    """The deepest error condition; where there is none, the root's class and first line."""
    cause = started._jsq.exception() if started is not None else None
    if cause is not None and cause.isDefined():
        failure = cause.get()
    else:
        # Not started: what the call itself threw.
        failure = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = failure.toString() + "\n" + _causes(failure) if failure is not None else str(error)
    named = _CONDITION.findall(text)
    inner = [name for name in named if name != "STREAM_FAILED"]
    return inner[-1] if inner else _short(_last_cause(text), folder)


def _causes(failure: Any) -> str:
    """The causes below a failure, a line each; foreachBatch has those of its batch as text."""
    lines = []
    while failure.getCause() is not None:
        failure = failure.getCause()
        lines.append(f"Caused by: {failure.toString()}")
    return "\n".join(lines)


def _last_cause(text: str) -> str:
    found = re.findall(r"^Caused by: (?:\w+\.)*(\w+(?:: .*)?)$", text, re.MULTILINE)
    return str(found[-1]) if found else re.sub(r"^(?:\w+\.)+(?=\w+:)", "", text)


def _short(text: str, folder: Path) -> str:
    """One line without what differs from run to run."""
    line = text.split("\n")[0].replace(f"file:{folder}", "").replace(str(folder), "")
    line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", line)
    line = re.sub(r"@[0-9a-f]{4,}", "", line)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
