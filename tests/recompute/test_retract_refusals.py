"""Why rows are not brought back, told without Spark."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.running import Place, clicks, quiet
from tidemark.errors import (
    ErasureUnproven,
    RetractionRefused,
    RetractionUnfinished,
    RetractionUnproven,
)
from tidemark.recompute.erase.change import Erasure
from tidemark.recompute.erase.record import keep_erasure
from tidemark.recompute.plans import CHANGE
from tidemark.recompute.retract.change import RetractedTable, Retraction
from tidemark.recompute.retract.record import keep_change
from tidemark.recompute.retract.refusals import (
    changed_up_to,
    check_followed_as_begun,
    check_followed_as_then,
)
from tidemark.recompute.rewind.input import notes_up_to
from tidemark.runs.unfinished_act import ActKind, PipelineAct, stop_for, unfinished_act
from tidemark.sources.delta.following import NEW_ROWS
from tidemark.sources.notes import (
    Followed,
    FollowedOffsets,
    FollowedVersions,
    SourceNotes,
    source_notes,
    write_source_notes,
)
from tidemark.sources.planned_source import FollowedSourceHandle
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.rows import Rows
from tidemark.upkeep.accept_changes import accept_changes

TABLES = {"t": {"window": {"length": "10 minutes"}, "measures": {"n": "count(*)"}}}
COLUMNS = {"id": "long not null", "shop": "string not null", "at": "timestamp"}
BEFORE, PERSONS, LATER = (f"20260701T00000{number}Z" for number in range(3))


def place_of(root: Path, key: Any = None) -> Place:
    delta = {"table": "sales", **({"changes": "follow", "key": key} if key else {})}
    source = {"delta": delta, "columns": COLUMNS, "event_time": {"column": "at"}}
    return Place(root, clicks(source=source, tables=TABLES))


def act(
    place: Place,
    of: str,
    follows: bool = True,
    key: tuple[str, ...] | None = None,
    tables: tuple[RetractedTable, ...] = (),
) -> None:
    followed = FollowedVersions(id="t", begin=1, next=2, mark=None, act=of) if follows else None
    change = Retraction(
        id=of, run_id=f"retract__{of}", pipeline=place.name, by="Ada", reason="r", what="of it",
        planned_at=datetime(2026, 7, 1, tzinfo=UTC), condition="false", bronze=1, rows=1,
        dates=(), tables=tables, follows=followed, key=key,
    )  # fmt: skip
    keep_change(change, place.warehouse)


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        (("id",), None, "by the key id, and the pipeline's file follows no changes by now"),
        (("id",), ["shop", "id"], "by the key id, and the pipeline's file follows by shop, id"),
        (None, "id", "by a key that was not noted"),
        (None, None, "by a key that was not noted"),
    ],
)
def test_what_was_followed_by_another_key_since_keeps_rows_from_coming_back(
    tmp_path: Path, then: tuple[str, ...] | None, now: Any, told: str
) -> None:
    place = place_of(tmp_path, now)
    act(place, PERSONS, follows=False)
    act(place, LATER, key=then)
    with pytest.raises(RetractionRefused, match=f"The act {LATER} followed .*{told}") as refused:
        check_followed_as_then(place.run("undo"), PERSONS)
    assert "Nothing was changed. Set `changes` and `key` as they were" in str(refused.value)


def test_what_was_followed_by_the_same_key_or_before_is_no_reason(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    act(place, BEFORE, key=("id",))
    act(place, PERSONS, follows=False)
    act(place, LATER, follows=False)
    # One that was killed before it had a plan.
    Path(place.places.retractions, f"{LATER}0").mkdir()
    check_followed_as_then(place.run("undo"), PERSONS)
    following = place_of(tmp_path, "id")
    act(following, LATER, key=("id",))
    check_followed_as_then(following.run("undo"), PERSONS)


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        (("id",), None, "by the key id, and the pipeline's file follows no changes by now"),
        (("id",), ["shop", "id"], "by the key id, and the pipeline's file follows by shop, id"),
        (None, None, "by a key that was not noted, and the pipeline's file follows no changes"),
    ],
)
def test_what_is_being_followed_by_another_key_keeps_a_run_from_reading(
    tmp_path: Path, then: tuple[str, ...] | None, now: Any, told: str
) -> None:
    place = place_of(tmp_path, now)
    act(place, LATER, key=then)
    stop_for(place.warehouse, PipelineAct(ActKind.FOLLOWING, LATER))
    with pytest.raises(RetractionRefused, match=f"is being followed {told}") as refused:
        check_followed_as_begun(place.run("next"))
    assert "Put `changes` and `key` back, run the pipeline" in str(refused.value)


def test_a_run_that_may_not_finish_what_is_being_followed_begins_nothing(tmp_path: Path) -> None:
    """Else it records the file as taken, and reads newer messages as plain rows."""
    from tidemark.streaming.jobs.stream import run_once

    def session(*_: object) -> Any:
        pytest.fail("a session is started")

    place = place_of(tmp_path)
    act(place, LATER, key=("id",))
    stop_for(place.warehouse, PipelineAct(ActKind.FOLLOWING, LATER))
    result = run_once(place.run("next"), quiet(), datetime.now(UTC), hold=False, session=session)
    assert result.error is not None
    assert result.error.type == "RetractionRefused"
    assert not Path(place.places.bronze).exists()
    assert not Path(place.run("next").ingest_checkpoint().uri).exists()


def test_what_is_being_followed_by_the_key_of_the_file_is_finished(tmp_path: Path) -> None:
    place = place_of(tmp_path, "id")
    check_followed_as_begun(place.run("next"))
    # A former version noted no key.
    for of, key in ((BEFORE, None), (LATER, ("id",))):
        act(place, of, key=key)
        stop_for(place.warehouse, PipelineAct(ActKind.FOLLOWING, of))
        check_followed_as_begun(place.run("next"))
    other = place_of(tmp_path)
    stop_for(other.warehouse, PipelineAct(ActKind.RETRACTION, LATER))
    check_followed_as_begun(other.run("next"))


FORMER = FollowedVersions(id="t", begin=1, next=2, mark=None, act=LATER)


@pytest.mark.parametrize(
    ("followed", "up_to"),
    [
        (FORMER.model_copy(update={"after": 3}), 3),
        (FollowedOffsets(offset="{}", after=4, act=LATER), 4),
        (FORMER, sys.maxsize),
    ],
)
def test_rejects_of_batches_that_the_source_has_changed_since_are_told(
    tmp_path: Path, followed: Followed, up_to: int
) -> None:
    """Also where the file follows nothing any more; of a former version, which noted no batch, all
    may be others by now."""
    run = place_of(tmp_path).run("replay")
    assert changed_up_to(run) == -1
    write_source_notes(run.ingest_checkpoint(), SourceNotes(followed=followed))
    assert changed_up_to(run) == up_to


def test_what_a_rewind_forgets_to_have_been_followed_the_plans_tell(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    act(place, PERSONS, follows=False)
    assert changed_up_to(place.run("replay")) == -1
    act(place, LATER)
    assert changed_up_to(place.run("replay")) == sys.maxsize


@pytest.mark.parametrize(
    "followed",
    [FORMER.model_copy(update={"after": 4}), FollowedOffsets(offset="{}", after=4, act=LATER)],
    ids=["versions", "messages"],
)
def test_a_rewind_behind_what_was_followed_does_not_forget_it(
    tmp_path: Path, followed: Followed
) -> None:
    """An erasure removes the plans."""
    ingest = place_of(tmp_path).run("rewind").ingest_checkpoint()
    for batch, up_to in ((9, 4), (5, 4), (4, -1), (3, -1)):
        write_source_notes(ingest, SourceNotes(followed=followed))
        text = notes_up_to(ingest, batch)
        assert text is not None
        write_source_notes(ingest, SourceNotes.model_validate_json(text))
        assert changed_up_to(place_of(tmp_path).run("replay")) == up_to


@pytest.mark.parametrize("kind", [ActKind.FOLLOWING, ActKind.RETRACTION])
def test_a_table_that_is_out_of_the_file_keeps_an_act_from_being_finished(
    tmp_path: Path, kind: ActKind
) -> None:
    """It could begin no generation, once bronze has lost the rows."""
    from tidemark.streaming.jobs import retract

    place = place_of(tmp_path, "id")
    tables = tuple(RetractedTable(table=one, gold=1, newest_generation=1) for one in ("t", "gone"))
    act(place, LATER, follows=kind is ActKind.FOLLOWING, key=("id",), tables=tables)
    stop_for(place.warehouse, PipelineAct(kind, LATER))
    told = (
        f"has no table gone, and had it when the {kind} {LATER} was planned.*nothing.*Put it back"
    )
    begun: Any = SimpleNamespace(run=place.run("next"), asked=SimpleNamespace(finishes=True))
    with pytest.raises(RetractionUnproven, match=told):
        retract._begun(begun, cast("Any", None), retract.RetractedSoFar())
    if kind is ActKind.FOLLOWING:
        with pytest.raises(RetractionUnproven, match=f"{told}.*`tidemark run clicks`"):
            check_followed_as_begun(place.run("next"))


def test_an_erasure_asks_for_its_tables_until_only_the_last_step_is_left(tmp_path: Path) -> None:
    from tidemark.streaming.jobs import erase

    place = place_of(tmp_path)
    stop_for(place.warehouse, PipelineAct(ActKind.ERASURE, LATER))
    begun: Any = SimpleNamespace(run=place.run("next"), asked=SimpleNamespace(finishes=True))
    assert erase._begun(begun, cast("Any", None), erase.ErasedSoFar()) is None
    gone = RetractedTable(table="gone", gold=1, newest_generation=1)
    plan = Erasure(
        id=LATER, run_id="erase__x", pipeline=place.name, by="Ada", reason="r", erased=(),
        planned_at=datetime(2026, 7, 1, tzinfo=UTC), tables=(gone,),
    )  # fmt: skip
    keep_erasure(plan, place.warehouse)
    with pytest.raises(
        ErasureUnproven, match=r"has no table gone.*`tidemark erase clicks --apply`"
    ):
        erase._begun(begun, cast("Any", None), erase.ErasedSoFar())


def test_only_input_that_is_gone_is_accepted_while_it_is_followed(tmp_path: Path) -> None:
    """The run that is to finish it could not read else; of the tables in between nobody judges."""
    place, uri = place_of(tmp_path, "id"), str(tmp_path / "sales")
    at = pa.array([datetime(2026, 7, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    for number in (1, 2):
        write_deltalake(uri, pa.table({"id": [number], "shop": ["a"], "at": at}), mode="append")
    run = place.run("next")
    source, ingest = run.source, run.ingest_checkpoint()
    assert isinstance(source, FollowedSourceHandle)
    (step,) = source.steps(ingest)
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
    for log, text in (("offsets", f"{head}\n{step.text}"), ("commits", "{}")):
        Path(ingest.uri, log).mkdir(parents=True)
        Path(ingest.uri, log, "0").write_text(f"v1\n{text}")
    DeltaTable(uri).update(updates={"shop": "'b'"}, predicate="id = 2")
    change = source.to_follow(ingest)
    assert change is not None
    found = change(LATER)
    act(place, LATER, key=("id",))
    Path(place.places.retractions, LATER, NEW_ROWS).write_bytes(found.new_rows or b"")
    following = PipelineAct(ActKind.FOLLOWING, LATER)
    stop_for(place.warehouse, following)
    write_source_notes(ingest, SourceNotes(followed=found.follows))
    with pytest.raises(RetractionUnfinished, match="The next run finishes it"):
        accept_changes(place.pipeline, place.settings, "r", "known", "Ada")
    newest = max(DeltaTable(uri).file_uris(), key=lambda one: Path(one).stat().st_mtime_ns)
    Path(newest).unlink()
    accepted = accept_changes(place.pipeline, place.settings, "r", "vacuumed", "Ada")
    assert [one.reason for one in accepted.lost] == ["gone"]
    assert (accepted.by_hand, accepted.of_file) == ((), ())
    assert [one.accepted for one in source_notes(ingest).lost] == ["vacuumed"]
    assert unfinished_act(place.warehouse) == following
    with pytest.raises(RetractionUnfinished):
        accept_changes(place.pipeline, place.settings, "r", "again", "Ada")


def test_a_plan_of_a_former_version_notes_no_key(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    act(place, LATER, key=("id",))
    file = Path(place.places.retractions, LATER, CHANGE)
    plan = json.loads(file.read_text())
    assert plan.pop("key") == ["id"]
    assert Retraction.model_validate_json(json.dumps(plan)).key is None


@pytest.mark.parametrize(
    ("batch", "oldest", "of_run", "refused"),
    [
        (0, 1, "first", None),
        (7, 0, "first", None),
        (7, 1, "first", "batch 7"),
        (0, 2, "second", None),
        (0, 3, "second", "batch 2"),
        (0, 5, "second", "batch 4"),
    ],
)
def test_a_run_whose_first_batches_the_log_may_not_name_any_more_is_not_retracted(
    tmp_path: Path, batch: int, oldest: int, of_run: str, refused: str | None
) -> None:
    """Only its later ones would go: the table has this batch in version 1, and its log goes back to
    the oldest version."""
    from tidemark.streaming.recompute.retraction import _batches

    run = place_of(tmp_path).run("retract")
    uri, rows = run.warehouse.bronze.uri, pa.table({"_batch": pa.array([0])})
    DeltaTable.create(uri, rows.schema)
    ends = {"first": (0, 2), "second": (2, 5)}
    batches = {one: [*range(batch + a, batch + b)] for one, (a, b) in ends.items()}
    for one, numbers in batches.items():
        for number in numbers:
            note = as_metadata(IngestNote(query="q", batch=number, rows=Rows(), run=one))
            noted = CommitProperties(custom_metadata=note)
            write_deltalake(uri, rows, mode="append", commit_properties=noted)
    run.warehouse.bronze.existing().create_checkpoint()
    for entry in Path(uri, "_delta_log").glob("*.json"):
        if int(entry.stem) < oldest:
            entry.unlink()
    if refused is None:
        assert _batches(run, of_run) == batches[of_run]
        return
    told = f"no longer tells where this run began: .*{refused}, .*Name `_batch` by --where"
    with pytest.raises(RetractionRefused, match=told):
        _batches(run, of_run)
