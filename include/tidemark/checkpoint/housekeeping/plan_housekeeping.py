"""The plan of a checkpoint's housekeeping, from what was read and judged: pure.

Kept are the newest N committed batches. To start anew after batch B, the engine reads `offsets/B`
and `offsets/B-1`, `commits/B`, version B+1 of the state, and its sources' lists up to B
(MicroBatchExecution.populateStartOffsets). So of the logs the newest N+1 stay, which is what the
engine leaves as well (purge), and of the state what builds the versions from that of the log's
oldest batch on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tidemark.checkpoint.doctor.files import old_leftovers
from tidemark.checkpoint.doctor.findings import CheckpointVerdict, Diagnosis, Severity
from tidemark.checkpoint.housekeeping.expired_state import Expired, expired_files
from tidemark.checkpoint.housekeeping.plan import FileKind, HousekeepingPlan, Share
from tidemark.checkpoint.housekeeping.stock import CheckpointStock, first_kept
from tidemark.checkpoint.reading.checksums import after_checksums
from tidemark.checkpoint.reading.facts import SourceList
from tidemark.checkpoint.reading.layout import possible_batches
from tidemark.checkpoint.reading.state_files import Store


@dataclass(frozen=True)
class Keep:
    """What has to stay: the newest `batches` committed batches, and the logs from batch
    `logs_from` on where that is older (None: it is not).

    `nothing_runs`: is it certain that no query works on the checkpoint?
    """

    batches: int
    logs_from: int | None = None
    nothing_runs: bool = False


def plan_housekeeping(
    stock: CheckpointStock, diagnosis: Diagnosis, keep: Keep, now: datetime
) -> HousekeepingPlan:
    """What may go from a checkpoint that `diagnosis` judges. `now` (UTC) tells old leftovers from
    files that are being written."""
    first = first_kept(stock.facts, keep.batches)
    kept = _kept(stock, first)
    refused = _refusal(diagnosis, keep)
    shares = _Shares(stock, keep, first, now).all()
    if refused is not None:
        shares = [Share(share.kind, share.files, share.size) for share in shares]
    return HousekeepingPlan(stock.facts.uri, diagnosis.verdict, kept, tuple(shares), refused)


def _kept(stock: CheckpointStock, first: int) -> range:
    """From `first` on, the newest batches that have all their log files: the engine, or somebody,
    may have removed older ones."""
    last = stock.facts.commits.newest
    end = oldest = 0 if last is None else last + 1
    possible = {*possible_batches(stock.layout)}
    while oldest > max(first, 0) and oldest - 1 in possible:
        oldest -= 1
    return range(oldest, end)


def _refusal(diagnosis: Diagnosis, keep: Keep) -> str | None:
    worst = diagnosis.findings[0].known if diagnosis.findings else diagnosis.sentence
    match diagnosis.verdict:
        case CheckpointVerdict.DAMAGED:
            return (
                f"The checkpoint is damaged: {worst} Older files may be what mends it, so nothing "
                "is removed. See `tidemark checkpoint doctor`, mend it, then try again."
            )
        case CheckpointVerdict.UNKNOWN:
            unknown = (f.known for f in diagnosis.findings if f.severity is Severity.UNKNOWN)
            return (
                f"What decides is not known here: {next(unknown, worst)} It cannot be told which "
                "older files it needs, so nothing is removed."
            )
        case CheckpointVerdict.KILLED if not keep.nothing_runs:
            return (
                f"Batch {diagnosis.batch} is planned and not committed: a query was killed in it, "
                "or works on it now, and the files do not tell which. Nothing is removed. Let the "
                "query commit it, then try again."
            )
    return None


@dataclass(frozen=True)
class _Shares:
    """The shares of one checkpoint, each kind by itself. `first`: the oldest kept batch."""

    taken: CheckpointStock
    keep: Keep
    first: int
    now: datetime

    def all(self) -> list[Share]:
        state = self._state()
        known = [self._log(FileKind.COMMITS), self._log(FileKind.OFFSETS), state, self._sources()]
        known.append(self._leftovers())
        files, size = sum(s.files for s in known), sum(s.size for s in known)
        there = self.taken.files
        others = Share(
            FileKind.OTHERS,
            len(there) - files,
            sum(one.size for one in there.values()) - size,
            reasons=("metadata, schemas and files that are not known here stay",),
        )
        return [*known, others]

    def _log(self, kind: FileKind) -> Share:
        batches = self.taken.layout.logs[kind.value]
        oldest = self.first - 1
        reasons = [f"the newest {self.keep.batches} batches and the one before them stay"]
        if self.keep.logs_from is not None and self.keep.logs_from < oldest:
            oldest = self.keep.logs_from
            reasons = [f"batches after {oldest} are not published yet: they stay"]
        # The oldest first, so that a repetition finds no gap between those that are left.
        going = [f"{kind}/{batch}" for batch in sorted(batches) if batch < oldest]
        if going:
            reasons.insert(0, f"no kept batch needs those before batch {oldest}")
        every = [f"{kind}/{batch}" for batch in batches]
        return self._share(kind, every, going, reasons)

    def _state(self) -> Share:
        stores = self.taken.layout.stores.values()
        found = {store.id: self._expired(store) for store in stores}
        going = [f"{key.folder}/{name}" for key, gone in found.items() for name in gone.names]
        reasons = []
        if going:
            reasons.append(f"no version from {self.first} on is built from them")
        left = [gone.left for gone in found.values() if gone.left]
        if self.first > 0:
            reasons += [f"{left.count(why):,} stores: {why}" for why in dict.fromkeys(left)]
        elif found:
            reasons.append(f"no more than {self.keep.batches} batches are committed: all stays")
        every = [
            f"{store.id.folder}/{name}"
            for store in stores
            for name in (*(f.name for fs in store.files.values() for f in fs), *store.shared)
        ]
        return self._share(FileKind.STATE, every, going, reasons)

    def _expired(self, store: Store) -> Expired:
        if self.first <= 0:
            return Expired()
        partitions = self.taken.facts.partitions
        is_former = partitions is not None and store.id.partition >= partitions
        if is_former and store.newest < self.first:
            files = (file.name for found in store.files.values() for file in found)
            return Expired((*store.shared, *files))
        return expired_files(store, self.first, self.taken.snapshots[store.id])

    def _sources(self) -> Share:
        lists = self.taken.layout.source_lists
        every = [f"sources/{source}/{name}" for source, files in lists.items() for name in files]
        file_lists = (source.file_list for source in self.taken.facts.sources)
        return self._share(
            FileKind.SOURCES, every, (), [_list_reason(one) for one in file_lists if one]
        )

    def _leftovers(self) -> Share:
        every = self.taken.layout.leftovers
        going = old_leftovers(every, self.now)
        reasons = []
        if going:
            reasons.append("a run that ended in the middle of writing left them")
        if len(going) < len(every):
            reasons.append("those younger than an hour may be being written: they stay")
        size, gone = _size(self, every), _size(self, going)
        return Share(FileKind.LEFTOVERS, len(every), size, tuple(going), gone, tuple(reasons))

    def _share(
        self, kind: FileKind, every: Iterable[str], going: Iterable[str], reasons: Iterable[str]
    ) -> Share:
        known = self.taken.layout.checksums
        whole, gone = (tuple(after_checksums(names, known)) for names in (every, going))
        return Share(kind, len(whole), _size(self, whole), gone, _size(self, gone), tuple(reasons))


def _size(shares: _Shares, names: Iterable[str]) -> int:
    return sum(shares.taken.files[name].size for name in names)


def _list_reason(lists: SourceList) -> str:
    return (
        f"{len(lists.lists):,} lists of the source's files and {len(lists.compacted):,} compacted "
        f"ones, {lists.size:,} bytes: a start reads the newest compacted one and each list after "
        "it, and so does a start from a kept batch; the engine removes older ones itself when it "
        "writes a list"
    )
