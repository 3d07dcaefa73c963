"""`tidemark ledger`: the account of real runs, shown and built anew."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from tests.kit.running import Place, clicks, query, run_warm, succeed
from tests.storage.leases import leave, left_by_another
from tidemark.cli.main import app
from tidemark.errors import LedgerUnbalanced
from tidemark.storage.lease.lease import read_lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES: dict[str, dict[str, Any]] = {
    "update": {},
    "append": {},
    "complete": {"accept_unbounded_state": True},
}
# What every line says that can be known for ever; the equations of recomputed windows cannot.
LASTING = """
    SELECT "table", kind, batch, read, accepted, rejected, reasons, assigned, late_rows,
        partly_late_rows, late_assigned, emitted, emitted_before, difference
    FROM lines WHERE kind IN ('ingest', 'stream') ORDER BY ALL
"""


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Four runs, one of them held, with late rows and a seal, of a table in each mode."""
    tables = {
        mode: clicks()["tables"]["per_10m"] | {"output_mode": mode} | more
        for mode, more in MODES.items()
    }
    watermark = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    place = Place(tmp_path_factory.mktemp("ledger"), clicks(tables=tables, watermark=watermark))
    place.write_file()
    for number, hour in enumerate((10, 11, 10)):
        rows = [{"at": f"2026-07-01T{hour}:{m:02}:00Z", "key": "a"} for m in range(0, 60, 9)]
        place.land(f"{number}.json", [*rows, "not JSON"])
        succeed(spark, place, f"run-{number}", hold=number == 1)
    succeed(spark, place, "seal", scheduled=datetime(2026, 7, 3, tzinfo=UTC))
    return place


def tidemark(place: Place, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["ledger", *arguments], env=place.variables)


def lines(place: Place, sql: str = LASTING) -> list[tuple[Any, ...]]:
    return query(sql, lines=place.table(place.places.ledger))


def test_the_ledger_is_shown_with_totals_and_each_lines_equation(ran: Place) -> None:
    shown = tidemark(ran, "show", "clicks", "--last", "30")
    assert shown.exit_code == 0, shown.output
    assert "0 that do not balance" in shown.output
    assert "8 read = 7 accepted + 1 rejected" in shown.output
    assert "7 assigned, 7 late; 0 emitted, 0 before" in shown.output
    assert " seal " in shown.output


def test_a_pipeline_that_has_not_run_has_no_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    shown = tidemark(place, "show", "clicks")
    assert (shown.exit_code, shown.output.strip()) == (
        0,
        "The ledger has no line of clicks yet: it has not run.",
    )


def test_a_ledger_that_was_lost_is_built_anew_from_the_tables(ran: Place) -> None:
    before = lines(ran)
    assert len(before) > 8
    DeltaTable(ran.places.ledger).delete("kind <> 'late'")
    dry = tidemark(ran, "rebuild", "clicks", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "nothing was written" in dry.output
    assert lines(ran) == []
    last = read_lease(ran.places.lease, {})
    assert last is not None
    # As a rebuild leaves it that was killed.
    leave(ran.places.lease, left_by_another(number=last.number + 1, purpose="ledger rebuild"))
    rebuilt = tidemark(ran, "rebuild", "clicks")
    assert rebuilt.exit_code == 0, rebuilt.output
    assert lines(ran) == before
    causes = "SELECT \"table\", kind, sum(published) FROM lines WHERE kind = 'late' GROUP BY ALL"
    assert {name for name, _, _ in lines(ran, causes)} == set(MODES)


@pytest.mark.long
def test_the_next_run_goes_on_after_a_rebuilt_ledger(spark: SparkSession, ran: Place) -> None:
    tidemark(ran, "rebuild", "clicks")
    before = lines(ran)
    ran.land("9.json", [{"at": "2026-07-02T10:00:00Z", "key": "b"}])
    succeed(spark, ran, "after")
    after = lines(ran)
    assert set(before) < set(after)
    assert len(after) == len(before) + 1 + len(MODES)


def test_a_row_that_bronze_lost_is_found_by_a_rebuild(ran: Place, tmp_path: Path) -> None:
    place = ran.copied(tmp_path / "root")
    DeltaTable(place.places.bronze).delete("at = '2026-07-01T11:09:00Z'")
    rebuilt = tidemark(place, "rebuild", "clicks", "--dry-run")
    assert rebuilt.exit_code == 1, rebuilt.output
    assert "batch 1: read 8, accepted 6, rejected 1; difference 1" in rebuilt.stderr


def test_a_run_whose_rows_do_not_add_up_publishes_nothing_until_that_is_mended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.runs import accounts

    place = Place(tmp_path)
    place.write_file()
    place.land("1.json", [{"at": "2026-07-01T10:00:00Z", "key": "a"}])
    whole = accounts.ingest_lines

    def losing(*given: Any) -> Any:
        from dataclasses import replace

        return [replace(line, accepted=0) for line in whole(*given)]

    monkeypatch.setattr(accounts, "ingest_lines", losing)
    failed = run_warm(spark, place, "first")
    assert failed.error is not None
    assert failed.error.type == LedgerUnbalanced.__name__
    assert not failed.error.retry_can_help
    assert "ingest, batch 0: read 1, accepted 0, rejected 0; difference 1" in failed.error.message
    assert place.gold().num_rows == 0
    shown = tidemark(place, "show", "clicks")
    assert shown.exit_code == 1
    assert "1 that do not balance" in shown.output

    monkeypatch.undo()
    again = run_warm(spark, place, "again")
    assert again.error is not None
    assert "tidemark ledger rebuild clicks" in again.error.message
    assert place.gold().num_rows == 0
    assert tidemark(place, "rebuild", "clicks").exit_code == 0
    succeed(spark, place, "mended")
    assert place.gold().num_rows == 1
