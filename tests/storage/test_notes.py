"""What commits say of themselves: written and read again, as now and as before there were kinds."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pydantic import ValidationError

from tidemark.errors import NoteUnreadable
from tidemark.storage.delta.commits import close_frontiers, emitted_rows, ingest_commits
from tidemark.storage.delta.notes import (
    EmittedNote,
    IngestNote,
    Note,
    PublishedNote,
    RecomputedNote,
    RejectsDroppedNote,
    RetentionNote,
    as_metadata,
    note_of,
)
from tidemark.storage.delta.rows import Rows

STARTED = datetime(2026, 7, 31, 12, 0, 0, 250_000, tzinfo=UTC)
COUNTS = Rows(read=3, accepted=2, rejected={"malformed": 1})
VERDICT = ("file:///in/b.json", "malformed", "The file is empty (0 bytes)")
INGEST = IngestNote(
    query="q",
    batch=4,
    rows=COUNTS,
    verdicts=(VERDICT,),
    seen={"file:///in/a.json": 5},
    scheduled_ms=7,
)
VERSION_1 = INGEST.model_copy(update={"version": 1})
NOTES: list[Note] = [
    INGEST,
    IngestNote(query="q", batch=0, rows=Rows()),
    EmittedNote(query="q", batch=4, close_ms=60_000, emitted_rows=0),
    EmittedNote(query="q", batch=4, close_ms=0),
    RecomputedNote(cause="late", run="nightly"),
    PublishedNote(
        run="mend", started_at=STARTED, trigger="backfill", windows=2, start_ms=0, end_ms=9
    ),
    PublishedNote(run="nightly", started_at=STARTED),
    RetentionNote(dates=(date(2026, 6, 1), date(2026, 6, 2))),
    RejectsDroppedNote(up_to=4, rows=7),
]

# Literally as they were written before there were kinds, and since.
FORMER_INGEST = (
    '{"query": "q", "batch": 4, "rows": {"read": 3, "accepted": 2, "rejected": {"malformed": 1}}, '
    '"files": [["file:///in/b.json", "malformed", "The file is empty (0 bytes)"]], '
    '"seen_ms": {"file:///in/a.json": 5}, "scheduled_ms": 7}'
)
FORMER = {
    FORMER_INGEST: VERSION_1,
    FORMER_INGEST.replace(', "scheduled_ms": 7', ""): VERSION_1.model_copy(
        update={"scheduled_ms": None}
    ),
    # A kind by then, and still of files alone.
    FORMER_INGEST.replace('{"query"', '{"kind": "ingest", "version": 1, "query"'): VERSION_1,
    '{"query": "q", "batch": 0, "rows": {"read": 1, "accepted": 1, "rejected": {}}, "files": [], '
    '"seen_ms": {}, "scheduled_ms": 7}': IngestNote(
        version=1, query="q", batch=0, rows=Rows(read=1, accepted=1), scheduled_ms=7
    ),
    '{"query": "q", "batch": 4, "close_ms": 60000}': EmittedNote(
        query="q", batch=4, close_ms=60_000
    ),
    '{"query": "q", "batch": 4, "close_ms": 0, "emitted_rows": 12}': EmittedNote(
        query="q", batch=4, close_ms=0, emitted_rows=12
    ),
    '{"query": "q", "batch": 4, "emitted_rows": 12}': EmittedNote(
        query="q", batch=4, emitted_rows=12
    ),
}
OF_THE_RUN = {"run": "nightly", "started_at": "2026-07-31T12:00:00.250000+00:00"}
OF_WINDOWS = {"windows": "2", "windows_start_ms": "0", "windows_end_ms": "1200000"}


def commit(uri: str, metadata: dict[str, str]) -> dict[str, Any]:
    """A commit with this metadata, as the table's history has it."""
    properties = CommitProperties(custom_metadata=metadata)
    write_deltalake(uri, pa.table({"n": [1]}), mode="append", commit_properties=properties)
    (newest,) = DeltaTable(uri).history(1)
    return newest


@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_read_from_its_commit_as_it_was_written(tmp_path: Path, note: Note) -> None:
    newest = commit(str(tmp_path), as_metadata(note))
    assert note_of(newest) == note
    told = json.loads(newest["userMetadata"])
    assert (told["kind"], told["version"]) == (note.kind, 2 if note.kind == "ingest" else 1)


@pytest.mark.parametrize(("text", "note"), FORMER.items())
def test_a_note_of_a_batch_in_a_former_form_is_read(tmp_path: Path, text: str, note: Note) -> None:
    assert note_of(commit(str(tmp_path), {"userMetadata": text})) == note


@pytest.mark.parametrize(
    ("metadata", "note"),
    [
        (OF_THE_RUN, PublishedNote(run="nightly", started_at=STARTED)),
        (
            OF_THE_RUN | OF_WINDOWS,
            PublishedNote(
                run="nightly", started_at=STARTED, windows=2, start_ms=0, end_ms=1_200_000
            ),
        ),
        (
            OF_THE_RUN | {"trigger": "backfill"},
            PublishedNote(run="nightly", started_at=STARTED, trigger="backfill"),
        ),
    ],
)
def test_a_note_of_a_publish_from_before_kinds_is_read(
    tmp_path: Path, metadata: dict[str, str], note: Note
) -> None:
    assert note_of(commit(str(tmp_path), metadata)) == note


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE by hand",
        "",
        "[1]",
        "7",
        "{",
        '{"query": "q", "batch": 4}',
        '{"seen_ms": {}}',
        '{"close_ms": 5, "by": "hand"}',
        '{"kind": "ingest"}',
        '{"kind": "of somebody else", "version": 1}',
        '{"kind": ["ingest"], "version": 1}',
    ],
)
def test_what_others_note_is_none(tmp_path: Path, text: str) -> None:
    assert note_of(commit(str(tmp_path), {"userMetadata": text})) is None


@pytest.mark.parametrize(
    "metadata",
    [{}, {"run": "nightly"}, {"run": "nightly", "started_at": "at noon"}, {"started_at": "1"}],
)
def test_entries_of_others_are_none(tmp_path: Path, metadata: dict[str, str]) -> None:
    assert note_of(commit(str(tmp_path), metadata)) is None


@pytest.mark.parametrize("changed", [{"version": 3}, {"version": "1.1"}, {"read_ms": 5}])
@pytest.mark.parametrize("note", NOTES)
def test_a_known_kind_of_a_newer_version_is_an_error(
    tmp_path: Path, note: Note, changed: dict[str, Any]
) -> None:
    """Passed over in silence, a batch of ingest would count as what gold stands for."""
    text = json.dumps(note.model_dump(mode="json") | changed)
    with pytest.raises(NoteUnreadable, match=rf"version 0 .* kind `{note.kind}`.* newer one"):
        note_of(commit(str(tmp_path), {"userMetadata": text}))


def test_a_table_of_both_forms_is_read_as_one(tmp_path: Path) -> None:
    """As one is that a former version began, and this one goes on with."""
    uri = str(tmp_path)
    former = '{"query": "q", "batch": 0, "close_ms": 5, "emitted_rows": 3}'
    commit(uri, {"userMetadata": former})
    commit(uri, {"userMetadata": FORMER_INGEST})
    commit(uri, as_metadata(RecomputedNote(cause="late", run="nightly")))
    commit(uri, as_metadata(EmittedNote(query="q", batch=1, close_ms=6, emitted_rows=4)))
    commit(uri, as_metadata(EmittedNote(query="another", batch=2, close_ms=7, emitted_rows=5)))
    commit(uri, as_metadata(IngestNote(query="q", batch=5, rows=COUNTS)))
    table = DeltaTable(uri)
    assert close_frontiers(table, "q", -1) == {0: 5, 1: 6}
    assert emitted_rows(table, "q", -1) == {0: 3, 1: 4}
    found = ingest_commits(table, "q", -1)
    assert {batch: (one.rows, one.scheduled_ms) for batch, one in found.items()} == {
        4: (COUNTS, 7),
        5: (COUNTS, 0),
    }


def test_an_ingest_that_saw_no_other_times_is_one_and_stays_as_it_is() -> None:
    note = IngestNote(query="q", batch=0, rows=COUNTS)
    told = json.loads(as_metadata(note)["userMetadata"])
    del told["seen"]
    assert note_of({"userMetadata": json.dumps(told)}) == note
    with pytest.raises(ValidationError, match="frozen"):
        note.batch = 1  # type: ignore[misc]
