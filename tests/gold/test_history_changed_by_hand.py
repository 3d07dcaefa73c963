"""What somebody deletes, updates or restores in `changes` comes into no gold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.windows import Windows, at, window
from tidemark.errors import TableLost
from tidemark.gold.pins import Dependency
from tidemark.storage.delta.notes import AcceptedNote
from tidemark.storage.delta.place import TablePlace
from tidemark.upkeep.accept_changes import _accept


def delete(changes: DeltaTable) -> None:
    changes.delete("total < 3")


def update(changes: DeltaTable) -> None:
    changes.update(updates={"total": "total + 10"}, predicate="total < 3")


def restore(changes: DeltaTable) -> None:
    newest = changes.version()
    changes.delete("total < 3")
    changes.restore(newest)


@pytest.mark.parametrize("by_hand", [delete, update, restore])
def test_gold_is_as_it_was_and_takes_what_is_appended_since(
    tmp_path: Path, by_hand: Callable[[DeltaTable], None]
) -> None:
    found = Windows(tmp_path)
    for total in (1, 2, 3):
        found.change(window(at(10), key="a", total=total, rows=total))
    found.publish_at(at(11))
    before = found.gold("key", "total", "status", "revision")
    by_hand(DeltaTable(found.changes_uri))
    found.publish_at(at(12), "next")
    assert found.gold("key", "total", "status", "revision") == before
    found.change(window(at(10), key="a", total=4, rows=4))
    found.publish_at(at(12), "last")
    assert found.gold("key", "total", "status") == [("a", 4, "corrected")]


def test_rows_of_gold_that_went_by_hand_stop_a_publish_until_that_is_accepted(
    tmp_path: Path,
) -> None:
    found = Windows(tmp_path)
    for key in ("a", "b"):
        found.change(window(at(10), key=key, total=1))
    changes = DeltaTable(found.changes_uri)
    rests_on = {"changes": Dependency(id=str(changes.metadata().id), at=changes.version())}

    def publish(hour: int, run: str) -> None:
        found.publish(found.pin(at(hour)).model_copy(update={"rests_on": rests_on}), run)

    publish(11, "first")
    gold = DeltaTable(found.gold_uri)
    gold.delete("key = 'b'")
    found.change(window(at(10), key="a", total=2))
    for _ in range(2):
        with pytest.raises(TableLost, match=r"version \d+ \(DELETE, .*Nothing was published"):
            publish(12, "next")
    assert found.gold("key", "total") == [("a", 1)]
    # What is accepted of the other bronze of a join is none of gold's, as a former version noted it
    # neither.
    for up_to in (-1, 57):
        of_other = AcceptedNote(up_to=up_to, reason="meant there", by="Ada")
        _accept(TablePlace(found.gold_uri), of_other, {"bronze/clicks/id/accepted": 57})
        with pytest.raises(TableLost, match=r"version \d+ \(DELETE, .*Nothing was published"):
            publish(12, "next")
    note = AcceptedNote(up_to=gold.version(), reason="meant", by="Ada")
    _accept(TablePlace(found.gold_uri), note)
    publish(12, "next")
    assert found.gold("key", "total") == [("a", 2)]


def test_rows_that_gold_got_by_hand_stop_its_first_publish(tmp_path: Path) -> None:
    found = Windows(tmp_path)
    found.change(window(at(10), key="a", total=1))
    others = Windows(tmp_path / "others")
    others.change(window(at(10), key="b", total=1))
    others.publish_at(at(11))
    write_deltalake(found.gold_uri, others.gold_table().to_pyarrow_table(), mode="append")
    with pytest.raises(TableLost, match="Nothing was published into it"):
        found.publish_at(at(11))
