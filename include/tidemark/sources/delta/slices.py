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

# A file that was read whole; within the class `bytes` is a field.
Data = bytes
# Rows that are turned into lines at a time.
_AT_ONCE = 20_000
# A row as JSON is about so much larger than in its file.
_UNPACKED = 8


@dataclass(frozen=True)
class DeltaSlice(Slice):
    """`part` names the version and the file (`Part`), `uri` is where it lies; `partition` has the
    values of partition columns as JSON. Of a local file only what is read at a time is in memory;
    of another one the whole file."""

    part: str
    version: int
    path: str
    uri: str
    bytes: int
    partition: Mapping[str, str]
    options: Options

    @property
    def estimated_bytes(self) -> int:
        return self.bytes * _UNPACKED

    def lines(self) -> Iterator[pa.Table]:
        row = 0
        try:
            # Spark's INT96 is told apart by its nanoseconds, in which the years end at 2262.
            source = self._source()
            with _opened(source) as told:
                kinds = told.schema_arrow
            for batch in _opened(source, "us").iter_batches(_AT_ONCE):
                rows = pa.Table.from_batches([batch])
                lines = lines_of(rows, dict(self.partition), kinds)
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
        except (FileMissing, FileNotFoundError) as error:
            raise PartUnreadable(self.part, "The file is gone") from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise PartUnreadable(self.part, f"It cannot be read as Parquet ({error})") from error

    def _source(self) -> str | Data:
        """A local file's path, or the whole of another one."""
        if is_local(self.uri):
            return local_path(self.uri)
        return read_bytes(self.uri, self.options)


def _opened(source: str | Data, unit: str | None = None) -> pq.ParquetFile:
    """`unit`: of INT96."""
    file = source if isinstance(source, str) else pa.BufferReader(source)
    return pq.ParquetFile(file, coerce_int96_timestamp_unit=unit)
