"""What each job is asked, described once.

spark-submit's arguments, the parameters of Airflow's Dags and the texts of the command's options
are made of these models. Imports no engine.
"""

from __future__ import annotations

import os
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.acceptance import CheckOverride, acceptance, as_utf8, check_may

_FORM = "ISO 8601 with a zone, as in 2026-07-01T00:00:00Z, or a date, its midnight in UTC"
NO_REASON = '--reason "…" is missing: why the rows were a mistake'
NO_REASON_WITHOUT = '--reason "…" is missing: why it goes on without a file'
NO_REASON_TO_ERASE = '--reason "…" is missing: why the rows are erased'
NO_REASON_TO_REPARTITION = '--reason "…" is missing: why the state gets other partitions'
NO_REASON_TO_REPLAY = '--reason "…" is missing: why these rejects are rows after all'
# An instant with its zone: without one it would be guessed.
Instant = Annotated[
    datetime, BeforeValidator(lambda value: utc_instant(value) if isinstance(value, str) else value)
]
DryRun = Annotated[bool, Field(description="Only show what would be done; change nothing.")]

# Somebody's "no bound" is brought to where windows can lie: no event is before 1970, gaps are ten
# years at most, and there is no year after 9999.
_FIRST_START, _LAST_START = datetime(1960, 1, 1, tzinfo=UTC), datetime(9980, 1, 1, tzinfo=UTC)


def _where_windows_lie(asked: datetime | None) -> datetime | None:
    return asked and min(max(asked, _FIRST_START), _LAST_START)


class JobRequest(BaseModel):
    """What any job is asked; a subclass says which job, and what it is asked beside this.

    The first sentence of its docstring is what `--help` says of the job.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    # The job's module.
    job: ClassVar[str]

    settings: Path | None = Field(default=None, description="Default: include/settings.yaml.")

    @field_validator("*")
    @classmethod
    def _to_be_kept(cls, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(as_utf8, value))
        return as_utf8(value) if isinstance(value, str) else value

    def arguments(self) -> list[str]:
        """The arguments of the job by which `read` gives this request again."""
        arguments: list[str] = []
        for name, flag, field in flags(type(self)):
            value = getattr(self, name)
            if value == field.get_default():
                continue
            if value is True:
                arguments.append(flag)
                continue
            for one in value if isinstance(value, tuple) else (value,):
                text = one.isoformat() if isinstance(one, datetime) else str(one)
                # UTF-8, which the job's locale is, also where this process's own is another.
                text = os.fsdecode(text.encode("utf-8", "surrogateescape"))
                # argparse would take it for an option.
                arguments += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
        return arguments

    @classmethod
    def read(cls, argv: Sequence[str] | None) -> Self:
        """Of arguments, those of this process where they are None; what does not fit ends it as
        argparse does."""
        program = f"{cls.job.rpartition('.')[2]}.py"
        parser = ArgumentParser(
            prog=program,
            description=(cls.__doc__ or "").partition("\n")[0],
            argument_default=SUPPRESS,
        )
        for name, flag, field in flags(cls):
            of_kind: dict[str, Any] = {}
            if field.annotation is bool:
                of_kind = {"action": "store_true"}
            elif field.get_default() == ():
                of_kind = {"action": "append"}
            parser.add_argument(
                flag,
                dest=str(field.validation_alias or name),
                required=field.is_required(),
                help=(field.description or "").replace("%", "%%"),
                **of_kind,
            )
        values = vars(parser.parse_args(argv))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            parser.error(fault_of(error))

    @classmethod
    def about(cls, name: str) -> str:
        """What a field asks for, as help."""
        return cls.model_fields[name].description or ""


def fault_of(error: ValidationError) -> str:
    """The first fault of a request, for people: which field, and what is wrong with it."""
    first = error.errors()[0]
    where = "/".join(str(part) for part in first["loc"][:1])
    message = first["msg"].removeprefix("Value error, ")
    return f"argument --{where.replace('_', '-')}: {message}" if where else message


def flags(kind: type[JobRequest]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Each field with its option; of a field with several values that is one of them."""
    for name, field in kind.model_fields.items():
        one = (
            name.removesuffix("s") if field.get_default() == () else field.validation_alias or name
        )
        yield name, f"--{str(one).replace('_', '-')}", field


class EngineRequest(JobRequest):
    """Look at Spark and its cluster."""

    job = "tidemark.streaming.jobs.doctor"

    result: str = Field(description="Where the result goes: a path or URI.")


class PipelineRequest(JobRequest):
    """What a job of a pipeline is asked."""

    # What begins the run id that it gives itself.
    kind: ClassVar[str]

    result: str | None = Field(
        default=None,
        description="Where the result file goes, a path or URI. Only without it the result is "
        "printed.",
    )
    pipeline: str = Field(description="Its name, or the path of its file.")
    root: str | None = Field(default=None, description="Goes before the settings' root.")
    run_id: str | None = Field(default=None, description="Default: what is run, and the time.")


class RunRequest(PipelineRequest):
    """What a job is asked that has a row in `ops/runs`."""

    by: str | None = Field(
        default=None, description="Who starts it, and accepts. Default: this user."
    )
    dag: str | None = Field(default=None, description="The id of the Dag that starts it.")

    @property
    def accepts(self) -> bool:
        """Is it to be published in spite of checks that fail?"""
        return bool(getattr(self, "accept", False))

    @property
    def accepted(self) -> CheckOverride | None:
        """Who publishes in spite of checks, and why; None where nobody does."""
        return acceptance(True, getattr(self, "reason", None), self.by) if self.accepts else None


class StreamRequest(RunRequest):
    """Run a pipeline once."""

    job = "tidemark.streaming.jobs.stream"
    kind = "manual"

    scheduled_time: Instant | None = Field(
        default=None, description=f"The time that the run stands for: {_FORM}. Default: now."
    )
    trigger: str = Field(default="manual", description="What started the run.")
    hold: bool = Field(default=False, description="Leave publishing to a later step.")


class ManyRequest(JobRequest):
    """Run several pipelines once, one after the other, with one start of Spark.

    The result of each goes where it always is.
    """

    job = "tidemark.streaming.jobs.many"

    pipelines: tuple[str, ...] = Field(
        default=(), description="Its name, or the path of its file. Can be given several times."
    )
    run_id: str | None = Field(default=None, description=StreamRequest.about("run_id"))
    scheduled_time: Instant | None = Field(
        default=None, description=StreamRequest.about("scheduled_time")
    )
    trigger: str = Field(default="manual", description=StreamRequest.about("trigger"))
    hold: bool = Field(default=False, description=StreamRequest.about("hold"))
    by: str | None = Field(default=None, description=StreamRequest.about("by"))
    dag: str | None = Field(default=None, description=StreamRequest.about("dag"))
    root: str | None = Field(default=None, description=StreamRequest.about("root"))
    try_number: int | None = Field(
        default=None, description="Which try it is, for the names of result files."
    )

    def of_one(self, pipeline: str, run_id: str, result: str) -> StreamRequest:
        """What it asks of one of its pipelines."""
        shared = self.model_dump(exclude={"pipelines", "run_id", "try_number"})
        return StreamRequest(**shared, pipeline=pipeline, run_id=run_id, result=result)


class RecomputeRequest(RunRequest):
    """What a backfill and a migration are both asked: they publish by themselves."""

    table: str = Field(description="The table of the pipeline.")
    dry_run: bool = Field(default=False, description="Only show what would change; write nothing.")
    accept: bool = Field(default=False, description="Publish in spite of checks that fail.")
    reason: str | None = Field(default=None, description="Why; it is kept.")

    @model_validator(mode="after")
    def _accepted(self) -> Self:
        _ = self.accepted
        return self


class BackfillRequest(RecomputeRequest):
    """Compute the closed windows of a range again from bronze."""

    job = "tidemark.streaming.jobs.backfill"
    kind = "backfill"

    start: Instant = Field(
        validation_alias="from", description=f"Windows that start here or later: {_FORM}."
    )
    end: Instant = Field(validation_alias="to", description="And before this.")

    _where_windows_lie = field_validator("start", "end")(_where_windows_lie)


class MigrationRequest(RecomputeRequest):
    """Begin a table's next generation, computed from bronze."""

    job = "tidemark.streaming.jobs.migrate"
    kind = "migrate"

    rebuild: bool = Field(
        default=False, description="Also where the pipeline's file has not changed."
    )


class RewindRequest(RunRequest):
    """Take a pipeline back to the end of a former run.

    To the end of a run, or of the newest one that had not read these offsets; or the rewind of this
    id is taken back. None of these: what was begun is finished.
    """

    job = "tidemark.streaming.jobs.rewind"
    kind = "rewind"

    to_run: str | None = Field(
        default=None, description="The run to whose end it goes back, as in ops/runs."
    )
    to_offsets: tuple[str, ...] = Field(
        default=(),
        description="Of Kafka: to the newest run that had not read TOPIC/PARTITION:OFFSET. Can be "
        "given several times.",
    )
    undo: str | None = Field(default=None, description="Take back the rewind of this id.")
    without: tuple[str, ...] = Field(
        default=(),
        description="Do not read this file again: its name as `_file` has it, or its end. Can be "
        "given several times.",
    )
    reason: str | None = Field(default=None, description="Why; it is kept.")
    dry_run: DryRun = False

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if sum(map(bool, (self.to_run, self.to_offsets, self.undo))) > 1:
            raise ValueError("--to-run, --to-offset and --undo exclude each other")
        if self.without and self.finishes:
            raise ValueError("--without goes with what names where to: --to-run or --undo")
        if not all(self.without):
            raise ValueError("--without is empty, which the name of each file ends with")
        _ = self.offsets
        return self

    @property
    def offsets(self) -> dict[str, int]:
        """The offsets by TOPIC/PARTITION."""
        found = {}
        for text in self.to_offsets:
            part, _, offset = text.rpartition(":")
            topic, _, partition = part.rpartition("/")
            if not topic or not partition.isdecimal() or not offset.isdecimal():
                raise ValueError(f"{text!r} is no TOPIC/PARTITION:OFFSET")
            found[part] = int(offset)
        return found

    @property
    def finishes(self) -> bool:
        """Is only what was begun to be finished?"""
        return not (self.to_run or self.to_offsets or self.undo)

    @property
    def lacks_reason(self) -> bool:
        """Must it say why, and does not?"""
        return bool(self.without) and not (self.reason or "").strip()


class RetractRequest(RunRequest):
    """Take rows out of bronze that were a mistake, or bring them back.

    The rows that a condition names, of a file, or of a run; or those of a former retraction go
    back. None of these: what was begun is finished.
    """

    job = "tidemark.streaming.jobs.retract"
    kind = "retract"

    where: str | None = Field(
        default=None, description="Spark SQL on bronze's columns, as in `spotId = 111`."
    )
    file: str | None = Field(
        default=None, description="All rows of a file: its name as `_file` has it, or its end."
    )
    of_run: str | None = Field(
        default=None, validation_alias="run", description="All rows that a run took in."
    )
    undo: str | None = Field(
        default=None, description="Bring back the rows of the retraction of this id."
    )
    reason: str | None = Field(default=None, description="Why; it is kept.")
    accept: bool = Field(default=False, description="Publish in spite of checks that fail.")
    dry_run: DryRun = False

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if sum(one is not None for one in (self.where, self.file, self.of_run, self.undo)) > 1:
            raise ValueError("--where, --file, --run and --undo exclude each other")
        return self

    @property
    def finishes(self) -> bool:
        """Is only what was begun to be finished?"""
        return (self.where, self.file, self.of_run, self.undo) == (None, None, None, None)


class ReplayRequest(RunRequest):
    """Judge rejects anew, and bring those to bronze that are accepted.

    Those of a file, by their ids, each with its mended record; or all of them, or those of one
    reason, as they were read. Neither: what was begun is finished.
    """

    job = "tidemark.streaming.jobs.replay"
    kind = "replay"

    mended: str | None = Field(
        default=None,
        validation_alias="from",
        description="A file of JSON lines: `id` of a reject, and `raw`, the mended record.",
    )
    again: bool = Field(
        default=False, description="The rejects as they were read, by today's columns and rules."
    )
    of: str | None = Field(default=None, description="Of those only the ones of this reason.")
    reason: str | None = Field(default=None, description="Why; it is kept.")
    dry_run: DryRun = False

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if self.mended is not None and self.again:
            raise ValueError("--from and --again exclude each other")
        if self.of is not None and not self.again:
            raise ValueError("--of goes with --again")
        return self

    @property
    def finishes(self) -> bool:
        """Is only what was begun to be finished?"""
        return self.mended is None and not self.again


class EraseRequest(RunRequest):
    """Erase rows for good: of bronze, of what was retracted, and of rejects.

    Those that a condition names. None: what was begun is finished.
    """

    job = "tidemark.streaming.jobs.erase"
    kind = "erase"

    where: str | None = Field(
        default=None,
        description="Spark SQL on bronze's columns, as in `userId = 7`. It is not kept.",
    )
    texts: tuple[str, ...] = Field(
        default=(),
        description="Erase rejects too that hold this text. Can be given several times.",
    )
    reject_again: bool = Field(
        default=False,
        description="Reject such rows when they come again; then --where has to be equalities "
        "alone, as in `userId = 7`.",
    )
    reason: str | None = Field(default=None, description="Why; it is kept, so name nobody.")
    accept: bool = Field(default=False, description="Publish in spite of checks that fail.")
    dry_run: DryRun = False

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if self.texts and self.where is None:
            raise ValueError("--text goes with --where")
        if self.reject_again and self.where is None:
            raise ValueError("--reject-again goes with --where")
        if not all(self.texts):
            raise ValueError("--text is empty, which each reject holds")
        return self

    @property
    def finishes(self) -> bool:
        """Is only what was begun to be finished?"""
        return self.where is None


ActRequest = RecomputeRequest | RewindRequest | RetractRequest | ReplayRequest | EraseRequest


def check_may_ask(request: JobRequest, settings: Settings) -> None:
    """ActRefused where who asks is none of those whom the settings let do this, or accept failed
    checks with it. To look is anybody's."""
    if isinstance(request, ActRequest):
        acts = [request.kind, *(["accept"] if request.accepts else [])]
        for act in [] if request.dry_run else acts:
            check_may(settings, act, request.by)
    elif isinstance(request, RepartitionRequest):
        check_may(settings, request.kind, request.by)


class AuditRequest(PipelineRequest):
    """Compare gold with the batch aggregate of bronze."""

    job = "tidemark.streaming.jobs.audit"
    kind = "audit"

    table: str | None = Field(default=None, description="The table. Default: all of the pipeline.")
    start: Instant | None = Field(
        default=None,
        validation_alias="from",
        description=f"Windows that start here or later: {_FORM}. Default: from the first on.",
    )
    end: Instant | None = Field(
        default=None,
        validation_alias="to",
        description="And before this. Default: up to the last one.",
    )

    _where_windows_lie = field_validator("start", "end")(_where_windows_lie)


class CompactionRequest(PipelineRequest):
    """Write new snapshots of state that is due for it."""

    job = "tidemark.streaming.jobs.compact_state"
    kind = "compaction"

    every: bool = Field(
        default=False,
        validation_alias="all",
        description="Also of state that is not due, where there is something.",
    )


class RepartitionRequest(RunRequest):
    """Bring the state of a pipeline's tables to another number of partitions."""

    job = "tidemark.streaming.jobs.repartition_state"
    kind = "repartition"

    partitions: int = Field(ge=1, le=100_000, description="How many each store is to have.")
    tables: tuple[str, ...] = Field(
        default=(),
        description="Only this table. Can be given several times. Default: all with state.",
    )
    reason: str | None = Field(default=None, description="Why; it is kept.")


class StateRequest(PipelineRequest):
    """Show what a table's query remembers, key by key."""

    job = "tidemark.streaming.jobs.read_state"
    kind = "state"

    table: str = Field(description="The table of the pipeline.")
    batch: int | None = Field(
        default=None, ge=0, description="After this batch. Default: the last one."
    )
    since: int | None = Field(
        default=None,
        ge=0,
        description="Only keys that came, went or changed after this batch, with both values.",
    )
    where: str | None = Field(
        default=None,
        description="Spark SQL on the key's columns, as in `spotId = 111`; the window is `window`.",
    )
    side: Literal["left", "right"] | None = Field(
        default=None,
        description="Of a join: the rows of this side that may match yet, not its windows.",
    )
    delta: str | None = Field(
        default=None, description="Write all rows to a new Delta table here: a path or URI."
    )
    limit: int = Field(default=20, ge=1, description="Of more rows, the first by their keys.")
