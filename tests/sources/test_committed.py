"""What an earlier try of an ingest batch has committed, read from real tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TableMismatch
from tidemark.sources.committed import commit_note, committed_before
from tidemark.sources.source import Reading
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.notes import as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows

QUERY = "3f6d2a3c-0d0c-4a34-9d51-0a8fb1fbe2d1"
ROWS = pa.table({"n": [1, 2]})
COUNTS = Rows(read=3, accepted=2, rejected={"malformed": 1})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    return Checkpoint(str(folder), {})


def rejects_below(folder: Path) -> TablePlace:
    return TablePlace(str(folder / "rejects"))


def commit(place: str, batch: int) -> None:
    """As ingest leaves it."""
    note = commit_note(QUERY, batch, COUNTS, Reading((), (), {}), 5_000, 7)
    properties = CommitProperties(
        app_transactions=[Transaction(QUERY, batch)], custom_metadata=as_metadata(note)
    )
    write_deltalake(place, ROWS, mode="append", commit_properties=properties)


@pytest.mark.slow
def test_a_batch_is_known_however_often_its_repeat_has_failed_since(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    """Each try takes the lease over from a dead one, and fences the table by a commit."""
    bronze, rejects = str(tmp_path / "bronze"), str(tmp_path / "rejects")
    commit(bronze, 4)
    for lease in range(60):
        fence_tables([TablePlace(bronze)], lease)
    found = committed_before(checkpoint, TablePlace(bronze), TablePlace(rejects), 4)
    assert found is not None
    assert (found.rows, found.max_line_bytes, found.scheduled_ms) == (COUNTS, 5_000, 7)
    assert not found.is_complete


@pytest.mark.parametrize("text", ["OPTIMIZE by hand", "[1]", "{"])
def test_what_others_note_in_their_commits_is_passed_over(
    tmp_path: Path, checkpoint: Checkpoint, text: str
) -> None:
    bronze = str(tmp_path / "bronze")
    commit(bronze, 0)
    theirs = CommitProperties(custom_metadata={"userMetadata": text})
    write_deltalake(bronze, ROWS, mode="append", commit_properties=theirs)
    assert committed_before(checkpoint, TablePlace(bronze), rejects_below(tmp_path), 0) is not None


def test_a_batch_that_a_newer_table_no_longer_tells_of_is_refused(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    bronze = str(tmp_path / "bronze")
    commit(bronze, 5)
    with pytest.raises(TableMismatch, match=r"batch 4 of query .* older than the table"):
        committed_before(checkpoint, TablePlace(bronze), rejects_below(tmp_path), 4)
