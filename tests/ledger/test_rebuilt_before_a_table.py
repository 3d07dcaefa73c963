"""A ledger that is built anew where a table is not made yet, or its gold was moved away."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from typer.testing import CliRunner

from tests.kit.running import Place, clicks
from tests.kit.windows import at, millis, window
from tests.streaming.test_judged_otherwise import Begun, content
from tidemark.cli.main import app
from tidemark.errors import TableMismatch
from tidemark.ledger.ledger import check_ledger, last_batch_written, write_ledger
from tidemark.ledger.lines import erasure_line
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.recompute.rewind.change import IngestBack, PipelineChange, TableBack
from tidemark.recompute.rewind.record import settle_lines
from tidemark.runs.found import found_of
from tidemark.runs.repair_ops import repair_ops_tables

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
HISTORY = pa.schema([("cause", pa.string()), ("rows", pa.int64()), ("batch", pa.int64())])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One batch of two rows and a reject, and no run that made the pipeline's table."""
    begun = Begun(tmp_path)
    begun.write(1, 2, "x")
    begun.plan()
    begun.judge()
    commits = Path(begun.run.ingest_checkpoint().uri, "commits")
    commits.mkdir()
    (commits / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    begun.place.write_file()
    return begun.place


def kinds(place: Place) -> list[str]:
    return [line.kind for line in rebuilt_lines(Ledgered(place.pipeline, place.warehouse))]


def gold(place: Place, table: str = "per_10m", **said: int) -> None:
    said = {"generation": 1, **said}
    noted = CommitProperties(app_transactions=[Transaction(*one) for one in said.items()])
    write_deltalake(place.places.gold(table), HISTORY.empty_table(), commit_properties=noted)


def test_a_table_that_no_run_has_made_has_no_lines(place: Place) -> None:
    assert kinds(place) == ["ingest"]
    done = CliRunner().invoke(app, ["ledger", "rebuild", "clicks"], env=place.variables)
    assert done.exit_code == 0
    assert "1 lines written" in done.output
    check_ledger(place.warehouse.ledger, "clicks")


def test_a_run_that_was_killed_between_gold_and_changes_has_left_no_lines(place: Place) -> None:
    gold(place)
    assert kinds(place) == ["ingest"]


def test_a_history_that_is_gone_beside_a_published_gold_is_refused(place: Place) -> None:
    gold(place, bronze=0, changes=0, close=0)
    with pytest.raises(TableMismatch, match="per_10m/changes, though a run has made it"):
        kinds(place)


def test_a_rewind_settles_the_ledger_of_a_file_with_a_new_table(place: Place) -> None:
    query = place.run("run").ingest_checkpoint().query_id()
    back = {name: TableBack(uri="", seen=0, version=0) for name in ("bronze", "rejects")}
    change = PipelineChange(
        id="20260701T120000Z", run_id="rewind", pipeline="clicks", planned_at=NOW, to="before",
        ingest=IngestBack(query=str(query), listed={}, batch=0), golds=(), **back,
    )  # fmt: skip
    settle_lines(change, place.pipeline, place.warehouse)
    assert last_batch_written(place.warehouse.ledger.open(), "clicks", str(query)) == 0


def test_a_ledger_that_is_gone_is_built_anew_where_gold_was_moved_away(place: Place) -> None:
    tables: dict[str, Any] = clicks()["tables"]
    place.content = content("long") | {"tables": {**tables, "other": tables["per_10m"]}}
    windows = place.windows()
    windows.change(window(at(10), key="k", total=3), cause="backfill", batch=None)
    windows.publish(windows.pin(at(10), bronze=0))
    write_deltalake(place.places.changes("other", 1), HISTORY.empty_table())
    said: list[str] = []
    repair_ops_tables(place.pipeline, place.warehouse, said.append)
    assert said == ["2 lines of the ledger of clicks were built anew"]
    assert kinds(place) == ["ingest", "backfill"]


def published(place: Place, is_by_a_run: bool = True) -> None:
    """Gold of the one batch, which notes the query as that of a run does."""
    place.content = content("long")
    place.write_file()
    windows = place.windows()
    windows.change(window(at(10), key="k", total=3), cause="backfill", batch=None)
    query = Path(place.places.query_checkpoint("per_10m", 1))
    query.mkdir(parents=True, exist_ok=True)
    (query / "metadata").write_text('{"id": "11111111-2222-3333-4444-555555555555"}')
    rests_on = found_of(place.pipeline, place.warehouse, "per_10m").rests_on(
        {"query": 0 if is_by_a_run else -1}
    )
    pinned = windows.pin(at(10)).model_copy(update={"rests_on": rests_on})
    windows.publish(pinned)


def act(place: Place) -> None:
    """An act's line in the ledger."""
    line = erasure_line("20260701T120000Z", 0, 0)
    write_ledger(place.warehouse.ledger, "clicks", "erase", millis(NOW), [line], NOW)


def repaired(place: Place) -> list[str]:
    said: list[str] = []
    repair_ops_tables(place.pipeline, place.warehouse, said.append)
    return said


def test_a_ledger_that_was_lost_before_an_act_wrote_is_built_anew_by_the_next_run(
    place: Place,
) -> None:
    published(place)
    act(place)
    assert repaired(place) == ["2 lines of the ledger of clicks were built anew"]
    assert repaired(place) == []


def test_lines_of_batches_that_no_run_has_published_are_for_the_next_run_to_write(
    place: Place,
) -> None:
    published(place, is_by_a_run=False)
    act(place)
    assert repaired(place) == []


def test_a_ledger_that_is_gone_is_told_as_such(place: Place) -> None:
    def shown() -> str:
        done = CliRunner().invoke(app, ["ledger", "show", "clicks"], env=place.variables)
        assert done.exit_code == 0
        return done.stdout

    assert shown() == "The ledger has no line of clicks yet: it has not run.\n"
    published(place)
    assert shown() == (
        "The ledger of clicks is gone, though gold is published. The next run builds it anew, or "
        "now: `tidemark ledger rebuild clicks`.\n"
    )


@pytest.mark.parametrize("key", ["a\u2028b", "a\u2029b", "caf\u0085"])
def test_a_key_may_hold_what_ends_a_line_for_python(place: Place, key: str) -> None:
    windows = place.windows()
    windows.change(window(at(10), key=key, total=3), cause="backfill", batch=None)
    windows.publish(windows.pin(at(10), bronze=0))
    assert kinds(place) == ["ingest", "backfill"]
