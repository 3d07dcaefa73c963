"""The same acts of a pipeline that follows a Delta table of others: gold is the batch over what the
table holds, less what was retracted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.operators.contract.acts import ActsPlace, Campaign, Mark
from tests.operators.contract.kinds import Row
from tidemark.pipeline.reasons import MISSING_FIELD

SOURCE: Mapping[str, Any] = {
    "delta": {"table": "followed", "changes": "follow", "key": "id"},
    "columns": {
        "at": "timestamp",
        "key": "string",
        "amount": "long",
        "id": "long not null",
        "name": "string",
    },
    "event_time": {"column": "at"},
}
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "at": pa.timestamp("us", "UTC"),
        "key": pa.string(),
        "amount": pa.int64(),
        "name": pa.string(),
    }
)


class FollowingPlace(ActsPlace):
    """A kind whose rows are those of a Delta table."""

    source = SOURCE


@dataclass
class FollowedCampaign(Campaign):
    """What the table holds by ids, each row of a name of its own; one without a time is rejected.
    `held.read` has the names that were read."""

    never = ("replay_mended", "replay_again")
    leaves_files_out = False

    source: dict[int, Row] = field(default_factory=dict)
    versions: int = 0
    last_rewrite: int = 0
    # Rows that the source took back: those of its acts.
    followed: Counter[int] = field(default_factory=Counter)

    @property
    def rewrote(self) -> bool:
        """Were rows changed in what is not read yet?"""
        return self.last_rewrite > self.held.versions

    @property
    def _may_follow_later(self) -> bool:
        """What is held is published first then, and the next run follows."""
        return self.rewrote and (self.may_wait or not self.all_shown)

    def land(self) -> None:
        """Some rows come, some are others, some go: each in a version of its own, in any order."""
        draw = self.draw
        self.minutes += draw.uniform(3, 30)
        came: dict[int, Row] = {}
        for _ in range(draw.randint(1, 6)):
            self.lines += 1
            came[self.lines] = self._new(self.lines)
        known = sorted(self.source)
        others = draw.sample(known, draw.choice([0, len(known) // 5]))
        left = [one for one in known if one not in others]
        gone = draw.sample(left, draw.choice([0, len(known) // 8]))
        changed = {one: self._new(one) for one in others}
        acts: list[tuple[str, dict[int, Row]]] = [
            ("append", came), ("merge", changed), ("delete", {one: {} for one in gone}),
        ]  # fmt: skip
        told = []
        for act, rows in draw.sample(acts, 3) if known else acts[:1]:
            if not rows:
                continue
            told.append(f"{act} {sorted(rows)}")
            self._write(act, rows)
            self.versions += 1
            if act != "append":
                self.last_rewrite = self.versions
            if act == "delete":
                for one in rows:
                    del self.source[one]
            else:
                self.source |= rows
        self.told.append(", ".join(told))

    def _new(self, one: int) -> Row:
        row = {**self._row(), "id": one, "name": f"{one} of {len(self.told)}"}
        return row if self.draw.random() < 0.85 else {**row, "at": None}

    def _write(self, act: str, rows: Mapping[int, Row]) -> None:
        table = str(self.place.root / "followed")
        if act == "delete":
            DeltaTable(table).delete(f"id IN ({', '.join(map(str, rows))})")
            return
        content = pa.Table.from_pylist([*rows.values()], SCHEMA)
        if act == "append":
            write_deltalake(table, content, mode="append")
            return
        merging = DeltaTable(table).merge(
            content, "s.id = t.id", source_alias="s", target_alias="t"
        )
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def run(self, may_end: bool = True) -> None:
        if self._may_follow_later:
            super().run(may_end)
            # Nobody says what it has read.
            self.runs.popitem()
        super().run(may_end)

    def hold(self) -> None:
        if self._may_follow_later:
            return
        moves = self._leaving()
        super().hold()
        if moves:
            # What is followed is published with it.
            self._shows_all()
            self.may_wait = True

    def _leaving(self) -> dict[int, Row]:
        """Rows of bronze that are others by now, or none."""
        return {one: row for one, row in self.held.bronze.items()
                if self.source.get(one, {}).get("name") != row["name"]}  # fmt: skip

    def _ingested(self, run: str) -> None:
        held = self.held
        if held.versions == self.versions or self._may_follow_later:
            return
        if gone := self._leaving():
            self.followed.update(gone.keys())
            self._acted(f"followed {len(self.acts)}", gone=gone, of_next_batch=True)
        new = {one: row for one, row in self.source.items() if held.seen.get(one) != row}
        held.read |= {row["name"]: run for row in new.values()}
        accepted = {one: row for one, row in new.items() if row["at"] is not None}
        held.bronze |= accepted
        for one in new.keys() - accepted.keys():
            # It stays one when the table's row is another.
            held.rejects[str(new[one]["name"])] = MISSING_FIELD
        self.batches += 1
        held.bronze_batch = self.batches if accepted else held.bronze_batch
        rejects = len(new) > len(accepted) or not accepted
        held.rejects_batch = self.batches if rejects else held.rejects_batch
        held.versions, held.seen = self.versions, dict(self.source)

    def retract(self) -> None:
        of, part = self.draw.choice([2, 3, 5, 9]), self.draw.randrange(2)
        gone = {one: row for one, row in self.held.bronze.items() if one % of == part}
        self._retract({"where": f"pmod(id, {of}) = {part}"}, gone)

    def restore(self) -> None:
        act = self.pick(self.retracted)
        seen = self.held.seen
        self._restore(act, any(seen.get(one) != row for one, row in self.retracted[act].items()))

    def _landed(self) -> int:
        return len(self.held.read)

    def _mark(self, reject: Mapping[str, Any]) -> Mark:
        return str(json.loads(reject["raw"])["name"])

    def _of_persons(self, acts: dict[str, set[int]]) -> dict[str, set[int]]:
        """Those of the source have to be what it took back."""
        rows = self.place.table(self.place.places.retracted).to_pylist() if acts else []
        by_source = [row for row in rows if row["_retracted_by"] == "the source"]
        assert Counter(row["id"] for row in by_source) == self.followed
        return {act: ids for act, ids in acts.items()
                if act not in {row["_retraction"] for row in by_source}}  # fmt: skip
