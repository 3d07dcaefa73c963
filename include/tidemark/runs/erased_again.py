"""What erasures of a pipeline reject when it comes again: asked before anything is read.

Without the key, or without a column, nobody could tell such rows: then nothing runs that takes
rows in.
"""

from __future__ import annotations

from collections import defaultdict

from tidemark.errors import ErasedUntold, MigrationRefused
from tidemark.judge.erased import Columns, KeyedDigests, compared_as, fingerprint
from tidemark.ledger.erased import Digests, erasures, record_place
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.warehouse import Warehouse

KEY = "TIDEMARK_ERASURE_KEY"


def erased_again(
    pipeline: Pipeline, settings: Settings, warehouse: Warehouse
) -> KeyedDigests | None:
    """By which such rows are told; None where no erasure rejects any. ErasedUntold where they
    cannot be told."""
    key = settings.erasure_key
    digests: defaultdict[Columns, set[str]] = defaultdict(set)
    for one in erasures(warehouse):
        if one.again is None:
            continue
        if why := _why_untold(pipeline, one.again, None if key is None else key.get_secret_value()):
            raise ErasedUntold(
                f"The erasure {one.id} of {pipeline.name} rejects rows that come again, and they "
                f"cannot be told: {why} Nothing was read. Only who wants such rows to be accepted "
                f"takes `again` out of {record_place(warehouse, one.id)}."
            )
        digests[one.again.columns].update(one.again.digests)
    if key is None or not digests:
        return None
    found = {columns: frozenset(of) for columns, of in digests.items()}
    return KeyedDigests(key.get_secret_value(), found)


def check_told_when_wider(pipeline: Pipeline, warehouse: Warehouse) -> None:
    """MigrationRefused where the file has a column, by which such rows are told, in a type that is
    not compared as then: of bronze that is written again there is no way back."""
    for one in erasures(warehouse):
        if one.again is not None and (why := _why_not_compared(pipeline, one.again)):
            raise MigrationRefused(
                f"The erasure {one.id} of {pipeline.name} rejects rows that come again, and they "
                f"could not be told any more: {why} Nothing was written. Only who wants such rows "
                f"to be accepted takes `again` out of {record_place(warehouse, one.id)}."
            )


def _why_untold(pipeline: Pipeline, again: Digests, key: str | None) -> str | None:
    if key is None:
        return f"the key is not there. Give it as {KEY}."
    if fingerprint(key) != again.key:
        return f"{KEY} is another key than the one of then. Give that one."
    source = pipeline.source
    if source.followed_key:
        return f"{source.label} is followed now, and its changes are looked for in all rows."
    return _why_not_compared(pipeline, again)


def _why_not_compared(pipeline: Pipeline, again: Digests) -> str | None:
    for name, how in again.columns:
        column = pipeline.source.columns.get(name)
        if column is None or compared_as(column.type) != how:
            return f"the file has no column {name} any more that is a {how}. Put it back."
    return None
