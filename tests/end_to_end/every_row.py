"""What has to hold after every published run, whatever arrived in it and before.

What is expected is worked out here in plain Python, or by DuckDB over a join with all windows:
with nothing of the product's own arithmetic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.end_to_end.random_cases import DAY, OneRun
from tests.kit.late_model import EPOCH, MILLISECOND, late_counts
from tests.kit.running import Place, query
from tidemark.pipeline.model import WindowTable
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.notes import IngestNote, note_of

# The columns of the ledger that the model knows, in its order.
COUNTS = (
    "assigned",
    "late_rows",
    "partly_late_rows",
    "late_assigned",
    "late_windows",
)


@dataclass
class Landed:
    """What was landed so far, line by line, and the frontiers before each run."""

    place: Place
    lines: list[str] = field(default_factory=list)
    close_before: dict[str, dict[str, int]] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    held: dict[int, RunResult] = field(default_factory=dict)

    def run(self, number: int, run: OneRun, succeed: Callable[..., Any]) -> None:
        """Land the run's files, and call `succeed` with what the run is."""
        (self.place.root / "landing").mkdir(exist_ok=True)
        for at, lines in enumerate(run.files):
            self.place.land(f"{number:03}-{at:02}.json", lines)
            self.lines += lines
        self.close_before[f"run-{number}"] = {
            name: close_ms(self.place, name) for name in tables(self)
        }
        result = succeed(self.place, f"run-{number}", run.hold, run.scheduled)
        self.held[number] = result

    def publish(self, number: int) -> None:
        """Publish what a held run pinned, long after it; a refusal is right as well."""
        place = self.place
        uri = place.places.result(f"run-{number}")
        published = publish_and_record(place.pipeline, self.held[number], uri, place.settings)
        assert published.error is None or published.error.type == "NotPublishable"

    def check(self, number: int, dropped: Mapping[tuple[str, int], int]) -> None:
        """All that has to hold after a published run; `dropped` is the engine's own count."""
        check_rows_are_in_one_place(self)
        for name, table in tables(self).items():
            check_gold(self, f"run-{number}", name, table)
            check_recomputed_rows_differ(self, name, table)
        check_ledger(self, dropped)


def tables(landed: Landed) -> Mapping[str, WindowTable]:
    return landed.place.pipeline.tables


def close_ms(place: Place, table: str) -> int:
    """The frontier that gold holds; 0 where there is no gold yet."""
    if not Path(place.places.gold(table)).exists():
        return 0
    return DeltaTable(place.places.gold(table)).transaction_version("close") or 0


def expected_windows(place: Place, table: WindowTable) -> list[tuple[Any, ...]]:
    """DuckDB's aggregate over bronze: every row joined with every window that could hold it."""
    length, slide = (f"INTERVAL {part // MILLISECOND} MILLISECONDS" for part in _parts(table))
    keys = "".join(f", {key}" for key in table.group_by)
    # Windows start at multiples of the slide since 1970; two hours more than any row needs.
    slide_ms = table.window.slide // MILLISECOND
    first = (DAY - EPOCH - timedelta(hours=6)) // MILLISECOND // slide_ms * slide_ms
    return query(
        f"""
        WITH starts AS (
            SELECT unnest(generate_series(
                make_timestamptz({first} * 1000), make_timestamptz({first} * 1000)
                + INTERVAL 24 HOURS, {slide})) AS s)
        SELECT s, s + {length} {keys}, count(*), sum(amount)::BIGINT, max(amount), count(*)
        FROM bronze JOIN starts ON s <= "at" AND "at" < s + {length}
        GROUP BY ALL ORDER BY ALL
        """,
        bronze=place.bronze(),
    )


def gold_windows(place: Place, name: str, table: WindowTable) -> list[tuple[Any, ...]]:
    keys = "".join(f", {key}" for key in table.group_by)
    columns = f"window_start, window_end {keys}, events, amount, biggest, rows"
    return query(f"SELECT {columns} FROM gold ORDER BY ALL", gold=place.gold(name))


def check_rows_are_in_one_place(landed: Landed) -> None:
    accepted = landed.place.bronze().column("n").to_pylist()
    rejected = landed.place.rejects().column("raw").to_pylist()
    by_number = {row["n"]: line for line in landed.lines if (row := _row(line))}
    found = Counter([by_number[n] for n in accepted] + rejected)
    assert found == Counter(landed.lines)


def _row(line: str) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return row


def check_gold(landed: Landed, run_id: str, name: str, table: WindowTable) -> None:
    place, close = landed.place, close_ms(landed.place, name)
    assert close >= landed.close_before[run_id][name]
    frontier = EPOCH + close * MILLISECOND
    expected, gold = expected_windows(place, table), gold_windows(place, name, table)
    if table.output_mode == "append":
        assert all(row[1] <= frontier for row in gold), name
        expected = [row for row in expected if row[1] <= frontier]
    assert gold == expected, (name, run_id, frontier)
    for row in place.gold(name).to_pylist():
        open_still = row["window_end"] > frontier
        assert (row["status"] == "provisional") == open_still, row
        assert (row["status"] == "corrected") == (row["revision"] > 0), row
        before = landed.revisions.get(_key(name, table, row), 0)
        assert row["revision"] >= before
        landed.revisions[_key(name, table, row)] = row["revision"]


def _key(name: str, table: WindowTable, row: Mapping[str, Any]) -> str:
    return repr((name, row["window_start"], *(row[key] for key in table.group_by)))


def check_recomputed_rows_differ(landed: Landed, name: str, table: WindowTable) -> None:
    """A row of cause late or seal has another value than the row of its window before."""
    changes = DeltaTable(landed.place.places.changes(name, 1))
    history = pa.table(changes.load_cdf(starting_version=0)).to_pylist()
    before: dict[str, tuple[Any, ...]] = {}
    for row in sorted(history, key=lambda row: row["_commit_version"]):
        key = _key(name, table, row)
        value = (row["events"], row["amount"], row["biggest"], row["rows"])
        if row["cause"] != "stream":
            assert before.get(key) != value, row
        before[key] = value


def check_ledger(landed: Landed, dropped: Mapping[tuple[str, int], int]) -> None:
    place = landed.place
    lines = place.table(place.places.ledger).to_pylist()
    assert [line for line in lines if line["balanced"] is False] == []
    ingested = [line for line in lines if line["kind"] == "ingest"]
    reasons: Counter[str] = sum((Counter(json.loads(x["reasons"])) for x in ingested), Counter())
    assert sum(line["read"] for line in ingested) == len(landed.lines)
    assert sum(line["accepted"] for line in ingested) == place.bronze().num_rows
    assert reasons == Counter(place.rejects().column("reason").to_pylist())
    for name, table in tables(landed).items():
        streamed = [x for x in lines if (x["kind"], x["table"]) == ("stream", name)]
        found = {line["batch"]: tuple(line[n] for n in COUNTS) for line in streamed}
        frontiers = {x["batch"]: landed.close_before[x["run"]][name] for x in streamed}
        model = dict(model_of_batches(place, name, table, frontiers))
        assert found == model, (name, found, model)
        assert len(streamed) == len(found)
        is_sealed = place.pipeline.watermark.seal_after_idle is not None
        if not is_sealed and table.output_mode != "complete":
            groups = {batch: counts[-1] for batch, counts in found.items()}
            engine = {batch: dropped[name, batch] for batch in found}
            assert groups == engine, (name, groups, engine)


def model_of_batches(
    place: Place, name: str, table: WindowTable, close_before: Mapping[int, int]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """What the rule says of each batch: of its rows one by one, of each row window by window."""
    folder = Path(place.places.query_checkpoint(name, 1)) / "offsets"
    offsets = {int(p.name): p.read_text().splitlines() for p in folder.iterdir() if _is_batch(p)}
    start, watermark = 0, 0
    versions = _versions_of_ingest_batches(place)
    for batch in sorted(offsets):
        _, metadata, source = offsets[batch]
        end = json.loads(source)["reservoirVersion"]
        rows = [row for row in place.bronze().to_pylist() if start <= versions[row["_batch"]] < end]
        if end > start:
            late_ms = max(watermark, close_before[batch])
            yield batch, late_counts(rows, table, late_ms).numbers
        start, watermark = end, json.loads(metadata)["batchWatermarkMs"]


def _versions_of_ingest_batches(place: Place) -> dict[int, int]:
    return {
        note.batch: commit["version"]
        for commit in DeltaTable(place.places.bronze).history()
        if isinstance(note := note_of(commit), IngestNote)
    }


def _is_batch(path: Path) -> bool:
    return path.name.isdecimal()


def _parts(table: WindowTable) -> tuple[timedelta, timedelta]:
    return table.window.length, table.window.slide
