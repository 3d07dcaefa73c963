"""What must be equal after a killed run and another, and what must not be there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from tests.end_to_end.killed_input import DELAY_MS, KEYS, TABLES
from tests.kit.running import Place, query, sorted_rows
from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.delta.notes import RejectsDroppedNote, note_of
from tidemark.storage.delta.place import TablePlace

Facts = dict[str, Any]


def versions(place: Place) -> dict[str, int]:
    """The version of each table that there is, by its place below the pipeline's folder."""
    places = place.places
    uris = {"bronze": places.bronze, "rejects": places.rejects}
    for name in TABLES:
        uris |= {f"{name}/changes": places.changes(name, 1), f"{name}/gold": places.gold(name)}
    uris |= {"ops/ledger": places.ledger, "ops/runs": places.runs}
    uris |= {"ops/batches": places.batches, "ops/upkeep": places.upkeep}
    uris |= {"ops/quality": places.quality}
    return {
        name: table.version() for name, uri in uris.items() if (table := TablePlace(uri).open())
    }


def facts_of(place: Place) -> Facts:
    """All that must be equal, without what a kill may change: who published a window, which
    batch read a row. Checks on the way that nothing is there twice and the ledger balances."""
    assert_nothing_is_there_twice(place)
    assert_the_ledger_balances(place)
    assert_watermarks_never_go_back(place)
    batch = ("_batch", "_batch_time")
    facts: Facts = {name: sorted_rows(place.gold(name), ("updated_by",)) for name in TABLES}
    facts |= {name: sorted_rows(getattr(place, name)(), batch) for name in ("bronze", "rejects")}
    return facts | {"ledger": ledger_totals(place), "frontiers": frontiers(place)}


def frontiers(place: Place) -> dict[str, tuple[int, int]]:
    """The watermark and the close frontier of each table, in milliseconds."""
    return {
        name: (
            _checkpoint(place, name).next_watermark_ms(
                _checkpoint(place, name).batches("commits")[-1]
            ),
            DeltaTable(place.places.gold(name)).transaction_version("close") or 0,
        )
        for name in TABLES
    }


def ledger_totals(place: Place) -> list[tuple[Any, ...]]:
    return query(
        """SELECT "table", kind, sum(read), sum(accepted), sum(rejected), sum(assigned),
            sum(late_assigned), sum(emitted - emitted_before)
        FROM ledger WHERE batch IS NOT NULL GROUP BY ALL ORDER BY ALL""",
        ledger=place.table(place.places.ledger),
    )


def assert_the_ledger_balances(place: Place) -> None:
    lines = place.table(place.places.ledger).to_pylist()
    assert lines
    assert [line for line in lines if line["balanced"] is False] == []
    ingested = [line for line in lines if line["kind"] == "ingest"]
    read = sum(line["accepted"] for line in ingested), sum(line["rejected"] for line in ingested)
    assert read == (
        place.bronze().num_rows + _deleted(place.places.bronze),
        place.rejects().num_rows + _deleted(place.places.rejects, by_hand=True) + _dropped(place),
    )


def _deleted(uri: str, by_hand: bool = False) -> int:
    """Rows that were deleted from a table. Of bronze retention drops some; nothing of ours does so
    with rejects: `by_hand` leaves out what has a note."""
    commits = DeltaTable(uri).history()
    deletes = [
        commit
        for commit in commits
        if commit["operation"] == "DELETE" and not (by_hand and note_of(commit))
    ]
    return sum(int(commit["operationMetrics"]["num_deleted_rows"] or 0) for commit in deletes)


def _dropped(place: Place) -> int:
    """Rejects that maintenance dropped."""
    notes = map(note_of, DeltaTable(place.places.rejects).history())
    return sum(one.rows for one in notes if isinstance(one, RejectsDroppedNote))


def assert_nothing_is_there_twice(place: Place) -> None:
    """No row of `changes` of one batch, no correction, no ledger line, no run."""
    for name, keys in KEYS.items():
        rows = place.changes(name).to_pylist()
        stream = [row for row in rows if row["cause"] == "stream"]
        _assert_distinct(stream, (*keys, "generation", "batch"))
        values = [*keys, *TABLES[name]["measures"], "rows", "cause", "generation"]
        _assert_distinct([row for row in rows if row["cause"] != "stream"], values)
    lines = place.table(place.places.ledger).to_pylist()
    _assert_distinct([line for line in lines if line["batch"] is not None], _BATCH)
    # A backfill that is asked for once more is another computation.
    _assert_distinct([line for line in lines if line["kind"] in ("late", "seal")], _COMPUTATION)
    runs = place.table(place.places.runs).to_pylist()
    _assert_distinct(runs, ("run", "started_at"))


_BATCH = ("kind", "table", "query", "batch")
_COMPUTATION = ("kind", "table", "windows", "published", "in_bronze")


def _assert_distinct(rows: list[dict[str, Any]], columns: Any) -> None:
    counted = Counter(tuple(row[column] for column in columns) for row in rows)
    assert [found for found, number in counted.items() if number > 1] == []


def assert_watermarks_never_go_back(place: Place) -> None:
    """By the offsets that the engine wrote; and the batch that frees state came last."""
    for name, table in TABLES.items():
        checkpoint = _checkpoint(place, name)
        kept = checkpoint.batches("offsets")
        watermarks = [checkpoint.offsets(batch).watermark_ms for batch in kept]
        assert watermarks == sorted(watermarks), name
        assert checkpoint.batches("commits")[-1] == kept[-1]
        if table.get("output_mode") != "complete":
            # The state was freed by the newest watermark that there is.
            assert watermarks[-1] == checkpoint.next_watermark_ms(kept[-1]), name
        assert checkpoint.next_watermark_ms(kept[-1]) == newest_ms(place) - DELAY_MS, name


def newest_ms(place: Place) -> int:
    """The newest event time that was accepted."""
    return epoch_ms(max(place.bronze()["at"].to_pylist()))


def _checkpoint(place: Place, table: str) -> Checkpoint:
    return Checkpoint(place.places.query_checkpoint(table, 1), {})


def runs_of(place: Place) -> Mapping[str, dict[str, Any]]:
    """The rows of `ops/runs`, by run."""
    return {row["run"]: row for row in place.table(place.places.runs).to_pylist()}
