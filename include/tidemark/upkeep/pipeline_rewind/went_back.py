"""Which windows of gold went back: who follows gold has to read these again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import field

from tidemark.gold.pins import Published
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_rewind.change import PipelineChange


def went_back(change: PipelineChange, warehouse: Warehouse) -> Iterator[tuple[str, Published]]:
    """By table, the windows that gold had by an undone run; not of a table where there is none."""
    undone = pa.array(change.undone, pa.string())
    for gold in change.golds:
        if gold.back is None or gold.back.version == gold.back.seen:
            continue
        rows = dataset_of(warehouse.gold(gold.table).at_version(gold.back.seen)).to_table(
            columns=["window_start", "window_end"],
            filter=field("updated_by").isin(undone),
        )
        if rows.num_rows:
            start, end = pc.min(rows["window_start"]).as_py(), pc.max(rows["window_end"]).as_py()
            changed = Published(
                windows=rows.num_rows, start_ms=epoch_ms(start), end_ms=epoch_ms(end)
            )
            yield gold.table, changed
