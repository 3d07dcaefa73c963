"""The plan of an act: JSON in the act's folder, from which a repetition finishes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import AwareDatetime, ValidationError

from tidemark.errors import ErasureUnproven, ReplayRefused, RetractionRefused, RewindRefused
from tidemark.pipeline.instants import STAMP
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.result_file import Facts

if TYPE_CHECKING:
    from tidemark.storage.warehouse import Warehouse

# Its file, and what a whole backup of a rewind has.
CHANGE = "change.json"
PlanT = TypeVar("PlanT", bound="ActPlan")
Unusable = type[ErasureUnproven | ReplayRefused | RetractionRefused | RewindRefused]


class ActPlan(Facts):
    """An act on a pipeline, as it was planned: its id, and the run that it is. `asked_by` is the id
    that its job was given, which all tries of a task in Airflow have, and nothing else; None where
    none was given, and of a former version."""

    format: Literal[1] = 1
    id: str
    run_id: str
    pipeline: str
    planned_at: AwareDatetime
    asked_by: str | None = None

    def is_of_try(self, run_id: str | None) -> bool:
        """Did a try before the job of this id plan it?"""
        return run_id is not None and run_id == self.asked_by


def new_act_id(warehouse: Warehouse, now: datetime) -> str:
    """The id of an act that is planned `now`, in UTC: this second, or the one behind the newest
    act's, whichever is later.

    Clocks of machines differ, and one may go back a little; the ledger and an undo take the order
    of ids for that of the acts.
    """
    behind = (planned + timedelta(seconds=1) for planned in _planned(warehouse))
    return f"{max([now, *behind]):{STAMP}}"


def _planned(warehouse: Warehouse) -> Iterator[datetime]:
    """The seconds that acts of a pipeline have as ids, also of one that was killed before it began.
    Of an act that an erasure forgot there is the erasure's, which is later."""
    places = warehouse.places
    for folder in (places.retractions, places.replays, places.erasures):
        for name in warehouse.file_at(folder).names():
            with suppress(ValueError):
                yield datetime.strptime(name.removesuffix(".json"), STAMP).replace(tzinfo=UTC)


def write_plan(folder: FilePlace, plan: ActPlan) -> None:
    """Keep the plan in the folder of its act."""
    folder.fence()
    written = plan.model_dump_json(indent=1).encode()
    write_bytes(folder.below(CHANGE), written, folder.options)


def read_plan(folder: FilePlace, kind: type[PlanT], act: str, unusable: Unusable) -> PlanT:
    """The plan of an act ("a rewind"). FileMissing where there is none, `unusable` where it cannot
    be read."""
    try:
        return kind.model_validate_json(folder.read(CHANGE))
    except ValidationError as error:
        raise unusable(
            f"{folder.below(CHANGE)} cannot be read as what {act} writes ({error}). This try "
            "changed nothing. A newer Tidemark may have written it."
        ) from error
