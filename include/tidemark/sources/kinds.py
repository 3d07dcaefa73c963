"""Which kind of source a pipeline has, and what its change into another means."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.errors import PipelineInvalid
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.granted import check_granted
from tidemark.pipeline.model import (
    DeltaSource,
    FilesSource,
    FirstMessages,
    FirstTableRows,
    KafkaSource,
    Partner,
    Pipeline,
    Source,
)
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.delta.handle import DeltaSourceHandle
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.sources.kafka.handle import KafkaSourceHandle
from tidemark.sources.source import ELEMENT, OriginColumn, SourceHandle

KINDS: dict[type[Source], type[SourceHandle]] = {
    FilesSource: FilesSourceHandle,
    KafkaSource: KafkaSourceHandle,
    DeltaSource: DeltaSourceHandle,
    FirstMessages: KafkaSourceHandle,
    FirstTableRows: DeltaSourceHandle,
}


def source_handle(pipeline: Pipeline, settings: Settings) -> SourceHandle:
    """The pipeline's source, of its kind. Raises PipelineInvalid for what a trial wrote, below
    another root than its own: it would read the first rows and never another; and for what the
    settings do not grant."""
    source = pipeline.source
    if isinstance(source, FirstMessages | FirstTableRows) and source.below != settings.root:
        raise PipelineInvalid(
            f"{pipeline.name} is a trial's: its source says `below: {source.below}`. Nothing was "
            "read. Write the pipeline's file with `tidemark new`, or take `below`, "
            "`first_messages` and `first_table_rows` out."
        )
    check_granted(pipeline, settings)
    return KINDS[type(source)](pipeline, settings)


def row_origin(pipeline: Pipeline | Partner) -> tuple[OriginColumn, ...]:
    """The columns that say where in the pipeline's source a row comes from."""
    origin = KINDS[type(pipeline.source)].origin
    return origin if pipeline.source.explode is None else (*origin, ELEMENT)


def source_changes(old: Pipeline, new: Pipeline) -> Iterator[Difference]:
    """What differs in where rows come from."""
    kind = type(new.source)
    if type(old.source) is kind:
        yield from KINDS[kind].changes(old, new)
        return
    reason = (
        "Bronze is the record of one source: what was not read yet of the old one would be left "
        "out, and what stands in both would be read a second time"
    )
    verdict = ChangeVerdict.NOT_ALLOWED
    yield Difference(INGEST, "source", old.source.label, new.source.label, verdict, reason)
