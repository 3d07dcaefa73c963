"""What commands print into a terminal is broken at blanks alone: tables and the help."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from tests.cli.test_printed import ALL
from tests.storage.leases import holder, left_by_another
from tidemark.checkpoint.doctor.findings import (
    CheckpointVerdict,
    Diagnosis,
    Finding,
    FindingKind,
    Severity,
)
from tidemark.checkpoint.housekeeping.plan import FileKind, HousekeepingPlan, Share
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.rebuild import Rebuild
from tidemark.checkpoint.reading.state_files import Provider, StateFile, StoreId
from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.plan import ChangePlan
from tidemark.checkpoint.state.check import (
    Figure,
    PartitionCheck,
    StateCheck,
    StateVerdict,
    StoreCheck,
)
from tidemark.checkpoint.state.plan_compaction import CompactionPlan
from tidemark.checkpoint.state.stores import Partition, StoreInventory
from tidemark.cli.checkpoint.doctor_report import print_diagnosis, print_losses
from tidemark.cli.checkpoint.housekeep import print_plan as print_housekeeping
from tidemark.cli.checkpoint.show import (
    OperatorLine,
    Overview,
    SourceLine,
    print_checkpoint_overview,
)
from tidemark.cli.checkpoint.take_back import Act
from tidemark.cli.checkpoint.take_back import print_plan as print_change
from tidemark.cli.console import ReportTable, facts_table, report_console, report_table
from tidemark.cli.doctor import print_findings
from tidemark.cli.explain_report import print_story
from tidemark.cli.lease import lease_lines
from tidemark.cli.ledger import ledger_table
from tidemark.cli.main import app
from tidemark.cli.maintain import print_plans
from tidemark.cli.many import Ended, print_ended
from tidemark.cli.new.commands import proposed_facts
from tidemark.cli.rejects import print_reject, print_rejects
from tidemark.cli.remove import print_removal
from tidemark.cli.report import print_result
from tidemark.cli.rewind import print_runs
from tidemark.cli.state.commands import print_rows
from tidemark.cli.state.compact import plans_table
from tidemark.cli.state.show import print_state
from tidemark.cli.status_report import print_pipeline, print_status_overview
from tidemark.cli.trial.report import rows_table
from tidemark.gold.pins import TableResult
from tidemark.page.rejects import ReasonOfRejects, Reject
from tidemark.pipeline.model import StateLimits
from tidemark.recompute.rewind.past_runs import PastRun
from tidemark.runs.losses import Loss
from tidemark.runs.removal import Removal
from tidemark.runs.results.looks import StateRows
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.pipeline_status import PipelineStatus
from tidemark.runs.status.recent_runs import RecentRun, TableOfRun
from tidemark.runs.status.state import PipelineState
from tidemark.runs.status.table_status import TableStatus
from tidemark.storage.delta.rows import Rows
from tidemark.storage.store_check import StoreFinding as SetUp
from tidemark.story.story import (
    BronzeRow,
    CheckSaid,
    Rejected,
    RejectedRow,
    RowPlace,
    RowsOfInput,
    RowValue,
    Story,
)
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part, Work
from tidemark.upkeep.pipeline_compaction import Planned

ROOT = Path(__file__).parents[2]
NAMES = st.text("abcxyzÄ中😀_-.:+0123456789", min_size=1, max_size=200)
NUMBERS = st.integers(0, 10**15).map("{:,}".format)
TIMES = st.datetimes().map("{:%Y-%m-%d %H:%M:%SZ}".format)
SENTENCES = st.lists(
    NAMES | NUMBERS | st.just("`tidemark run clicks`"), min_size=1, max_size=20
).map(" ".join)


def printed(table: ReportTable, width: int | None) -> list[str]:
    """The lines of a table in a terminal; None for a file."""
    out = io.StringIO()
    terminal = width is not None
    Console(
        file=out, force_terminal=terminal, width=width, color_system=None, soft_wrap=True
    ).print(table)
    return out.getvalue().splitlines()


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    columns = draw(st.lists(st.sampled_from(["", ">", "~"]), min_size=1, max_size=12))
    of = {"": NAMES | TIMES, ">": NUMBERS, "~": SENTENCES}
    titles = draw(st.lists(st.text("abc", min_size=1, max_size=30), min_size=12, max_size=12))
    row = st.tuples(*(of[one] for one in columns)).map(list)
    named = [f"{setting}{title}" for setting, title in zip(columns, titles, strict=False)]
    return named, draw(st.lists(row, max_size=4))


@given(tables(), st.sampled_from([40, 80, 120]))
def test_no_name_time_or_number_of_a_table_is_broken(
    made: tuple[list[str], list[list[str]]], width: int
) -> None:
    columns, rows = made
    table = report_table(*columns)
    for row in rows:
        table.add_row(*row)
    lines = printed(table, width)
    for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
        for cell in cells:
            for whole in cell.split() if column.startswith("~") else [cell]:
                assert any(whole in line for line in lines), (column, whole, lines)
    for line in lines:
        # But for a word that has no room on any line, and a row's first name.
        assert cell_len(line) <= width or " " not in re.sub(
            r"`.*`|(?<=\d) (?=\d)", "", line.strip()
        )


@given(tables())
def test_a_row_is_one_line_of_a_file_with_all_of_its_cells(
    made: tuple[list[str], list[list[str]]],
) -> None:
    columns, rows = made
    table = report_table(*columns)
    for row in rows:
        table.add_row(*row)
    title, rule, *lines = printed(table, None)
    assert title.split() == [name.lstrip(">~") for name in columns]
    assert set(rule) == {"─"}
    for row, line in zip(rows, lines, strict=True):
        assert re.fullmatch(r"\s*" + r"\s+".join(map(re.escape, row)) + r"\s*", line), line


def test_columns_without_room_stand_below_the_row_with_their_names() -> None:
    table = report_table("run", ">rows\nread", "began", ">seconds", "~why")
    table.add_row("manual__1", "1,200", "2026-03-01T09:00:00Z", "6", "so")
    table.add_row("manual__2", "7", "–", "", "because `tidemark run x` was typed and")
    assert printed(table, 40) == [
        "            rows",
        "run         read  began",
        "──────────────────────────────────────",
        "manual__1  1,200  2026-03-01T09:00:00Z",
        "    seconds: 6 · why: so",
        "manual__2      7  –",
        "    why: because `tidemark run x` was",
        "    typed and",
    ]
    assert printed(table, 74)[3:] == [
        "manual__1  1,200  2026-03-01T09:00:00Z        6  so",
        "manual__2      7  –                              because `tidemark run x`",
        "                                                 was typed and",
    ]


@dataclass(frozen=True)
class Drawn:
    """What a table is to hold whole. Names of tables have at most 100 letters, of others 250."""

    name: str
    number: int
    time: datetime

    @property
    def table(self) -> str:
        return self.name[:100]

    @property
    def ms(self) -> int:
        return int(self.time.timestamp() * 1000)


def of_a_run(of: Drawn) -> None:
    numbers = {"generation": 0, "changes": 1, "inputs": {}, "windows_changed": of.number}
    times = dict.fromkeys(("watermark_before_ms", "close_before_ms", "watermark_after_ms"), of.ms)
    table = TableResult.model_validate(
        {**numbers, **times, "close_after_ms": of.ms, "gold": 1, "published_windows": of.number}
    )
    rows = Rows(read=of.number, rejected={f"{reason} reason": of.number for reason in "abcdefgh"})
    result = RunResult(
        pipeline=of.table, run_id=of.name, outcome="succeeded", held=False, started_at=of.time,
        ended_at=of.time, rows=rows, tables={of.table: table},
    )  # fmt: skip
    print_result(result, "memory:///result.json")


def of_several_runs(of: Drawn) -> None:
    rows = Rows(read=of.number, rejected={"malformed": of.number})
    result = RunResult(
        pipeline=of.table, run_id=of.name, outcome="succeeded", held=True, started_at=of.time,
        ended_at=of.time, rows=rows,
    )  # fmt: skip
    ended = [Ended(of.table, result), Ended(of.name)]
    print_ended(ended, f"memory:///{of.time:%Y-%m-%dT%H:%M:%SZ}.json")


def of_status(of: Drawn) -> None:
    on_table = TableOfRun(of.time, of.number, of.number, of.number)
    run = RecentRun(
        of.name, "failed", None, None, of.time, of.time, of.number, of.number, of.number,
        {of.name: of.number}, {of.table: of.number}, {of.table: on_table}, f"Error{of.table}", None,
    )  # fmt: skip
    table = TableStatus(of.table, of.time, of.time, of.number, of.number, of.number, of.number)
    state = PipelineState.FAILING
    status = PipelineStatus(of.table, state, "", of.time, of.number, (table,), (run,))
    print_status_overview([status], Path("folder"), of.time)
    print_pipeline(status)


def of_the_ledger(of: Drawn) -> None:
    header = ("run", "table", "kind", "batch", "account", "difference")
    row = (of.name, of.table, "stream", of.number, f"at {of.time:%Y-%m-%dT%H:%M:%SZ}", of.number)
    report_console().print(ledger_table(header, [row]))


def of_rejects(of: Drawn) -> None:
    reason = ReasonOfRejects(of.table, of.number, of.time, of.time)
    print_rejects([reason], [_reject(of)])


def of_a_reject(of: Drawn) -> None:
    print_reject(_reject(of))


def _reject(of: Drawn) -> Reject:
    place = {"file": of.name, "place": f"{of.number:,}"}
    return Reject(of.name, of.table, None, "{}", None, of.time, place, of.time)


def of_a_lease(of: Drawn) -> None:
    times = dict.fromkeys(("taken_at", "renewed_at", "expires_at"), of.time)
    host = f"{of.table}, {of.number:,}"
    left = left_by_another(run_id=of.name, host=host, **times)
    report_console().print(facts_table(lease_lines(left, holder(), of.time)))


def of_runs_to_go_back_to(of: Drawn) -> None:
    print_runs([PastRun(of.name, of.time, of.number, of.number, {})])


def of_a_checkpoint(of: Drawn) -> None:
    source = SourceLine("0", of.table, of.name, None, of.number, of.number, of.number)
    operator = OperatorLine(0, of.name, 1, (of.table,), "RocksDB", (1, of.number), {}, 1, of.number)
    sections = {of.table: {"files": of.number, "bytes": of.number}}
    batches = {"offsets": (0, of.number, of.number)}
    found = Overview(
        "memory:///c", of.name, batches, of.number, of.ms, of.ms, of.ms, {}, (source,),
        (operator,), sections,
    )  # fmt: skip
    print_checkpoint_overview(report_console(), of.table, found)


def of_the_doctor(of: Drawn) -> None:
    told = f"{of.name} at {of.time:%Y-%m-%dT%H:%M:%SZ}: {of.number:,}"
    finding = Finding(FindingKind.GAP, Severity.DAMAGE, told, told, told, told, (of.name,), 2)
    verdict = Diagnosis(CheckpointVerdict.DAMAGED, None, "", (finding,))
    print_diagnosis(report_console(), of.table, verdict, True, [])
    print_losses(report_console(), [Loss(of.table, of.name, told, told, told)])


def of_the_set_up(of: Drawn) -> None:
    told = f"{of.name} at {of.time:%Y-%m-%dT%H:%M:%SZ}: {of.number:,}"
    print_findings("root", [SetUp(of.table, told), SetUp("store", "", told)])


def of_housekeeping(of: Drawn) -> None:
    reasons = (f"older than {of.time:%Y-%m-%dT%H:%M:%SZ}", of.name)
    share = Share(FileKind.STATE, of.number, of.number, (of.name,), of.number, reasons)
    plan = HousekeepingPlan("memory:///c", CheckpointVerdict.CLEAN_END, range(3), (share,))
    print_housekeeping(report_console(), of.table, plan, applied=False)


def of_maintenance(of: Drawn) -> None:
    reason = f"{of.name}, {of.time:%Y-%m-%dT%H:%M:%SZ}"
    part = Part(Work.UNUSED_FILES, of.number, of.number, of.number, of.number, reason)
    print_plans([MaintenancePlan(of.table, "memory:///t", (part,))], applied=False)


def of_a_removal(of: Drawn) -> None:
    folders = {of.name: (of.number, 1), f"{of.table} {of.time:%Y-%m-%dT%H:%M:%SZ}": (1, 1)}
    print_removal(Removal(of.table, folders, ()), "memory:///r", applied=False)


def of_a_way_back(of: Drawn) -> None:
    names = {f"{of.table}/{of.name}": of.number, f"{of.time:%Y-%m-%dT%H:%M:%SZ}/1": 1}
    change = CheckpointChange("memory:///c", "", names, tuple(names), None)
    print_change(report_console(), ChangePlan(change, None, 0), Act("b", False))


def checked_state(of: Drawn) -> StateCheck:
    section, known = Section(of.number, of.number), Provider.HDFS_BACKED
    built = Rebuild(1, StateFile("1.snapshot", of.number, None, True, of.number, False), (), (), ())
    part = Partition(StoreId(0, 1, of.table), known, (), built, section, (), section, ())
    reason = f"{of.name} of {of.time:%Y-%m-%dT%H:%M:%SZ} is gone"
    checked = PartitionCheck(part, StateVerdict.LOST, Figure("", 1, 1), reason)
    store = StoreInventory(0, of.name, of.table, None, (part,), True)
    whole = (StoreCheck(store, (checked,)),)
    return StateCheck(1, StateVerdict.LOST, reason, whole, section, section, section)


def of_state(of: Drawn) -> None:
    print_state(report_console(), of.table, checked_state(of), StateLimits(), in_use=True)


def of_compaction(of: Drawn) -> None:
    state = checked_state(of)
    plan = CompactionPlan("memory:///c", 1, state, {}, (StoreId(0, 0),))
    checkpoint: Any = SimpleNamespace(name=of.table)
    report_console().print(plans_table((Planned(checkpoint, plan),)))


def of_rows_of_state(of: Drawn) -> None:
    row = {of.table: of.number, "key": {"name": of.name}, "at": f"{of.time:%Y-%m-%dT%H:%M:%SZ}"}
    rows = [json.dumps(row | {"number": f"{of.number:,}"})]
    print_rows(StateRows(pipeline="p", table="t", batch=1, columns=[*row, "number"], rows=rows))


def of_a_story(of: Drawn) -> None:
    place = RowPlace({"_topic": of.name, "_partition": of.number, "_offset": of.number})
    row = BronzeRow(of.time, place, of.number, of.time, of.name, True, {of.table: of.number})
    rows = RowsOfInput(
        "bronze", of.number, of.time, of.time, of.number, ((of.name[-39:], of.number),), 0, (), 0,
        (row,), (row,),
    )  # fmt: skip
    rejected = RejectedRow(of.time, place, 1, of.time, of.name, of.name, "", of.name[:120], None)
    value = RowValue(
        {of.name: of.number}, of.number, "stream", of.name, 1, 1, 1, of.time, undone="x"
    )
    said = CheckSaid(of.name, of.time, of.table, of.name, "fail", False, of.name, "known", of.name)
    print_story(
        Story(
            "p", of.table, "10 minutes", of.time, of.time, {of.table: of.name[:100]}, None, 1,
            (value,), (rows,), Rejected({}, 0, (rejected,)), (said,), (), (),
        )
    )  # fmt: skip


def of_a_trial(of: Drawn) -> None:
    columns = ["window_start", of.table, "measure", "status"]
    report_console().print(rows_table(columns, [(of.time, of.name[:120], of.number, "final")]))


def of_a_proposal(of: Drawn) -> None:
    table = SimpleNamespace(group_by=[of.name], measures=[f"{of.number:,}"])
    columns = [of.name, f"{of.time:%Y-%m-%dT%H:%M:%SZ}"]
    pipeline: Any = SimpleNamespace(
        tables={of.table: table}, source=SimpleNamespace(columns=columns)
    )
    time, found = SimpleNamespace(name=of.name), SimpleNamespace(source={"files": of.name})
    written = SimpleNamespace(zone="UTC", without_zone=of.number, fitting=of.number)
    proposal: Any = SimpleNamespace(
        table=of.table, left_out=[], event_time=time, time_format=written, unique=None
    )
    sampled: Any = found
    report_console().print(facts_table(proposed_facts(pipeline, proposal, sampled)))


TABLES: dict[str, list[Callable[[Drawn], None]]] = {
    "new": [of_a_proposal],
    "try": [of_a_run, of_a_trial],
    "validate": [],
    "doctor": [of_the_set_up],
    "run": [of_a_run, of_several_runs],
    "page": [],
    "publish": [of_a_run],
    "accept": [],
    "migrate": [],
    "rewind": [of_runs_to_go_back_to],
    "remove": [of_a_removal],
    "rename": [],
    "retract": [],
    "erase": [],
    "audit": [],
    "backfill": [],
    "status": [of_status],
    "ops": [],
    "explain": [of_a_story],
    "maintain": [of_maintenance],
    "checkpoint inspect": [of_a_checkpoint],
    "checkpoint doctor": [of_the_doctor],
    "checkpoint housekeep": [of_housekeeping],
    "checkpoint rewind": [of_a_way_back],
    "checkpoint repair": [of_a_way_back],
    "checkpoint restore": [],
    "lease show": [of_a_lease],
    "lease release": [],
    "ledger show": [of_the_ledger],
    "ledger rebuild": [],
    "rejects list": [of_rejects],
    "rejects show": [of_a_reject],
    "rejects export": [],
    "rejects replay": [],
    "state show": [of_state],
    "state compact": [of_compaction],
    "state repartition": [],
    "state read": [of_rows_of_state],
}
_LISTED = {one.__module__ for one in list(globals().values()) if callable(one)}
DRAWN = st.builds(
    Drawn,
    st.text("abcxyz019_:+.-", min_size=1, max_size=250).map(lambda text: f"a{text}"),
    st.integers(1, 10**12),
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(
        lambda time: time.replace(microsecond=0)
    ),
)


def on_screen(show: Callable[[Drawn], None], of: Drawn, width: int | None) -> str:
    """What is printed into a terminal; None: into a file."""
    out = io.StringIO()
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(width), "TERM": "xterm"} if width else {}
    with patch.dict("os.environ", terminal), redirect_stdout(out):
        show(of)
    return re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())


@pytest.mark.slow
@pytest.mark.parametrize("show", dict.fromkeys(chain(*TABLES.values())))
@given(DRAWN, st.sampled_from([80, 120, None]))
def test_no_table_of_a_command_breaks_a_name_a_number_or_a_time(
    show: Callable[[Drawn], None], of: Drawn, width: int | None
) -> None:
    shown = on_screen(show, of, width)
    assert of.name[:120] in shown
    assert of.table in shown
    assert f"{of.number:,}" in shown
    assert re.search(f"{of.time:%Y-%m-%d[T ]%H:%M:%S}", shown)
    for line in shown.splitlines():
        if line.startswith("    ") and width:
            assert len(line) <= width or " " not in line.strip().removeprefix("· "), line


def test_each_command_is_listed_with_its_tables() -> None:
    assert sorted(TABLES) == sorted(map(" ".join, ALL))


def test_every_table_is_printed_by_the_one_door() -> None:
    """A command's module that makes a table is one whose table is listed above; none makes one of
    rich's."""
    made, of_rich = set(), set()
    for file in sorted((ROOT / "include").rglob("*.py")):
        text = file.read_text("utf-8")
        module = ".".join(file.relative_to(ROOT / "include").with_suffix("").parts)
        if re.search(r"\b(report|facts)_table\(", text) and not module.startswith("demo."):
            made.add(module)
        if re.search(r"rich\.(table|box|columns|panel|tree|layout)\b", text):
            of_rich.add(module)
    assert made <= _LISTED
    assert not of_rich


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("names", [(), *ALL], ids=" ".join)
def test_the_help_breaks_no_option_and_no_word(names: tuple[str, ...], width: int) -> None:
    shown = CliRunner().invoke(app, [*names, "--help"], terminal_width=width).output
    command: Any = ALL[names] if names else typer.main.get_command(app)
    words = (command.help or "").split()
    for one in command.params:
        if not getattr(one, "hidden", False):
            flags = [*one.opts, *one.secondary_opts] if one.param_type_name == "option" else []
            words += [*flags, *(one.help or "").split(), *(one.metavar or "").split()]
    missing = [word for word in words if word not in shown]
    assert not missing
    assert max(map(len, shown.splitlines())) <= width
