"""Result files: what a job says to whoever started it.

Written by a job when it ends, well or badly; read by the Airflow operators, the publish task and
the command line. JSON at a URI, so that it works where the job ran on another machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemark.commit_point import commit_point
from tidemark.errors import ResultUnreadable, TidemarkError
from tidemark.storage.delta.damage import damage_of
from tidemark.storage.files import FileMissing, read_bytes, write_bytes
from tidemark.version import WRITTEN_BY, beside_ours, told_version, written_by


class Facts(BaseModel):
    """Frozen facts of a result file; what it does not name is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Result = TypeVar("Result", bound=Facts)


class RunError(Facts):
    """Why a job failed, and whether starting it again can help."""

    type: str = Field(alias="class")
    message: str
    retry_can_help: bool

    @classmethod
    def of(cls, error: BaseException) -> RunError:
        """An error that is not one of ours is unforeseen; its cause may pass, unless it says that
        a data file is gone or broken."""
        error = damage_of(error) or error
        can_help = error.retry_can_help if isinstance(error, TidemarkError) else True
        # A name of a file may be no UTF-8, of which neither this file nor a table can tell.
        message = str(error).encode(errors="backslashreplace").decode()
        return cls.model_validate(
            {"class": type(error).__name__, "message": message, "retry_can_help": can_help}
        )


class ActResult(Facts):
    """An act that changes a pipeline's tables together, as far as it came."""

    format: Literal[1] = 1
    pipeline: str
    run_id: str
    dry_run: bool
    outcome: Literal["succeeded", "failed"]
    started_at: datetime
    ended_at: datetime


@commit_point(
    "result",
    after_a_kill="before: whoever started the run finds no result, and starts it again; after: "
    "nothing is due, and a run that is started again finds nothing to do",
)
def write_result(uri: str, result: Facts, options: Mapping[str, str]) -> None:
    """Write a result and which Tidemark wrote it; an earlier one of the same try is replaced."""
    fields = {WRITTEN_BY: told_version(), **result.model_dump(mode="json", by_alias=True)}
    write_bytes(uri, json.dumps(fields, indent=2, ensure_ascii=False).encode(), options)


def read_result(kind: type[Result], uri: str, options: Mapping[str, str]) -> Result:
    """Read a result of this kind. Raises ResultUnreadable where there is none, or another."""
    try:
        stored = read_bytes(uri, options)
    except FileMissing as error:
        raise ResultUnreadable(
            f"There is no result file {uri}: the job ended before it could write one."
        ) from error
    version = written_by(stored)
    try:
        return kind.model_validate_json(stored if version is None else _without_version(stored))
    except ValidationError as error:
        raise ResultUnreadable(
            f"{uri} is not a {kind.__name__} of format 1. {beside_ours(version)}: {error}"
        ) from error


def _without_version(stored: bytes) -> str:
    return json.dumps({name: of for name, of in json.loads(stored).items() if name != WRITTEN_BY})
