"""What each publish left in gold's log: its transactions, as far back as the log goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.gold.plan import CHANGES, CLOSE
from tidemark.operators.operator import BRONZE
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import FileMissing, read_bytes


@dataclass(frozen=True)
class Publish:
    """A commit of gold, and what it says was published: versions, and C in milliseconds."""

    version: int
    changes: int
    bronze: int
    close_ms: int


def publishes(place: TablePlace) -> tuple[Publish, ...]:
    """The publishes of a gold table, oldest first; those whose log entries are gone are left
    out."""
    found = []
    for version in range(place.existing().version(), -1, -1):
        try:
            entry = read_bytes(f"{place.uri}/_delta_log/{version:020}.json", place.options)
        except FileMissing:
            break
        actions = [json.loads(line) for line in entry.decode().splitlines()]
        said = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
        if CHANGES in said:
            found.append(Publish(version, said[CHANGES], said[BRONZE], said[CLOSE]))
    return tuple(reversed(found))


def close_before_ms(known: Sequence[Publish], first_version: int) -> int:
    """The close frontier that a batch found whose first version of bronze is given."""
    before = [one.close_ms for one in known if one.bronze < first_version]
    return before[-1] if before else 0
