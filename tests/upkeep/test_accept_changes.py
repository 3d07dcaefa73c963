"""What `tidemark accept` refuses of rows that were changed by hand, and what it notes of others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.killed import Killed, killed
from tests.operators.contract.joins import OTHER, PartnerPlace
from tests.operators.contract.kinds import KINDS, TABLE, KindPlace
from tests.recompute.test_retract_refusals import LATER, act, place_of
from tidemark.errors import AcceptanceRefused, ClockWrong, RetractionUnfinished
from tidemark.gold.plan import noted_name
from tidemark.operators.joins.joins import input_name
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.unfinished_act import ActKind, PipelineAct, stop_for
from tidemark.sources.delta.following import NEW_ROWS
from tidemark.sources.notes import SourceNotes, write_source_notes
from tidemark.storage.delta.notes import PublishedNote, as_metadata
from tidemark.story.explain import _Gathering
from tidemark.upkeep.accept_changes import accept_changes, changed_by_hand

# Windows of 10 minutes that ended until then are closed. A row matches those of the other side
# from a minute before it on.
CLOSE = datetime(2026, 7, 18, 11, 30, tzinfo=UTC)
PUBLISHED = PublishedNote(run="run", started_at=CLOSE)


@dataclass(frozen=True)
class Joined:
    """A pipeline whose gold was published from the other pipeline's bronze as it is."""

    place: KindPlace
    other: PartnerPlace

    @property
    def bronze(self) -> DeltaTable:
        return self.other.warehouse.bronze.existing()

    @property
    def gold(self) -> DeltaTable:
        return self.place.warehouse.gold(TABLE).existing()

    def removed_and_restored(self) -> None:
        """By hand: what comes back is only added."""
        version = self.bronze.version()
        self.bronze.delete("id = 'a'")
        self.bronze.restore(version)

    def accept(self) -> None:
        accept_changes(self.place.pipeline, self.place.settings, "accept", "put back", "Ada")

    def told(self) -> dict[str, list[str]]:
        """By whose table it is: which operations of somebody wait to be accepted."""
        found = changed_by_hand(self.place.pipeline, self.place.settings)
        return {loss.name: [one.operation for one in loss.by_hand] for loss in found}


def joined(root: Path, at: datetime) -> Joined:
    """With a row of that event time in the other bronze."""
    found = Joined(KindPlace(root, kind=KINDS["joins-left"]), PartnerPlace(root, name=OTHER))
    found.other.make()
    found.other.append([{"at": at, "key": "a", "amount": 5}])
    name = noted_name(input_name(OTHER), str(found.bronze.metadata().id))
    said = {"identities": 1, "changes": 0, "close": epoch_ms(CLOSE), name: found.bronze.version()}
    properties = CommitProperties(
        app_transactions=[Transaction(*one) for one in said.items()],
        custom_metadata=as_metadata(PUBLISHED),
    )
    rows = pa.table({"key": ["a", "b"]})
    write_deltalake(found.place.places.gold(TABLE), rows, commit_properties=properties)
    return found


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_rows_put_back_into_the_other_bronze_are_refused_where_a_join_would_count_them_again(
    tmp_path: Path, is_open: bool
) -> None:
    first = CLOSE - timedelta(minutes=1)
    found = joined(tmp_path, first if is_open else first - timedelta(milliseconds=1))
    assert found.told() == {}
    found.removed_and_restored()
    if not is_open:
        assert found.told() == {input_name(OTHER): ["DELETE", "RESTORE"]}
        found.accept()
        assert found.told() == {}
        return
    version = found.gold.version()
    for ask in (found.told, found.accept):
        with pytest.raises(AcceptanceRefused, match=r"by hand in version 3 \(RESTORE") as refused:
            ask()
    said = str(refused.value)
    assert "with event times from 2026-07-18T11:29:00Z on" in said
    assert f"Nothing was written. Put the table back from a backup, or compute {TABLE} from" in said
    assert f"`tidemark migrate clicks --rebuild {TABLE}`" in said
    assert found.gold.version() == version


def test_rows_by_hand_behind_the_year_9999_are_refused_as_such_that_are_not_known(
    tmp_path: Path,
) -> None:
    """Milliseconds that somebody took for seconds, say."""
    found = joined(tmp_path, CLOSE)
    rows = found.bronze.to_pyarrow_table()
    at = rows.schema.get_field_index("ordered")
    far = pa.array([1_782_900_000_000 * 1_000_000], pa.int64()).cast(rows.schema.field(at).type)
    rows = rows.slice(0, 1).set_column(at, rows.schema.field(at), far)
    write_deltalake(found.other.places.bronze, rows, mode="append")
    with pytest.raises(AcceptanceRefused, match="or such as its log does not tell"):
        found.told()


def test_rows_that_went_from_the_other_bronze_are_accepted_also_of_open_windows(
    tmp_path: Path,
) -> None:
    """The stream passes over the commit."""
    found = joined(tmp_path, CLOSE + timedelta(minutes=1))
    found.bronze.delete("id = 'a'")
    assert found.told() == {input_name(OTHER): ["DELETE"]}
    found.accept()
    assert found.told() == {}


def test_an_acceptance_that_is_killed_behind_the_other_bronze_has_accepted_nothing_of_gold(
    tmp_path: Path,
) -> None:
    found = joined(tmp_path, CLOSE)
    found.gold.delete("key = 'b'")
    for _ in range(3):
        found.bronze.update({"cost": "cost + 1"}, predicate="id = 'a'")
    assert list(found.told()) == [input_name(OTHER), "gold"]
    with killed("after", "changes by hand accepted"), pytest.raises(Killed):
        found.accept()
    assert found.told() == {"gold": ["DELETE"]}
    found.accept()
    assert found.told() == {}
    # Who asks about a row of gold is told what was accepted of gold, and not of the other bronze.
    place = found.place
    story = _Gathering(place.pipeline, place.settings, place.warehouse, TABLE, found.gold)
    notes = list[str]()
    assert [(one.table, one.up_to) for one in story._accepted(notes)] == [("gold", 1)]
    assert notes == []


def test_a_clock_that_is_apart_while_changes_are_followed_can_be_accepted_alone(
    tmp_path: Path,
) -> None:
    place, uri = place_of(tmp_path, "id"), str(tmp_path / "sales")
    for number in (1, 2):
        one = {"id": [number], "shop": ["a"], "at": pa.array([CLOSE], pa.timestamp("us", "UTC"))}
        write_deltalake(uri, pa.table(one), mode="append")
    source, ingest = place.run("next").source, place.run("next").ingest_checkpoint()
    (step,) = source.steps(ingest)
    ahead = epoch_ms(datetime.now(UTC) + timedelta(days=2))
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": ahead, "conf": {}})
    for log, text in (("offsets", f"{head}\n{step.text}"), ("commits", "{}")):
        Path(ingest.uri, log).mkdir(parents=True)
        Path(ingest.uri, log, "0").write_text(f"v1\n{text}")
    DeltaTable(uri).update(updates={"shop": "'b'"}, predicate="id = 2")
    following = source.to_follow(ingest)
    assert following is not None
    found = following(LATER)
    act(place, LATER, key=("id",))
    Path(place.places.retractions, LATER, NEW_ROWS).write_bytes(found.new_rows or b"")
    stop_for(place.warehouse, PipelineAct(ActKind.FOLLOWING, LATER))
    write_source_notes(ingest, SourceNotes(followed=found.follows))

    def starts() -> None:
        finishes = ActKind.FOLLOWING
        with pipeline_lease(place.pipeline, place.settings, "run", "stream", finishes=finishes):
            pass

    with pytest.raises(ClockWrong):
        starts()
    accepted = accept_changes(place.pipeline, place.settings, "accept", "clock set", "Ada")
    assert (accepted.by_hand, accepted.lost, accepted.of_file, len(accepted.clock)) == (
        (),
        (),
        (),
        1,
    )
    starts()
    with pytest.raises(RetractionUnfinished):
        accept_changes(place.pipeline, place.settings, "again", "clock set", "Ada")
