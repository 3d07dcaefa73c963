"""What a query writes to, as somebody said it, and what becomes of it when batches run again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.rewind.files_sink import newest_batch, plan_files_sink, read_files_sink
from tidemark.checkpoint.rewind.plan import SinkPlan
from tidemark.errors import RewindRefused
from tidemark.storage.file_place import FilePlace

if TYPE_CHECKING:
    from tidemark.storage.delta.place import TablePlace

DELTA, FILES, OTHER = "delta", "files", "other"
_OTHER = (
    "The sink is not changed. Kafka, JDBC, HTTP, the console and a memory table take the rows of "
    "batches that run again once more. A foreachBatch gets the numbers of these batches again: "
    "one that passes over a number that it has seen (Delta's `txnVersion`) passes over the new "
    "rows in them as well, without an error; it needs a new application id, or its target taken "
    "back."
)
_READERS = (
    "A stream that reads the table stops at that commit, as it removes rows (`skipChangeCommits` "
    "lets it pass; what it has taken already stays taken)."
)


def kind_and_place(text: str) -> tuple[str, str]:
    """The two parts of what `--sink` says; no place for `other`. ValueError where it is neither."""
    kind, _, place = text.partition(":")
    if text == OTHER:
        return OTHER, ""
    if kind not in (DELTA, FILES) or not place:
        raise ValueError(f"{text!r} is none of delta:URI, files:URI and other")
    return kind, place


@dataclass(frozen=True)
class Sink:
    """A sink: `delta` or `files` with its place, or `other`."""

    kind: str
    place: FilePlace | None = None

    @property
    def said(self) -> str:
        """What `--sink` says of it."""
        return f"{self.kind}:{self.place.uri}" if self.place else self.kind

    @property
    def table(self) -> TablePlace:
        """The Delta table."""
        # delta-rs, which other sinks do without.
        from tidemark.storage.delta.place import TablePlace

        assert self.place is not None
        return TablePlace(self.place.uri, self.place.options)

    def plan(self, query_id: str, batch: int) -> SinkPlan:
        """What becomes of it when the query's checkpoint goes back to the end of a batch.
        RewindRefused where there is no such sink."""
        if self.place is None:
            return SinkPlan(notes=(_OTHER,), said=self.said)
        plan = self._delta(query_id, batch) if self.kind == DELTA else self._files(batch)
        return replace(plan, said=self.said)

    def check_knows(self, query_id: str) -> None:
        """RewindRefused where the sink tells queries apart and has no batch of this one."""
        if self.kind != DELTA or self.newest(query_id) is not None:
            return
        raise RewindRefused(
            f"`metadata` holds the query's id {query_id}, and the log of {self.table.uri} names "
            f"the newest batches of others: {_told(self._known())}. Nothing was changed. If the "
            "query writes to another table, give that. If `metadata` is another query's, restore "
            "it from a backup; or move it away and give this command again, which then takes the "
            "id from the table."
        )

    def newest(self, query_id: str) -> int | None:
        """The newest batch of the query that the sink has; None where it has, or tells, none."""
        if self.place is None:
            return None
        if self.kind == FILES:
            return newest_batch(self.place)
        table = self.table.open()
        return table.transaction_version(query_id) if table is not None else None

    def apart(
        self, query_ids: Collection[str], planned: int | None, committed: int | None
    ) -> str | None:
        """Why the sink has other batches than logs with these as their newest, as where they were
        removed by hand; None where it has not, or does not tell."""
        known = map(self.newest, query_ids)
        newest = max((batch for batch in known if batch is not None), default=None)
        if newest is None and self.place is not None and committed is not None:
            what = "folder" if self.kind == FILES else "table"
            return (
                f"{self.place.uri} has no batch of the query {shown(query_ids)}, and the "
                f"checkpoint has. Give the {what} that it writes to."
            )
        if newest is None or newest <= (-1 if planned is None else planned):
            return None
        last = "none is planned" if planned is None else f"the last one planned is {planned}"
        return (
            f"The sink has batches up to {newest}, and {last}: it would pass over the next ones, "
            "without an error, and their rows would be missing."
        )

    def query_id_at(self, batches: frozenset[int]) -> str:
        """The only query id that the table's log names with one of these batches as its newest.
        RewindRefused where there is none, or several."""
        if self.kind != DELTA:
            raise RewindRefused(
                "The query's id, which `metadata` held, is known to a Delta sink only: give it by "
                "`--sink delta:URI`. Without one, restore the file from a backup, or start the "
                "query in a new folder."
            )
        known = self._known()
        fitting = [query for query, batch in known.items() if batch in batches]
        if len(fitting) == 1:
            return fitting[0]
        raise RewindRefused(
            f"The query's id cannot be told: of the newest batches by id that the log of "
            f"{self.table.uri} names ({_told(known)}), {len(fitting)} fit to the checkpoint's "
            f"batches {shown(map(str, sorted(batches)))}, and it has to be one. Restore `metadata` "
            "from a backup."
        )

    def _known(self) -> dict[str, int]:
        """By query id, the newest batch that the table's log names. RewindRefused where there is no
        table."""
        from tidemark.checkpoint.rewind.table_commits import query_batches

        table = self.table.open()
        if table is None:
            raise RewindRefused(f"There is no Delta table {self.table.uri}. Nothing was changed.")
        return query_batches(self.table, table)

    def _delta(self, query_id: str, batch: int) -> SinkPlan:
        from tidemark.checkpoint.rewind.delta_sink import plan_delta_sink, read_delta_sink

        change, refused = plan_delta_sink(read_delta_sink(self.table, query_id, batch), batch)
        if change is None:
            same = f"The table {self.table.uri} stands at batch {batch} and is not changed."
            return SinkPlan(notes=() if refused else (same,), refused=refused)
        back = (
            f"The table {change.uri} goes from version {change.seen} back to what it was at "
            f"version {change.version}, and the query's transaction from {change.batch_seen} to "
            f"{change.batch}, in one commit."
        )
        return SinkPlan(table=change, notes=(back, _READERS))

    def _files(self, batch: int) -> SinkPlan:
        assert self.place is not None
        facts = read_files_sink(self.place, batch)
        change, refused = plan_files_sink(facts, batch)
        notes = []
        if change is not None:
            notes.append(
                f"{facts.uri}: the files of batches after {batch} go, so that the sink does not "
                "pass over batches that run again."
            )
        if facts.orphans:
            notes.append(
                f"{len(facts.orphans):,} data files of these batches stay in the folder. Spark "
                "reads none that the log does not name; readers that do not know the log would "
                f"see their rows twice. Remove them when all is well: {shown(facts.orphans)}."
            )
        if facts.unread:
            notes.append(f"{shown(facts.unread)} of the log cannot be read, and go.")
        return SinkPlan(log=change, notes=tuple(notes), refused=refused)


def _told(known: Mapping[str, int]) -> str:
    return shown(f"{query}: batch {batch}" for query, batch in known.items()) or "none"
