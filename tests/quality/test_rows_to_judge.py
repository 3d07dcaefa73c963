"""The checks of a source are asked of each row before it is published: of a run's own rows, and of
those that a run left which was killed or failed behind its ingest."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.windows import at, window
from tests.quality.held import BEGAN, NOW, Held, verdict_of
from tidemark.gold.pins import Dependency
from tidemark.quality import record, rows_to_judge
from tidemark.quality.record import record_verdicts
from tidemark.quality.rows_to_judge import RowsToJudge
from tidemark.quality.verdicts import CheckVerdict
from tidemark.runs.recorded_runs import record_run
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.ops import newest_rows
from tidemark.storage.delta.rows import Rows

GOOD, BAD = Rows(read=100, accepted=100), Rows(read=4, accepted=2, rejected={"malformed": 2})
CHECK = {"fail": {"rejected_share": {"at_most": 0.05}}}
KEPT = CheckVerdict(table=None, check="any", severity="fail", passed=True, observed="", rows=0)


class Source:
    """A held pipeline whose bronze and rejects get commits as batches of ingest make them."""

    def __init__(self, root: Path, *checks: dict[str, Any]) -> None:
        self.held = Held(root, [], checks)
        self.places = {
            "bronze": self.held.place.places.bronze,
            "rejects": self.held.place.places.rejects,
        }
        for name in self.places:
            self.commit(name, {})

    def commit(self, name: str, metadata: dict[str, str]) -> None:
        """One commit, with a row that nobody reads."""
        noted = CommitProperties(custom_metadata=metadata)
        rows = pa.table({"raw": ["x"]})
        write_deltalake(self.places[name], rows, mode="append", commit_properties=noted)

    def batch(self, number: int, rows: Rows, run: str = "killed") -> None:
        """What a batch commits: a run that is killed behind it leaves this, and nothing else."""
        note = as_metadata(IngestNote(query="q", batch=number, rows=rows, run=run))
        for name, count in (("bronze", rows.accepted), ("rejects", sum(rows.rejected.values()))):
            if count:
                self.commit(name, note)

    @property
    def versions(self) -> dict[str, int]:
        return {name: DeltaTable(uri).version() for name, uri in self.places.items()}

    def run(self, run_id: str, hours: int, rows: Rows, *batches: int) -> RunResult:
        """A run that began so many hours later, and read these batches itself."""
        began = BEGAN + timedelta(hours=hours)
        read = {"ingest": list(batches)} if batches else {}
        told = {"rows": rows, "batches": read, "versions": self.versions}
        changed = window(at(10), key="a", total=1)
        return self.held.run(changed, run_id=run_id, began=began, told=told)

    def seen(self, run: RunResult, check: str = "rejected_share") -> tuple[bool, str]:
        found = verdict_of(self.held.gated(run), check)
        return found.passed, found.observed


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path, CHECK)


def test_what_a_killed_run_has_read_is_judged_by_the_run_that_would_publish_it(
    source: Source,
) -> None:
    source.batch(0, BAD)
    gated = source.held.gated(source.run("next", 1, Rows()))
    assert gated.run.error is not None
    assert gated.run.error.type == "ChecksFailed"
    assert verdict_of(gated, "rejected_share").observed == (
        "0.5 (2 of 4 rows, 4 of them read by runs that were never judged)"
    )


def test_a_batch_of_rejects_alone_is_judged_too(source: Source) -> None:
    source.batch(0, Rows(read=9, rejected={"malformed": 9}))
    assert not source.seen(source.run("next", 1, Rows()))[0]


def test_a_batch_that_a_run_finishes_is_counted_once(source: Source) -> None:
    source.batch(0, BAD)
    assert source.seen(source.run("next", 1, BAD, 0)) == (False, "0.5 (2 of 4 rows)")


def test_it_is_judged_with_the_rows_that_the_run_read_itself(source: Source) -> None:
    source.batch(0, BAD)
    source.batch(1, GOOD, run="next")
    told = "0.01923 (2 of 104 rows, 4 of them read by runs that were never judged)"
    assert source.seen(source.run("next", 1, GOOD, 1)) == (True, told)


def test_what_one_validation_has_judged_keeps_no_later_run_back(source: Source) -> None:
    source.batch(0, BAD)
    assert not source.seen(source.run("told", 1, Rows()))[0]
    assert source.seen(source.run("next", 2, Rows())) == (True, "0 (0 of 0 rows)")


def test_a_try_that_was_killed_after_one_that_was_judged_is_judged_by_the_next_try(
    source: Source,
) -> None:
    source.batch(0, BAD, run="same")
    assert not source.seen(source.run("same", 1, BAD, 0))[0]
    source.batch(1, BAD, run="same")
    assert not source.seen(source.run("same", 2, Rows()))[0]


def test_a_validation_that_is_repeated_judges_the_same_rows(source: Source) -> None:
    source.batch(0, BAD)
    run = source.run("next", 1, Rows())
    first = source.seen(run)
    source.batch(1, BAD)
    assert source.seen(source.run("later", 2, Rows()))[0] is False
    once = source.held.verdicts()
    assert source.seen(run) == first
    assert source.held.verdicts() == once


def test_what_is_published_is_not_judged_again(source: Source) -> None:
    source.batch(0, BAD)
    run = source.run("published", 1, Rows())
    rests_on = {
        name: Dependency(id=str(DeltaTable(uri).metadata().id), at=source.versions[name])
        for name, uri in source.places.items()
    }
    pins = run.tables["per_10m"].model_copy(update={"rests_on": rests_on})
    source.held.windows.publish(pins)
    next_run = source.run("next", 2, Rows())
    next_run = next_run.model_copy(update={"tables": {"per_10m": pins}})
    assert source.seen(next_run) == (True, "0 (0 of 0 rows)")


def test_commits_that_were_judged_are_not_read_again(source: Source) -> None:
    for name in source.places:
        # Who reads this one fails.
        source.commit(name, {"userMetadata": '{"kind": "ingest", "version": 99}'})
        source.commit(name, {})
    judged = source.run("before", 1, Rows())
    quality = source.held.place.warehouse.quality
    record_verdicts(quality, judged, NOW, [KEPT], versions=judged.versions)
    assert source.seen(source.run("idle", 2, Rows())) == (True, "0 (0 of 0 rows)")
    source.batch(0, GOOD)
    assert source.seen(source.run("next", 3, Rows()))[0]


def test_rows_of_a_run_that_failed_are_judged_with_those_of_the_next_and_are_no_measure_of_them(
    tmp_path: Path,
) -> None:
    source = Source(tmp_path, {"warn": {"rows_per_run": {"last_runs": 1, "at_least": 0.5}}})
    source.batch(0, GOOD)
    judged = source.run("judged", 1, GOOD, 0)
    source.seen(judged, "rows_per_run")
    record_run(source.held.place.warehouse.runs, judged)
    source.batch(1, BAD)
    failed = source.run("failed", 2, BAD, 1)
    record_run(source.held.place.warehouse.runs, failed)
    assert source.seen(source.run("next", 3, Rows()), "rows_per_run") == (
        False,
        "4 rows, 4 of them read by runs that were never judged, 0.04 times the mean 100.0 of 1",
    )


@pytest.fixture
def former(source: Source, monkeypatch: pytest.MonkeyPatch) -> Source:
    """What a former version left, which noted with no verdict how far it judges: a run that was
    published although a check failed, and whose rows changed no window that gold would note."""
    source.batch(0, BAD)
    run = source.run("overridden", 1, BAD, 0)
    fields = [one for one in record.SCHEMA if one.name != "versions"]
    with monkeypatch.context() as before:
        before.setattr(record, "SCHEMA", pa.schema(fields))
        record_verdicts(source.held.place.warehouse.quality, run, NOW, [KEPT], versions={})
    assert "versions" not in source.held.verdicts()[0]
    published = run.model_copy(update={"held": False})
    record_run(source.held.place.warehouse.runs, published)
    return source


def test_the_first_run_after_an_upgrade_judges_no_rows_that_are_published(former: Source) -> None:
    former.batch(1, GOOD, run="next")
    assert former.seen(former.run("next", 2, GOOD, 1)) == (True, "0 (0 of 100 rows)")


def test_the_first_run_after_an_upgrade_judges_what_was_read_since_the_last_publish(
    former: Source,
) -> None:
    former.batch(1, BAD)
    # Neither of these has published: a backfill notes how far bronze was, and no rejects.
    failed = former.run("failed", 2, BAD, 1).model_copy(update={"outcome": "failed"})
    filled = former.run("filled", 3, Rows()).model_copy(
        update={"held": False, "versions": {"bronze": former.versions["bronze"]}}
    )
    for run in (failed, filled, former.run("held", 4, Rows())):
        record_run(former.held.place.warehouse.runs, run)
    told = "0.5 (2 of 4 rows, 4 of them read by runs that were never judged)"
    assert former.seen(former.run("next", 5, Rows())) == (False, told)
    assert former.seen(former.run("later", 6, Rows())) == (True, "0 (0 of 0 rows)")


def test_how_far_was_judged_is_looked_for_in_the_newest_verdicts_alone(
    former: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def asking(table: DeltaTable, pipeline: str, time: str, number: int) -> list[dict[str, Any]]:
        asked.append(number)
        return newest_rows(table, pipeline, time, number)

    monkeypatch.setattr(rows_to_judge, "newest_rows", asking)
    earlier = former.run("next", 2, Rows())
    assert RowsToJudge(earlier, former.held.place.warehouse).earlier == Rows()
    # Once of verdicts, which have no such column, and once of runs.
    assert asked == [1, 1]
    # Verdicts of acts tell no versions either.
    many = [KEPT.model_copy(update={"check": f"{number}"}) for number in range(2_000)]
    act = former.run("act", 3, Rows())
    record_verdicts(former.held.place.warehouse.quality, act, NOW, many)
    asked.clear()
    later = former.run("later", 4, Rows())
    assert RowsToJudge(later, former.held.place.warehouse).earlier == Rows()
    assert asked == [1, 4, 16, 64, 256, 1]
