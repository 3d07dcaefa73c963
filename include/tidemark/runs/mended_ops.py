"""The tables of `ops/` as a run finds them: broken ones are made anew from what is known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidemark.ledger.ledger import replace_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.model import Pipeline
from tidemark.runs.contract.recorded import seeds_of
from tidemark.storage.delta.broken_ops import set_broken_aside
from tidemark.storage.warehouse import Warehouse


def mend_ops(pipeline: Pipeline, warehouse: Warehouse, say: Callable[[str], object]) -> None:
    """Set broken tables aside and build the pipeline's ledger anew; never raises.

    Its runs come back as far as gold's commits tell: the last one that published. What upkeep and
    checks said before is in the table that was set aside.
    """
    names = ("ledger", "runs", "batches", "upkeep", "quality")
    try:
        places = {name: getattr(warehouse, name) for name in names}
        now = datetime.now(UTC)
        aside = set_broken_aside(places, say, now)
        if "ledger" in aside and warehouse.bronze.open() is not None:
            lines = rebuilt_lines(Ledgered(pipeline, warehouse, seeds_of(pipeline, warehouse)))
            replace_ledger(warehouse.ledger, pipeline.name, lines, now)
            say(
                f"{len(lines)} lines of the ledger of {pipeline.name} were built anew; of other "
                "pipelines, `tidemark ledger rebuild NAME` does it"
            )
    except Exception as error:  # noqa: BLE001  a run is as good without its accounts of before
        say(f"ops could not be mended ({type(error).__name__}: {error})")
