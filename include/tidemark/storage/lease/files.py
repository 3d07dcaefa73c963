"""A lease as files: what one says, and how the newest is read, taken and rewritten.

A lease is a folder of numbered files. The file of the highest number is the lease; a new one is
taken by creating the next number, which of several takers only one can, on any store. Only the
owner of a number rewrites its file. The highest number is never removed, so numbers never
restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from tidemark.commit_point import commit_point
from tidemark.errors import LeaseUnreadable, StorageUnavailable
from tidemark.pipeline.settings.settings import LONGEST_LEASE
from tidemark.storage.files import (
    FileInTheWay,
    FileMissing,
    Options,
    list_files,
    read_bytes,
    remove_files,
    write_bytes,
)
from tidemark.storage.processes import ProcessMark

_NAME = re.compile(r"(?:^|/)([0-9]{20})\.json$")
# More than runs can take; what is above fits no table's property and leaves no next number.
HIGHEST_NUMBER = 10**18
# A file may be removed between listing and reading, each time by an owner of a higher number.
_LOOKS = 10


def _countable(instant: datetime) -> datetime:
    """At the ends of the calendar neither a time zone nor the lease's length can be added."""
    if not 1970 <= instant.year < 3000:
        raise ValueError("Input should be between the years 1970 and 2999")
    return instant


_Time = Annotated[AwareDatetime, AfterValidator(_countable)]


class PreviousHolder(BaseModel):
    """Whom a lease was taken over from, and why it could be."""

    model_config = ConfigDict(frozen=True)

    number: int
    run_id: str
    purpose: str
    host: str
    because: str


class LeaseRecord(BaseModel):
    """What a lease file says. Times are UTC, by the owner's clock.

    `machine` tells where the processes' pids mean something (`this_machine`). `released`: given
    back. `fence_due`: the next taker fences the tables, because this one took over and has not
    fenced yet, or left so that something of it may still write.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    run_id: str
    purpose: str
    host: str
    machine: str
    processes: tuple[ProcessMark, ...] = Field(min_length=1)
    seconds: float = Field(gt=0, le=LONGEST_LEASE)
    taken_at: _Time
    renewed_at: _Time
    expires_at: _Time
    released: bool = False
    fence_due: bool = False
    took_over: PreviousHolder | None = None


@dataclass(frozen=True)
class LeaseFolder:
    """The files of one lease: `uri` is a local folder or that of an object store."""

    uri: str
    options: Options

    def numbers(self) -> tuple[int, ...]:
        """The numbers that have a file, highest first; those that no run gives are left out."""
        return tuple(number for number in self._all_numbers() if number <= HIGHEST_NUMBER)

    def highest(self) -> int:
        """The number of the lease; 0 where none was ever taken."""
        return next(iter(self.numbers()), 0)

    def newest(self) -> LeaseRecord | None:
        """The lease as it is now; None where none was ever taken.

        Raises LeaseUnreadable where its file is not one of ours.
        """
        for _ in range(_LOOKS):
            number = next(iter(self._all_numbers()), 0)
            if not number:
                return None
            if number > HIGHEST_NUMBER:
                reason = f"no run gives a number above {HIGHEST_NUMBER}"
                raise LeaseUnreadable(_unreadable(self.place(number), reason))
            try:
                return self.read(number)
            except FileMissing:
                continue
        raise StorageUnavailable(
            f"The lease {self.uri} changed at every look. Nothing was written. Try again."
        )

    def read(self, number: int) -> LeaseRecord:
        """One file. Raises FileMissing, LeaseUnreadable."""
        place = self.place(number)
        content = read_bytes(place, self.options)
        try:
            record = LeaseRecord.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "the file"
            raise LeaseUnreadable(_unreadable(place, f"{field}: {first['msg']}")) from None
        if record.number != number:
            raise LeaseUnreadable(_unreadable(place, f"it is of number {record.number}"))
        return record

    @commit_point(
        "lease taken",
        after_a_kill="before: nothing; after: a lease whose processes are gone, which the next "
        "run takes over",
    )
    def create(self, record: LeaseRecord) -> Mapping[int, datetime] | None:
        """Take the record's number: the numbers that have a file then, and when each was written,
        by the store's clock. None where another was first, or already further."""
        try:
            write_bytes(self.place(record.number), _json(record), self.options, create_only=True)
        except FileInTheWay:
            # A request that a store carried out and did not answer is repeated by its client.
            if not self._holds(record):
                return None
        # A slow taker may create a number that was used and removed: then a higher one is there.
        found = self._written()
        highest = max((one for one in found if one <= HIGHEST_NUMBER), default=0)
        return found if highest == record.number else None

    def rewrite(self, record: LeaseRecord) -> None:
        """Write the owner's own file anew."""
        write_bytes(self.place(record.number), _json(record), self.options)

    @commit_point(
        "older leases removed",
        after_a_kill="before and after: a lease as above; files of lower numbers count for nothing",
    )
    def remove_below(self, number: int, found: Iterable[int]) -> None:
        """Remove what lower numbers left, of those that were found, and what no run can have; for
        the owner of `number` only."""
        gone = [other for other in found if other < number or other > HIGHEST_NUMBER]
        remove_files(map(self.place, gone), self.options)

    def place(self, number: int) -> str:
        """The file of a number."""
        return f"{self.uri}/{number:020}.json"

    def _all_numbers(self) -> list[int]:
        return sorted(self._written(), reverse=True)

    def _written(self) -> dict[int, datetime]:
        found = list_files(self.uri, self.options)
        named = {place: _NAME.search(place) for place in found}
        return {int(name[1]): found[place].modified for place, name in named.items() if name}

    def _holds(self, record: LeaseRecord) -> bool:
        try:
            return self.newest() == record
        except LeaseUnreadable:
            return False


def described(record: LeaseRecord) -> str:
    """The owner of a lease, for messages."""
    pids = ", ".join(str(mark.pid) for mark in record.processes)
    noun = "process" if len(record.processes) == 1 else "processes"
    until = time_text(record.expires_at)
    return f"run {record.run_id} ({record.purpose}) on {record.host}, {noun} {pids}, until {until}"


def time_text(instant: datetime) -> str:
    """A time for messages."""
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _json(record: LeaseRecord) -> bytes:
    return record.model_dump_json(indent=2).encode()


def _unreadable(place: str, reason: str) -> str:
    return (
        f"{place} is not a lease file: {reason}. So nobody can tell who holds the lease; nothing "
        "was written. When you are sure that nothing works on the pipeline: "
        "`tidemark lease release --force PIPELINE`."
    )
