"""Result files: what a job says to whoever started it.

Written by a job when it ends, well or badly; read by the Airflow operators, the publish task and
the command line. JSON at a URI, so that it works where the job ran on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemark.commit_point import commit_point
from tidemark.errors import ResultUnreadable, TidemarkError
from tidemark.storage.delta.damage import damage_of
from tidemark.storage.files import FileMissing, read_bytes, write_bytes


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
        return cls.model_validate(
            {"class": type(error).__name__, "message": str(error), "retry_can_help": can_help}
        )


@commit_point(
    "result",
    after_a_kill="before: whoever started the run finds no result, and starts it again; after: "
    "nothing is due, and a run that is started again finds nothing to do",
)
def write_result(uri: str, result: Facts, options: Mapping[str, str]) -> None:
    """Write a result; an earlier one of the same try is replaced."""
    write_bytes(uri, result.model_dump_json(by_alias=True, indent=2).encode(), options)


def read_result(kind: type[Result], uri: str, options: Mapping[str, str]) -> Result:
    """Read a result of this kind. Raises ResultUnreadable where there is none, or another."""
    try:
        return kind.model_validate_json(read_bytes(uri, options))
    except FileMissing as error:
        raise ResultUnreadable(
            f"There is no result file {uri}: the job ended before it could write one."
        ) from error
    except ValidationError as error:
        raise ResultUnreadable(f"{uri} is not a {kind.__name__} of format 1: {error}") from error
