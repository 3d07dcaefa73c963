"""Checkpoints that somebody made up: numbers that no engine writes, texts that are nested deep.

They are judged as damage, or as what is not known; no command ends in a traceback."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoint.archives import land_listed, unpack
from tests.checkpoint.damaged import write
from tests.checkpoint.rewind.queries import command

NAMES = ("aggregate-format2", "join-hdfs", "offsets-by-name", "transform-rocksdb", "two-sources")
DEEP = 100_000
NUMBERS = (
    *("1e999", "-1e999", "NaN", "Infinity", "1e300", "9" * 5_000, "9" * 30, "-" + "9" * 30),
    *(str(2**63), str(2**63 - 1), str(-(2**63)), str(2**31), "-1", "0.5", "true", "null"),
    *("[" * DEEP, '{"a":' * DEEP, "[" * DEEP + "]" * DEEP, '"x"', "[]", "{}", "[0]", '{"0": 1}'),
)
_NUMBER = re.compile(rb"(?<![\w.-])-?\d+(?![\w.-])|v\d+|(?<=:)\{.*\}")
_TEXTS = ("metadata", "offsets/*", "commits/*", "sources/*/*", "state/*/_metadata/**/*")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The checkpoints by name, each in a folder of its own."""
    folder = tmp_path_factory.mktemp("made")
    found = {name: unpack(f"4.2.0/{name}", folder / name) for name in NAMES}
    for checkpoint in found.values():
        land_listed(checkpoint)
    return found


def texts_of(checkpoint: Path) -> list[Path]:
    """The files that hold JSON."""
    found = (path for pattern in _TEXTS for path in checkpoint.glob(pattern) if path.is_file())
    return sorted(path for path in found if not path.name.startswith("."))


def judged(checkpoint: Path) -> Iterator[str]:
    """What the commands that read a checkpoint say; none may fail in any other way."""
    batch = max(
        int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal()
    )
    for arguments in (
        ("inspect", checkpoint),
        ("doctor", checkpoint),
        ("rewind", checkpoint, "--to-batch", str(batch - 1), "--sink", "other"),
        ("repair", checkpoint, "--sink", "other"),
    ):
        result = command(*arguments)
        assert "Traceback" not in result.output, arguments
        yield result.output


CASES = st.tuples(st.sampled_from(NAMES), st.integers(0), st.integers(0), st.sampled_from(NUMBERS))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_whatever_stands_where_a_number_was_no_command_ends_in_a_traceback(
    made: dict[str, Path], tmp_path: Path, case: tuple[str, int, int, str]
) -> None:
    name, file, place, text = case
    checkpoint = tmp_path / "query"
    shutil.rmtree(checkpoint, ignore_errors=True)
    shutil.copytree(made[name], checkpoint)
    texts = texts_of(checkpoint)
    path = texts[file % len(texts)]
    data = path.read_bytes()
    spans = [found.span() for found in _NUMBER.finditer(data)] or [(0, len(data))]
    first, end = spans[place % len(spans)]
    write(path, data[:first] + text.encode() + data[end:])
    assert len(list(judged(checkpoint))) == 4


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[" * DEEP, '{"a":' * DEEP, "1e999", "9" * 5_000])
@pytest.mark.parametrize("file", ["offsets/7", "commits/7", "metadata"])
def test_what_no_engine_writes_into_a_log_is_damage(
    made: dict[str, Path], tmp_path: Path, file: str, text: str
) -> None:
    checkpoint = Path(shutil.copytree(made["two-sources"], tmp_path / "query"))
    newest = max(
        int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()
    )
    path = checkpoint / file.replace("7", str(newest))
    line = (
        f'{{"id": {text}}}'
        if file == "metadata"
        else f'v1\n{{"batchWatermarkMs": {text}, "nextBatchWatermarkMs": {text}}}'
    )
    write(path, line.encode())
    result = command("doctor", checkpoint)
    assert result.exit_code in (12, 14)
    assert "it holds" in result.output


@pytest.mark.slow
def test_files_whose_numbers_no_engine_counts_to_are_not_taken_for_its_own(
    made: dict[str, Path], tmp_path: Path
) -> None:
    checkpoint = Path(shutil.copytree(made["join-hdfs"], tmp_path / "query"))
    before = command("doctor", checkpoint).exit_code
    for name in (
        "offsets/",
        "commits/",
        "sources/0/",
        "state/0/",
        "state/0/0/left-keyToNumValues/",
    ):
        for number in ("9" * 30, "9" * 200):
            path = checkpoint / f"{name}{number}{'.delta' if 'left' in name else ''}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("v1\n{}")
    list(judged(checkpoint))
    assert command("doctor", checkpoint).exit_code == before
