"""The offset of a batch over a Delta table, as our stream plans it: plain JSON, whole by itself.

    {"id": "6f1…", "snapshot": null, "from": 3, "next": 7, "mark": "9c2…"}

Which table (its id), and the versions that the batch reads: `from` to the one before `next`, whose
commit has the digest `mark`: another history of the same table has another one. A batch with a
`snapshot` reads first all that the table held at that version: the log of before is gone.

What is too large for a batch is read in several, by its files in the order of their paths: with
`skip` so many of the snapshot, or else of version `from`, were read before; with `stop` the batch
ends before so many of them, and reads nothing else. `next` is `from` then, and `mark` that of the
version.

With `follows` the versions are read together, as what they changed: the rows that an act of this id
found to be new (`following.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, unquote

from tidemark.errors import CheckpointUnreadable
from tidemark.storage.json_text import json_value

File = TypeVar("File")


@dataclass(frozen=True)
class Offset:
    """Versions of a table from `begin` to the one before `next`; no `mark`: not known. `skip` and
    `stop` are of the files of what it reads first; `follows`: the id of the act."""

    id: str
    begin: int
    next: int
    snapshot: int | None = None
    mark: str | None = None
    skip: int = 0
    stop: int | None = None
    follows: str | None = None

    @property
    def versions(self) -> range:
        """The versions of which it reads something, without that of a snapshot."""
        ends_within = self.stop is not None and self.snapshot is None
        return range(self.begin, self.begin + 1 if ends_within else self.next)

    @property
    def last(self) -> int:
        """The newest version that it knows of."""
        return max(self.next, self.versions.stop) - 1

    def has(self, version: int) -> bool:
        """Does the batch read something of a version?"""
        return version == self.snapshot or version in self.versions

    def cut(self, version: int, files: Sequence[File]) -> Sequence[File]:
        """Those of the files of a version, or of its snapshot, that the batch reads."""
        first = self.begin if self.snapshot is None else self.snapshot
        return files[self.skip : self.stop] if version == first else files

    @property
    def text(self) -> str:
        """The offset as the checkpoint has it."""
        versions = {"snapshot": self.snapshot, "from": self.begin, "next": self.next}
        skip = {"skip": self.skip} if self.skip else {}
        stop = {} if self.stop is None else {"stop": self.stop}
        follows = {} if self.follows is None else {"follows": self.follows}
        return json.dumps({"id": self.id, **versions, "mark": self.mark, **skip, **stop, **follows})

    @classmethod
    def of(cls, text: str, place: str) -> Offset:
        """What an offset says; CheckpointUnreadable where it is none of ours. `place`: its file."""
        try:
            found = json_value(text)
            at = found["snapshot"]
            snapshot = None if at is None else int(at)
            versions = int(found["from"]), int(found["next"]), snapshot
            stop = found.get("stop")
            cut = int(found.get("skip", 0)), None if stop is None else int(stop)
            return cls(str(found["id"]), *versions, found.get("mark"), *cut, found.get("follows"))
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointUnreadable(
                f"{place} does not tell which versions of a Delta table a batch reads: "
                f"{text[:200]!r}. Nothing was read. Restore it from a backup, or move the "
                "pipeline's whole folder away to start from the table again."
            ) from error


@dataclass(frozen=True)
class DeltaPart:
    """What is read or lost together: a file that a version added, a version (no `file`), versions
    up to `last`, or, with a `last` of None behind a dash, all from a version on."""

    version: int
    file: str = ""
    last: int | None = None
    is_open: bool = False

    def __str__(self) -> str:
        if self.file:
            return f"{self.version}/{quote(self.file)}"
        if self.is_open:
            return f"{self.version}-"
        return str(self.version) if self.last is None else f"{self.version}-{self.last}"

    @classmethod
    def of(cls, text: str) -> DeltaPart:
        """Of its text."""
        versions, slash, file = text.partition("/")
        first, dash, last = versions.partition("-")
        if slash:
            return cls(int(first), unquote(file))
        return cls(int(first), last=int(last) if last else None, is_open=bool(dash) and not last)

    def holds(self, other: DeltaPart) -> bool:
        """Is the other one part of it?"""
        if self.file:
            return self == other
        last, end = self._end, other._end
        return self.version <= other.version and (last is None or (end is not None and end <= last))

    @property
    def _end(self) -> int | None:
        """Its last version; None: it has none."""
        if self.is_open:
            return None
        return self.version if self.last is None else self.last
