"""The rows of one file of a table, read by one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.sources.delta.rows import lines_of
from tidemark.sources.source import PartUnreadable, Slice
from tidemark.storage.files import FileMissing, Options, read_bytes

# Rows that are turned into lines at a time.
_AT_ONCE = 20_000
# A row as JSON is about so much larger than in its file.
_UNPACKED = 8


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
    def estimated_bytes(self) -> int:
        return self.bytes * _UNPACKED

    def lines(self) -> Iterator[pa.Table]:
        row = 0
        try:
            for batch in self._opened().iter_batches(_AT_ONCE):
                rows = pa.Table.from_batches([batch])
                rows = rows if self.most is None else rows.slice(0, self.most - row)
                lines = lines_of(rows, dict(self.partition))
                number = len(lines)
                yield pa.table(
                    {
                        "_value": pa.array(lines, pa.binary()),
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
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise PartUnreadable(self.part, f"It cannot be read as Parquet ({error})") from error

    def _opened(self) -> pq.ParquetFile:
        if is_local(self.uri):
            return pq.ParquetFile(local_path(self.uri))
        return pq.ParquetFile(pa.BufferReader(read_bytes(self.uri, self.options)))
