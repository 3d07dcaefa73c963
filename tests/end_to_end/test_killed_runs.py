"""A run killed anywhere and started again gives what an undisturbed run gives."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Sequence
from itertools import chain
from urllib.parse import unquote

import pytest

from tests.end_to_end.killed_facts import facts_of, runs_of, versions
from tests.end_to_end.killed_input import LATER, REASONS, TABLES, land_third
from tests.end_to_end.killed_runs import (
    ACCEPTANCE,
    BACKFILL,
    CHECKED,
    COLUMN,
    COMPACTION,
    CORRECTED,
    FIRST,
    HOUSEKEEPING,
    LOOK,
    MAINTENANCE,
    REBUILD,
    SEALING,
    SECOND,
    TAKEOVER,
    UNRECORDED,
    Kill,
    Scenario,
    States,
    abandoned,
    end_group,
    finish,
    kill,
    run,
    scheduled,
    states_in,
)
from tests.end_to_end.test_replays import set_newer
from tests.kit.running import Place, start_job

pytestmark = [pytest.mark.process, pytest.mark.long]

SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))
INGESTED = {"bronze", "rejects"}
CHANGES = {f"{name}/changes" for name in TABLES}
GOLD = {f"{name}/gold" for name in TABLES}


@pytest.fixture
def states(tmp_path_factory: pytest.TempPathFactory) -> States:
    return states_in(tmp_path_factory.getbasetemp() / "killed")


def both(
    point: str,
    scenario: Scenario = SECOND,
    of: str = "",
    call: int = 1,
    table: str = "",
    earlier: int = 0,
) -> Sequence[Kill]:
    """Before and after a point; the call is one commit to `table`, which has `earlier` ones."""
    return [
        Kill(point, when, scenario, of, call, (table, earlier + more) if table else None)
        for when, more in (("before", 0), ("after", 1))
    ]


def each(point: str, kind: str, earlier: int = 0) -> Sequence[Kill]:
    """The changes, or gold, of the three modes."""
    tables = [f"{name}/{kind}" for name in TABLES]
    kills = [both(point, of=f"/{table}", table=table, earlier=earlier) for table in tables]
    return list(chain(*kills))


KILLS = [
    *both("lease taken"),
    *both("older leases removed", TAKEOVER),
    *both("table fenced", TAKEOVER, "/bronze", table="bronze"),
    *both("table fenced", TAKEOVER, "/appended/changes", table="appended/changes"),
    *both("table fenced", TAKEOVER, "/completed/gold", table="completed/gold"),
    *both("fence noted", TAKEOVER),
    *both("lease renewed", call=2),
    *both("columns planned", FIRST),
    *both("table made", FIRST, "/bronze'", table="bronze"),
    *both("table made", FIRST, "/updated/gold'", table="updated/gold"),
    *both("table made", FIRST, "/appended/changes'", table="appended/changes"),
    *both("table made", FIRST, "/ops/ledger'", table="ops/ledger"),
    *both("table made", FIRST, "/ops/runs'", table="ops/runs"),
    *both("table adapted", COLUMN, "/bronze", table="bronze"),
    *both("contract recorded", FIRST, call=2),
    *both("contract recorded", COLUMN),
    *both("state of a query that committed nothing removed", CORRECTED, "/updated/"),
    *both("interrupted run recorded", UNRECORDED, table="ops/runs"),
    *both("query started"),
    *both("query started", call=3),
    *both("batch being judged"),
    *both("batch no longer judged"),
    *both("accepted rows", table="bronze"),
    *both("rejected rows", table="rejects"),
    *each("windows of the stream", "changes"),
    *both("recomputed windows", of="/updated/changes", table="updated/changes", earlier=1),
    # In append mode a batch leaves a commit also where it closes no window.
    *both("recomputed windows", of="/appended/changes", table="appended/changes", earlier=2),
    *both("recomputed windows", of="/completed/changes", table="completed/changes", earlier=1),
    *both("recomputed windows", SEALING, "/appended/changes", table="appended/changes", earlier=1),
    *both("ledger", table="ops/ledger"),
    *both("data docs", CHECKED),
    *both("verdicts recorded", CHECKED, table="ops/quality"),
    *each("gold", "gold"),
    *both("gold", SEALING, "/appended/gold", table="appended/gold"),
    *both("expired dates dropped", table="bronze", earlier=1),
    *both("lease released"),
    *both("run recorded", table="ops/runs"),
    *both("result"),
    *both("status recorded"),
    *both("recomputed windows", BACKFILL, "/updated/changes", table="updated/changes"),
    *both("ledger", BACKFILL, table="ops/ledger"),
    *both("gold", BACKFILL, "/updated/gold", table="updated/gold"),
    *both("ledger rebuilt", REBUILD, table="ops/ledger"),
    *both("batches copied", HOUSEKEEPING),
    *both("checkpoint files removed", HOUSEKEEPING, "/updated/"),
    *both("small files packed", MAINTENANCE, "/updated/changes", table="updated/changes"),
    *both("old rejects dropped", MAINTENANCE, table="rejects"),
    *both("old rows dropped", MAINTENANCE, table="ops/upkeep"),
    *both("log checkpoint written", MAINTENANCE),
    *both("unneeded files removed", MAINTENANCE),
    *both("upkeep recorded", HOUSEKEEPING),
    *both("changes by hand accepted", ACCEPTANCE, table="rejects"),
    *both("lease taken", LOOK),
    *both("result", LOOK),
    *both("run recorded", LOOK, table="ops/runs"),
    *both("lease released", LOOK),
    *both("snapshot of state", COMPACTION, "/updated/"),
    *both("snapshot of state", COMPACTION, "/appended/", call=2),
]


@pytest.mark.parametrize("at", KILLS, ids=str)
def test_a_run_killed_at_a_commit_point_and_started_again_equals_an_undisturbed_one(
    states: States, at: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = states.undisturbed(at.scenario)
    place = states.begin(at.scenario)
    if at.point == "lease renewed":
        monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "10")
    kill(place, at)
    if at.scenario in (REBUILD, HOUSEKEEPING, MAINTENANCE, COMPACTION, LOOK):
        # The next run of the pipeline comes first; for some of these, only it takes over.
        again(place, run_id="next")
        run(place, "again", at.scenario)
    elif at.scenario is ACCEPTANCE:
        # Runs stop until it is accepted.
        run(place, "again", at.scenario)
    else:
        again(place, at.scenario)
    assert facts_of(place) == undisturbed.facts


def again(place: Place, scenario: Scenario = SECOND, run_id: str = "again") -> None:
    """The run after a killed one: it takes a lease over that was left, and says so."""
    was_left = abandoned(place)
    result = run(place, run_id, scenario)
    took_over = runs_of(place)[run_id]["took_over"]
    assert (took_over is not None) == was_left
    assert not was_left or took_over.endswith("because its processes are gone")
    assert result is None or result.took_over == took_over


def test_the_run_that_is_killed_here_meets_all_that_a_run_can_meet(states: States) -> None:
    undisturbed = states.undisturbed(SECOND)
    assert all(undisturbed.commits.values()), undisturbed.commits
    assert undisturbed.commits["bronze"] == 2, "retention dropped a date"
    assert undisturbed.result is not None
    assert undisturbed.result.rows.rejected.keys() == REASONS
    for table in undisturbed.result.tables.values():
        assert table.late.corrected
        assert table.close_after_ms > table.close_before_ms > 0


def test_runs_killed_one_after_the_other_and_a_last_one_equal_an_undisturbed_one(
    states: States,
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    ops = {"ops/ledger", "ops/quality"}
    assert kill(place, Kill("rejected rows", "before"), "killed-1") == {"bronze"}
    # Each takes the lease over from the one before, which fences all tables.
    fenced = INGESTED | CHANGES | GOLD
    assert kill(place, Kill("gold", "before", of="/updated/gold"), "killed-2") == fenced | ops
    between_tables = Kill("gold", "before", of="/appended/gold", commits=("updated/gold", 2))
    assert kill(place, between_tables, "killed-3") == fenced | ops
    last = Kill("result", "before", commits=("appended/gold", 2))
    assert kill(place, last, "killed-4") == fenced | {*ops, "ops/runs"}
    again(place)
    assert facts_of(place) == undisturbed.facts


@pytest.mark.parametrize(
    "at",
    [Kill("rejected rows", "before"), Kill("gold", "before", of="/updated/gold")],
    ids=str,
)
def test_a_file_that_arrives_between_the_kill_and_the_next_run_is_taken_along(
    states: States, at: Kill
) -> None:
    place = states.begin(SECOND)
    land_third(place)
    finish(place, "run-2")
    together = facts_of(place)

    place = states.begin(SECOND)
    kill(place, at)
    land_third(place)
    again(place)
    found = facts_of(place)
    for name in ("bronze", "rejects"):
        assert found[name] == together[name]
    for name in TABLES:
        assert _values(found[name]) == _values(together[name]), name
    assert found["frontiers"] == together["frontiers"]


def _values(gold: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Gold without status, revision and date: two publishes may become one."""
    return [row[:-3] for row in gold]


def test_the_schedulers_time_moves_on_after_a_kill_and_changes_no_judgement(
    states: States,
) -> None:
    undisturbed, sealed = states.undisturbed(SECOND), states.undisturbed(SEALING)
    place = states.begin(SECOND)
    kill(place, Kill("rejected rows", "before"))
    finish(place, "later", LATER)
    # It ingested rows, so it seals nothing, though the first of them came hours ago.
    assert facts_of(place) == undisturbed.facts
    finish(place, "later still", LATER)
    assert facts_of(place) == sealed.facts


def test_a_source_file_that_changes_after_a_kill_is_one_reject_and_bronze_keeps_its_rows(
    states: States,
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    kill(place, Kill("rejected rows", "before"))
    changed = place.root / "landing" / "3.json"
    changed.write_text('{"at": "2026-07-01T10:00:00Z", "key": "new", "amount": 1}\n')
    set_newer(changed)
    again(place)
    found = facts_of(place)
    for name in ("bronze", *TABLES):
        assert found[name] == undisturbed.facts[name], name
    rejects = [r for r in place.rejects().to_pylist() if unquote(r["_file"]).endswith("3.json")]
    assert [reject["reason"] for reject in rejects] == ["changed file"]


def test_rows_that_come_after_a_killed_seal_are_in_time_and_the_windows_stay_open(
    states: States,
) -> None:
    states.undisturbed(SECOND)
    place = states.begin(SEALING)
    land_third(place)
    finish(place, "run-3", LATER)
    together = facts_of(place)

    place = states.begin(SEALING)
    kill(place, Kill("gold", "before", SEALING, "/updated/gold"))
    land_third(place)
    again(place, SEALING)
    found = facts_of(place)
    assert found["frontiers"] == together["frontiers"]
    assert found["updated"] == together["updated"]
    assert found["completed"] == together["completed"]
    assert found["appended"] == together["appended"]


def test_a_run_that_was_published_and_not_recorded_is_recorded_by_the_next_one(
    states: States,
) -> None:
    place = states.begin(UNRECORDED)
    assert "killed-unrecorded" not in runs_of(place)
    again(place)
    recorded = runs_of(place)["killed-unrecorded"]
    assert recorded["outcome"] == "interrupted"
    assert {table["table"] for table in recorded["tables"]} == TABLES.keys()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_run_killed_at_a_random_moment_and_started_again_equals_an_undisturbed_one(
    states: States, number: int
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    share = random.Random(SEED + number).uniform(0.2, 1)
    seconds = share * undisturbed.seconds
    print(f"TIDEMARK_TEST_SEED={SEED}: killed after {share:.0%} of {undisturbed.seconds:.1f} s")
    job = start_job(place, "killed", arguments=scheduled(SECOND.scheduled))
    try:
        job.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        end_group(job.pid)
    job.communicate()
    print(f"committed by then: {versions(place)}")
    again(place)
    assert facts_of(place) == undisturbed.facts
