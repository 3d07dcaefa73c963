"""The records of erasures: a file for each, which stays. No table's log tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from tidemark.errors import ErasedUntold
from tidemark.judge.erased import Columns
from tidemark.storage.result_file import Facts
from tidemark.storage.warehouse import Warehouse

_RECORD = ".json"


class Digests(Facts):
    """By which rows are rejected that come again: digests of the values of these columns (their
    names, and how they are compared), made with the key of this fingerprint."""

    columns: Columns
    key: str
    digests: tuple[str, ...]


class Erased(Facts):
    """One erasure: how many rows of each table, never which; `again`: what it rejects since."""

    format: Literal[1] = 1
    id: str
    at: AwareDatetime
    by: str
    reason: str
    rows: dict[str, int]
    again: Digests | None = None


def record_place(warehouse: Warehouse, act: str) -> str:
    """Where the record of an erasure is, once all is done but to remove what held the rows."""
    return f"{warehouse.places.erasures}/{act}{_RECORD}"


def erasures(warehouse: Warehouse) -> Iterator[Erased]:
    """Those that were made, oldest first. ErasedUntold where a record cannot be read."""
    folder = warehouse.file_at(warehouse.places.erasures)
    for name in sorted(folder.names()):
        if not name.endswith(_RECORD):
            continue
        try:
            yield Erased.model_validate_json(folder.read(name))
        except ValidationError as error:
            raise ErasedUntold(
                f"{folder.below(name)} cannot be read as the record of an erasure "
                f"({error.errors()[0]['msg']}), so nobody can tell which rows it rejects. Nothing "
                "was read. Mend it: all but `again` has to stay; or put it back from a backup. A "
                "newer Tidemark may have written it."
            ) from error
