"""The rows of one file of a table, read by one process as the JSON lines that they would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemark.sources.formats.parquet import UNPACKED, parquet_rows, typed_rows
from tidemark.sources.formats.whole_files import all_lines
from tidemark.sources.source import Slice, TypedRows
from tidemark.storage.files import Options


@dataclass(frozen=True)
class DeltaSlice(Slice):
    """`part` names the version and the file (`Part`), `uri` is where it lies; `partition` has the
    values of partition columns as JSON. `most`: only so many rows are read, the first ones; `rows`:
    only those at these places; `deleted`: without those. Of a local file only what is read at a
    time is in memory; of another one the whole file."""

    part: str
    version: int
    path: str
    uri: str
    bytes: int
    partition: Mapping[str, str]
    options: Options
    most: int | None = None
    rows: tuple[int, ...] | None = None
    deleted: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return self.uri

    @property
    def estimated_bytes(self) -> int:
        return self.bytes * UNPACKED

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        return all_lines(self.typed(most_bytes))

    def typed(self, most_bytes: int) -> Iterator[TypedRows]:
        row = 0
        for given in parquet_rows(self.part, self.uri, self.options, "The file is gone"):
            rows = given if self.most is None else given.slice(0, self.most - row)
            places = np.arange(row, row + len(rows))
            row += len(rows)
            if self.rows is not None or self.deleted:
                wanted = np.isin(places, self.deleted, invert=True)
                if self.rows is not None:
                    wanted &= np.isin(places, self.rows)
                at = np.flatnonzero(wanted)
                # Arrow filters not all of its forms of text; each can be cut, and put together.
                runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
                cuts = [rows.slice(int(one[0]), len(one)) for one in runs if len(one)]
                rows, places = pa.concat_tables([rows.slice(0, 0), *cuts]), places[at]
            number = len(rows)
            origin = pa.table(
                {
                    "_version": pa.repeat(pa.scalar(self.version, pa.int64()), number),
                    "_file": pa.repeat(pa.scalar(self.path, pa.string()), number),
                    "_row": pa.array(places, pa.int64()),
                }
            )
            if number:
                yield typed_rows(rows, origin, most_bytes, _name, self.partition)
            if row == self.most:
                return


def _name(_: int) -> str:
    return "The row as JSON"
