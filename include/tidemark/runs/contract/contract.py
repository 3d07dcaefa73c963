"""What a query was started with: recorded beside its checkpoint, compared before each run.

The pipeline's whole content is kept, so that a batch which a run left behind can be finished by
the very content that planned it.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemark.commit_point import commit_point
from tidemark.errors import CheckpointUnreadable
from tidemark.operators.calendars.rules import rules_of
from tidemark.pipeline.difference import Difference
from tidemark.pipeline.model import CalendarTable, Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.state import PROVIDER, provider_class
from tidemark.storage.file_place import asked_once
from tidemark.storage.files import FileMissing, Options, read_bytes, write_bytes
from tidemark.version import beside_ours, is_of_a_newer_release, told_version, written_by

PARTITIONS = "spark.sql.shuffle.partitions"

# What a query takes from its last `offsets/N`, whatever the session says (class
# OffsetSeqMetadata, `relevantSQLConfs`), as far as an aggregation's state follows from it.
FIXED_BY_CHECKPOINT = (
    PARTITIONS,
    PROVIDER,
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.streaming.stateStore.encodingFormat",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    "spark.sql.streaming.stateStore.rowChecksum.enabled",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
)


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


class KeyColumn(_Frozen):
    """A grouping key; `type` as the table has it, None while there is no table."""

    name: str
    type: str | None = None


class MeasureColumn(_Frozen):
    """A measure with its Spark SQL expression; `type` as the table has it."""

    name: str
    expression: str
    type: str | None = None


class AcceptedChange(_Frozen):
    """A change of the file that loses or mixes something, and that somebody accepted: what, from
    what to what, why, by whom, and when (UTC)."""

    what: str
    before: str
    after: str
    reason: str
    by: str
    at: datetime

    def is_of(self, found: Difference) -> bool:
        return (self.what, self.before, self.after) == (found.what, found.before, found.after)


class Seed(_Frozen):
    """What a generation began from: all its rows were computed from version `bronze` of bronze, and
    from these of other inputs."""

    bronze: int
    others: dict[str, int] = {}


class Contract(_Frozen):
    """One query's contract: of the ingest, or of the table whose name `query` is.

    `keys` and `measures` stand in the order in which the state holds them; the ingest has none.
    `settings` holds what was asked of Spark and a checkpoint fixes. All else stands in `pipeline`,
    without its checks. `accepted` are changes that the next run may take, `taken` those that runs
    took. `seed` is None for a first generation, whose query read all of bronze. `zone_rules` are
    those of the zone whose days or months the table has; None: of no table of the kind, or of
    before they were noted. `tidemark` wrote it last, so that every run of another build writes it
    anew; None: before versions were told.
    """

    version: Literal[1] = 1
    query: str
    keys: tuple[KeyColumn, ...] = ()
    measures: tuple[MeasureColumn, ...] = ()
    settings: dict[str, str] = {}
    pipeline: Pipeline
    accepted: tuple[AcceptedChange, ...] = ()
    taken: tuple[AcceptedChange, ...] = ()
    seed: Seed | None = None
    zone_rules: dict[datetime, int] | None = None
    tidemark: str | None = None

    def with_types(self, types: dict[str, str]) -> Contract:
        """The contract with the types of the table's columns, by name."""
        keys = [key.model_copy(update={"type": types.get(key.name)}) for key in self.keys]
        measures = [one.model_copy(update={"type": types.get(one.name)}) for one in self.measures]
        return self.model_copy(update={"keys": tuple(keys), "measures": tuple(measures)})

    def is_of(self, pipeline: Pipeline) -> bool:
        """Was it recorded of exactly this content? The order of columns and measures counts, and
        checks do not: no query knows of them."""
        return self.pipeline.model_dump_json() == pipeline.without_checks().model_dump_json()

    def says(self, asked: Contract) -> bool:
        """Is there nothing to record of what a query of this content would start with?"""
        return self.is_of(asked.pipeline) and self.zone_rules == asked.zone_rules


def contract_of(pipeline: Pipeline, query: str, settings: Settings) -> Contract:
    """The contract that a query of this pipeline would start with."""
    pipeline = pipeline.without_checks()
    if query == INGEST:
        return Contract(query=query, pipeline=pipeline)
    table = pipeline.tables[query]
    # What a kind of table sets by itself.
    own = {PROVIDER: provider_class(table.state_store)} if table.state_store else {}
    return Contract(
        query=query,
        keys=tuple(KeyColumn(name=key) for key in table.keys),
        measures=tuple(
            MeasureColumn(name=name, expression=sql) for name, sql in table.measures.items()
        ),
        settings={**_fixed_settings(pipeline, settings), **own},
        pipeline=pipeline,
        zone_rules=rules_of(table.window.zone) if isinstance(table, CalendarTable) else None,
    )


def read_contract(place: str, options: Options) -> Contract | None:
    """The contract at a place; None where none was recorded. CheckpointUnreadable where it is
    none that this version knows, or of a newer release, which may mean more by what it wrote."""
    try:
        stored = asked_once("content", place, lambda: read_bytes(place, options))
    except FileMissing:
        return None
    version = written_by(stored)
    if is_of_a_newer_release(version):
        raise CheckpointUnreadable(
            f"The query of {place} ran by a newer release. {beside_ours(version)}. Nothing was "
            f"written. Run Tidemark {version} or later: an older release does not go on with what "
            "a newer one wrote, and takes over a copy of the root from before it."
        )
    try:
        return Contract.model_validate_json(stored)
    except ValidationError as error:
        text = re.sub(r"\s+", " ", str(error.errors(include_url=False, include_input=False)[:3]))
        raise CheckpointUnreadable(
            f"{place} is no contract that this version of Tidemark knows: {text}. "
            f"{beside_ours(version)}. Nothing was written. If a newer version wrote it, run that. "
            "Else move the file away: the next run takes the pipeline's file as what the query was "
            "started with, so make sure that it is."
        ) from error


@commit_point(
    "contract recorded",
    after_a_kill="before and after: no batch was planned since; the next run compares with what "
    "is there, and records what is missing",
)
def write_contract(place: str, contract: Contract, options: Options) -> None:
    """Record a contract as written by this Tidemark, whole or not at all; to repeat it changes
    nothing."""
    contract = contract.model_copy(update={"tidemark": told_version()})
    write_bytes(place, contract.model_dump_json(indent=1).encode(), options)


def _fixed_settings(pipeline: Pipeline, settings: Settings) -> dict[str, str]:
    asked = {**settings.spark, **pipeline.advanced.spark}
    if pipeline.advanced.shuffle_partitions is not None:
        asked[PARTITIONS] = str(pipeline.advanced.shuffle_partitions)
    if pipeline.advanced.state.store is not None:
        asked[PROVIDER] = provider_class(pipeline.advanced.state.store)
    return {name: asked[name] for name in FIXED_BY_CHECKPOINT if name in asked}
