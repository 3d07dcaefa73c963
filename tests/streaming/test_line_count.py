"""Lines are counted as Spark reads them, with and without Spark."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.sources.files.count import count_plain
from tidemark.sources.source import LineCount
from tidemark.streaming.ingest.line_count import count_lines
from tidemark.streaming.sources.files import read_source_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENTS = (
    b"\n",
    b"\n\n",
    b"a",
    b"a\n",
    b"a\nb",
    b"a\r\nb\r\n",
    b"\r",
    b"\xef\xbb\xbfa\n",
    b"\x00\n\xff\xfe\n \n",
    b"\xe2\x80\xa8\x0b\x0c\x1c\x85\n",
    b"a" * 100_000 + b"\n" * 3,
)


def landed(folder: Path, contents: tuple[bytes, ...], suffix: str = ".json") -> list[str]:
    files = [folder / f"file {n} %{{[ä{suffix}" for n in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return [file.as_uri() for file in files]


def test_lines_and_bytes_of_plain_files_are_counted_as_spark_counts_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    for content in CONTENTS:
        (uri,) = landed(tmp_path, (content,))
        plain, by_spark = (
            count_plain([uri], {}, 1_000_000),
            count_lines(read_source_lines(spark, [uri])),
        )
        assert plain is not None
        assert plain.lines == by_spark.lines, content[:20]
        # Line ends count here: what is bounded is what passes through the driver.
        assert by_spark.bytes <= plain.bytes == len(content)
    uris = landed(tmp_path, CONTENTS)
    together = count_plain(uris, {}, 1_000_000)
    assert together is not None
    assert together.lines == count_lines(read_source_lines(spark, uris)).lines


def test_compressed_large_and_missing_files_are_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    packed = landed(tmp_path, (gzip.compress(b"a\nb\n"),), ".json.gz")
    assert count_plain(packed, {}, 1_000) is None
    assert count_lines(read_source_lines(spark, packed)) == LineCount(2, 2)
    plain = landed(tmp_path, (b"a\n", b"b\n"))
    assert count_plain(plain, {}, 4) == LineCount(2, 4)
    assert count_plain(plain, {}, 3) is None
    assert count_plain([*plain, (tmp_path / "gone.json").as_uri()], {}, 1_000) is None


@pytest.mark.parametrize("suffix", ["", ".JSON", ".json.bz2", ".snappy"])
def test_a_name_that_may_stand_for_a_codec_is_left_to_spark(tmp_path: Path, suffix: str) -> None:
    assert count_plain(landed(tmp_path, (b"a\n",), suffix), {}, 1_000) is None
