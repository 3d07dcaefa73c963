"""A ledger that is built anew, of a pipeline whose `keep` drops dates of bronze."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from deltalake import CommitProperties, DeltaTable

from tests.streaming.test_judged_otherwise import Begun, content
from tidemark.ledger.rebuild import Ledgered, _ingest_lines
from tidemark.storage.delta.notes import RetentionNote, as_metadata


def test_a_row_that_bronze_lacks_is_missed_unless_its_date_may_have_been_dropped(
    tmp_path: Path,
) -> None:
    begun = Begun(tmp_path)
    begun.write(1, 2, "x")
    begun.plan()
    begun.judge()
    commits = Path(begun.run.ingest_checkpoint().uri, "commits")
    commits.mkdir()
    (commits / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    place = replace(begun.place, content=content("long") | {"keep": "400 days"})

    def difference() -> int | None:
        (line,) = _ingest_lines(Ledgered(place.pipeline, place.warehouse))
        assert line.read == 3
        return line.difference

    assert difference() == 0
    bronze = DeltaTable(place.places.bronze)
    bronze.delete("amount = 1")
    assert difference() == 1
    note = as_metadata(RetentionNote(dates=(date(2026, 7, 1),)))
    bronze.delete("amount = 2", commit_properties=CommitProperties(custom_metadata=note))
    assert difference() == 0
