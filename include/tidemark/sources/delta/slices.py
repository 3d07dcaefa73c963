"""The rows of one file of a table, read by one process as the JSON lines that they would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.sources.formats.parquet import (
    UNPACKED,
    lines_of,
    parquet_file,
    rows_at_once,
    typed,
)
from tidemark.sources.large_lines import bounded
from tidemark.sources.source import NOT_THE_PART, PartUnreadable, Slice
from tidemark.storage.files import FileMissing, Options, read_bytes


@dataclass(frozen=True)
class DeltaSlice(Slice):
    """`part` names the version and the file (`Part`), `uri` is where it lies; `partition` has the
    values of partition columns as JSON. `most`: only so many rows are read, the first ones. Of a
    local file only what is read at a time is in memory; of another one the whole file."""

    part: str
    version: int
    path: str
    uri: str
    bytes: int
    partition: Mapping[str, str]
    options: Options
    most: int | None = None

    @property
    def label(self) -> str:
        return self.uri

    @property
    def estimated_bytes(self) -> int:
        return self.bytes * UNPACKED

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        row = 0
        try:
            file = self._opened()
            schema = typed(file)
            for batch in file.iter_batches(rows_at_once(file)):
                rows = pa.Table.from_batches([batch]).cast(schema)
                rows = rows if self.most is None else rows.slice(0, self.most - row)
                lines = pa.array(lines_of(rows, dict(self.partition)), pa.binary())
                number = len(lines)
                yield pa.table(
                    {
                        **bounded(lines, most_bytes, lambda _: "The row as JSON"),
                        "_version": pa.repeat(pa.scalar(self.version, pa.int64()), number),
                        "_file": pa.repeat(pa.scalar(self.path, pa.string()), number),
                        "_row": pa.array(range(row, row + number), pa.int64()),
                    }
                )
                row += number
                if row == self.most:
                    return
        except (FileMissing, FileNotFoundError) as error:
            raise PartUnreadable(self.part, "The file is gone") from error
        # pyarrow's two errors: of a file that is no Parquet, and of Parquet that it cannot read,
        # such as another compression.
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno in NOT_THE_PART:
                raise
            raise PartUnreadable(self.part, f"It cannot be read as Parquet ({error})") from error

    def _opened(self) -> pq.ParquetFile:
        if is_local(self.uri):
            return parquet_file(local_path(self.uri))
        return parquet_file(pa.BufferReader(read_bytes(self.uri, self.options)))
