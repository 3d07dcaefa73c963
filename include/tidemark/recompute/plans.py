"""The plan of an act: JSON in the act's folder, from which a repetition finishes it."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import AwareDatetime, ValidationError

from tidemark.errors import ErasureUnproven, ReplayRefused, RetractionRefused, RewindRefused
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.result_file import Facts

# Its file, and what a whole backup of a rewind has.
CHANGE = "change.json"
PlanT = TypeVar("PlanT", bound="ActPlan")
Unusable = type[ErasureUnproven | ReplayRefused | RetractionRefused | RewindRefused]


class ActPlan(Facts):
    """An act on a pipeline, as it was planned: its id, and the run that it is."""

    format: Literal[1] = 1
    id: str
    run_id: str
    pipeline: str
    planned_at: AwareDatetime


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
