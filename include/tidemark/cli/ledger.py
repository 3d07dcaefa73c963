"""`tidemark ledger`: where a pipeline's rows went, and building that account anew."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.cli.console import ReportTable, report_console, report_table
from tidemark.cli.help import Group
from tidemark.cli.options import PipelineName, SettingsFile, asked_pipeline
from tidemark.errors import FAILED
from tidemark.pipeline.instants import manual_run_id

ledger = typer.Typer(
    cls=Group, help="The ledger of a pipeline: where each of its rows went.", no_args_is_help=True
)

_UNKNOWN = "–"
_UNBALANCED = (
    "The tables themselves do not add up, and no run is published until they do. Compare them with "
    "the source and with each other (`tidemark audit`), mend what is wrong, then repeat "
    "`tidemark ledger rebuild {pipeline}`."
)
_TEXTS = ("kind", "table", "run", "account")


@ledger.command("show")
def show_ledger(
    pipeline: PipelineName,
    settings: SettingsFile = None,
    last: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000_000, help="The newest lines shown.")
    ] = 20,
) -> None:
    """Show the totals, and the newest lines. Exits with 1 when one does not balance."""
    from tidemark.gold.state import is_published
    from tidemark.ledger.report import read_ledger
    from tidemark.storage.warehouse import Warehouse

    found, loaded = asked_pipeline(pipeline, settings)
    warehouse = Warehouse.of(found.name, loaded)
    report = read_ledger(warehouse.ledger, found.name, last)
    if report is None:
        golds = (warehouse.gold(name).open() for name in found.tables)
        if any(gold is not None and is_published(gold) for gold in golds):
            print(
                f"The ledger of {found.name} is gone, though gold is published. The next run "
                f"builds it anew, or now: `tidemark ledger rebuild {found.name}`."
            )
        else:
            print(f"The ledger has no line of {found.name} yet: it has not run.")
        return
    console = report_console()
    console.print(f"{found.name}: {report.verdict}")
    console.print(ledger_table(report.totals_header, report.totals))
    console.print(ledger_table(report.lines_header, report.lines))
    if report.unbalanced:
        raise typer.Exit(FAILED)


@ledger.command()
def rebuild(
    pipeline: PipelineName,
    settings: SettingsFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what the ledger would hold.")
    ] = False,
) -> None:
    """Build the ledger anew from the pipeline's tables, in the place of the lines it has.

    Exits with 1 when a line does not balance; the lines are written all the same.
    """
    from tidemark.ledger.ledger import check_balance, replace_ledger
    from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
    from tidemark.runs.contract.recorded import seeds_of
    from tidemark.runs.pipeline_lease import pipeline_lease
    from tidemark.storage.warehouse import Warehouse

    found, loaded = asked_pipeline(pipeline, settings)
    warehouse = Warehouse.of(found.name, loaded)
    source = Ledgered(found, warehouse, seeds_of(found, warehouse))
    if dry_run:
        lines = rebuilt_lines(source)
        print(f"{len(lines)} lines; nothing was written")
    else:
        now = datetime.now(UTC)
        run_id = manual_run_id(now)
        with pipeline_lease(found, loaded, run_id, "ledger rebuild", ends_processes=False) as lease:
            lines = rebuilt_lines(source)
            replace_ledger(warehouse.fenced(lease.check).ledger, found.name, lines, now)
        print(f"{len(lines)} lines written")
    check_balance(found.name, lines, _UNBALANCED)


def ledger_table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> ReportTable:
    """Totals or lines of a ledger's report."""
    table = report_table(*(name if name in _TEXTS else f">{name}" for name in header))
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
