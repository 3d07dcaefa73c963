"""A sample, and the source of a pipeline that is tried, on an object store."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.kit.running import clicks
from tests.storage.s3 import s3_server
from tidemark.cli.new.places import find_files
from tidemark.cli.new.sample import read_sample
from tidemark.cli.trial.first_rows import take_first_rows
from tidemark.errors import SampleUnusable
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.files import write_bytes

# Two members in one file, as appending gzip makes them.
LINES = [[json.dumps({"n": 10 * file + line}) for line in range(3)] for file in range(2)]
FOLDER = "s3://lake/root/landing/%C3%A4%20b"


@pytest.mark.slow
def test_the_first_lines_are_read_by_name_and_the_source_is_the_store_s(tmp_path: Path) -> None:
    with s3_server() as options:
        for number, lines in enumerate(LINES):
            members = [gzip.compress(f"{line}\n".encode()) for line in lines]
            write_bytes(f"{FOLDER}/{number}.json.gz", b"".join(members), options)
        settings = Settings(root="s3://lake/root", pipelines="/unused", storage_options=options)

        one = find_files(f"{FOLDER}/1.json.gz", settings, "orders")
        assert one.source == f"{FOLDER}/*.json*"
        assert [row["n"] for row in read_sample(one.read, settings).rows] == [10, 11, 12]
        every = find_files(f"{FOLDER}/*.gz", settings, "orders")
        assert every.source == f"{FOLDER}/*.gz"
        assert [row["n"] for row in read_sample(every.read, settings).rows] == [0, 1, 2, 10, 11, 12]
        with pytest.raises(SampleUnusable, match="there is no such file"):
            find_files(f"{FOLDER}/3.json", settings, "orders")

        source = clicks()["source"] | {"files": "landing/ä b/*.json*"}
        pipeline = pipeline_from_mapping("orders", clicks(source=source))
        taken = take_first_rows(pipeline, settings, 4, tmp_path)
        assert (taken.rows, taken.parts) == (4, 2)
        copies = [path.read_text().splitlines() for path in sorted(tmp_path.rglob("*.json"))]
        assert copies == [LINES[0], LINES[1][:1]]
