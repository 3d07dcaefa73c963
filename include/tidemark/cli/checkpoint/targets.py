"""Which checkpoints PATH-or-PIPELINE means, and what is known of their queries besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.checkpoint.doctor.judge import QueryFacts
from tidemark.cli.options import absolute
from tidemark.errors import PipelineNotFound, SettingsInvalid
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.pipeline.load import ENDINGS, find_pipeline
from tidemark.pipeline.model import Pipeline, StateLimits
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.pipeline.settings.storage_options import is_local
from tidemark.pipeline.source_files import is_uri
from tidemark.sources.lag import NotAsked, source_lag
from tidemark.sources.source import Lag
from tidemark.storage.file_place import FilePlace
from tidemark.storage.root import check_root

if TYPE_CHECKING:
    from tidemark.gold.plan import GoldState
    from tidemark.runs.losses import Loss
    from tidemark.storage.delta.place import TablePlace
    from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class CheckpointTarget:
    """One checkpoint: what to call it, where it is, and what is known of its query.

    `in_use` is False for a generation that gold no longer names, or does not name yet.
    `newest_version`: of the Delta table that the query reads; None where it is not known.
    `limits`: those of the pipeline, or the defaults.
    """

    name: str
    place: FilePlace
    known: QueryFacts = field(default_factory=QueryFacts)
    in_use: bool = True
    newest_version: int | None = None
    limits: StateLimits = field(default_factory=StateLimits)


@dataclass(frozen=True)
class CheckpointTargets:
    """The checkpoints that were asked for; of a pipeline, those that do not exist yet as well, and
    what of its tables and checkpoints does not fit what rests on it (none while a run works).
    `ask_lag` asks a pipeline's source how far its ingest is behind."""

    checkpoints: tuple[CheckpointTarget, ...]
    pipeline: str | None = None
    losses: tuple[Loss, ...] = ()
    ask_lag: Callable[[], Lag | NotAsked | None] = lambda: None


def find_targets(path_or_pipeline: str, settings: Path | None) -> CheckpointTargets:
    """The checkpoint at a path or URI, or all of a pipeline's.

    A path needs no settings: anybody's checkpoint can be looked at. A name without a slash is a
    pipeline's where there is one, else a folder's.
    """
    found = place_or_pipeline(path_or_pipeline, settings)
    if isinstance(found, CheckpointTarget):
        return CheckpointTargets((found,))
    pipeline, loaded = found
    check_root(loaded)
    return CheckpointTargets(
        _of_pipeline(pipeline, loaded),
        pipeline.name,
        _losses(pipeline, loaded),
        partial(source_lag, pipeline, loaded),
    )


def place_or_pipeline(
    given: str, settings: Path | None
) -> CheckpointTarget | tuple[Pipeline, Settings]:
    """The checkpoint that a path or URI means, or the pipeline that a name means."""
    if _is_place(given):
        return _at(given, settings)
    try:
        loaded = load_settings(settings)
        return find_pipeline(given, loaded), loaded
    except (PipelineNotFound, SettingsInvalid):
        if Path(given).exists():
            return _at(given, settings)
        raise


def _is_place(given: str) -> bool:
    if is_uri(given) or given.endswith("/"):
        return True
    path = Path(given)
    return path.suffix not in ENDINGS and (len(path.parts) > 1 or given in (".", ".."))


def reached(uri: str, settings: Path | None) -> FilePlace:
    """A path or URI with the settings' storage options, which one on this machine does without."""
    options: Mapping[str, str] = {}
    if not is_local(uri):
        try:
            options = load_settings(settings).storage_options
        except SettingsInvalid:
            if settings is not None:
                raise
    return FilePlace(uri, options)


def _at(given: str, settings: Path | None) -> CheckpointTarget:
    uri = absolute(given).rstrip("/") or "/"
    return CheckpointTarget(uri, reached(uri, settings))


def _of_pipeline(pipeline: Pipeline, settings: Settings) -> tuple[CheckpointTarget, ...]:
    limits = pipeline.advanced.state.limits
    from tidemark.gold.state import gold_state
    from tidemark.storage.warehouse import Warehouse

    warehouse = Warehouse.of(pipeline.name, settings)
    opened = {table: warehouse.gold(table).open() for table in pipeline.tables}
    golds = {table: None if gold is None else gold_state(gold) for table, gold in opened.items()}
    queries = _recorded(pipeline.name, warehouse.ledger, golds.values())
    of_ingest = QueryFacts(query_ids=queries.get(None, ()))
    ingest = ingest_checkpoint(warehouse)
    targets = [CheckpointTarget(INGEST, ingest, of_ingest, limits=limits)]
    newest_event, newest_version = _bronze(pipeline, warehouse.bronze)
    for table, model in pipeline.tables.items():
        known = QueryFacts(
            newest_event_ms=newest_event,
            output_mode=model.output_mode,
            keeps_state=False if model.recomputes else None,
        )
        gold = golds[table]
        in_use = 1 if gold is None else gold.generation
        of_table = replace(known, query_ids=queries.get(table, ()))
        targets += [
            CheckpointTarget(
                f"{table}, generation {generation}",
                query_checkpoint(warehouse, table, generation),
                of_table if generation == in_use else known,
                generation == in_use,
                newest_version,
                limits,
            )
            for generation in _generations(warehouse, table, in_use)
        ]
    return tuple(targets)


def _losses(pipeline: Pipeline, settings: Settings) -> tuple[Loss, ...]:
    from tidemark.runs.losses import LOOKS, find_losses
    from tidemark.storage.lease.lease import read_lease
    from tidemark.storage.warehouse import Warehouse

    warehouse = Warehouse.of(pipeline.name, settings)
    record = read_lease(warehouse.places.lease, warehouse.options)
    found: tuple[Loss, ...] = ()
    for _ in range(LOOKS):
        if record is not None and not record.released:
            return ()
        found = find_losses(pipeline, warehouse)
        before, record = record, read_lease(warehouse.places.lease, warehouse.options)
        if record == before:
            break
    return found


def _generations(warehouse: Warehouse, table: str, in_use: int) -> list[int]:
    """The generations that have a folder, and the one in use."""
    folder = warehouse.places.query_checkpoint(table, in_use).rpartition("/")[0]
    found = warehouse.file_at(folder).names()
    return sorted({in_use, *(int(name) for name in found if name.isdecimal())})


def _recorded(
    pipeline: str, ledger: TablePlace, golds: Iterable[GoldState | None]
) -> dict[str | None, tuple[str, ...]]:
    """The queries that the ledger knows. None where nothing is published: then the tables may be
    newer than the ledger, which other pipelines share."""
    from tidemark.ledger.queries import recorded_queries

    if not any(gold is not None and gold.changes >= 0 for gold in golds):
        return {}
    return recorded_queries(ledger, pipeline)


def _bronze(pipeline: Pipeline, place: TablePlace) -> tuple[int | None, int | None]:
    """The newest event and the newest version of what the tables' queries read."""
    from tidemark.storage.delta.newest_event import newest_event_ms

    bronze = place.open()
    if bronze is None:
        return None, None
    return newest_event_ms(bronze, pipeline.source.event_time.column), bronze.version()
