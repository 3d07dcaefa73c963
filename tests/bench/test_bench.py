"""The benchmarks still run, and all contenders come to the same gold. No time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.__main__ import FIGURES, WORK
from bench.contenders import (
    DEFAULT,
    DUCKDB,
    OUR_COMMAND,
    OURS,
    POLARS,
    REPOSITORY,
    TUNED,
    Contender,
    GoldDiffers,
    Workspace,
    check_gold,
)
from bench.figures.cluster import OPTIONS, ROOT
from bench.inputs import write_events
from bench.measured import Failed, cost_of
from tests.kit.running import query
from tests.storage.s3 import s3_server

pytestmark = pytest.mark.process

ALL = (OURS, OUR_COMMAND, TUNED, DEFAULT, DUCKDB, POLARS)
# Those that start no Spark.
QUICK_FIGURES = ("judging", "formats", "publish", "doctor", "state_check")
LONG_FIGURES = [name for name in FIGURES if name not in QUICK_FIGURES]


@pytest.mark.parametrize(
    ("contenders", "inputs"),
    [((DUCKDB, POLARS), 1), pytest.param(ALL, 2, marks=pytest.mark.long)],
)
def test_all_contenders_come_to_the_same_gold(
    tmp_path: Path, contenders: tuple[Contender, ...], inputs: int
) -> None:
    places = {one: Workspace(tmp_path / "source", tmp_path / one.name) for one in contenders}
    for number in range(inputs):
        write_events(tmp_path / "source", number * 3_000, 3_000)
        for one, place in places.items():
            cost_of(one.start(place), one.environment(place), tmp_path / f"{one.name}.log")
    windows = check_gold(places)
    gold = DUCKDB.gold(places[DUCKDB])
    assert gold.num_rows == windows > 500
    assert query("SELECT sum(events) FROM gold", gold=gold) == [(inputs * (3_000 - 15),)]


def test_golds_that_differ_are_named(tmp_path: Path) -> None:
    places = {}
    for one in (DUCKDB, POLARS):
        source = tmp_path / f"{one.name}-source"
        write_events(source, 0, 100 if one is DUCKDB else 101)
        places[one] = Workspace(source, tmp_path / one.name)
        cost_of(one.start(places[one]), one.environment(places[one]), tmp_path / "log.txt")
    with pytest.raises(GoldDiffers, match=r"\d+ windows differ between DuckDB .* and Polars"):
        check_gold(places)


def test_the_same_arguments_make_the_same_input(tmp_path: Path) -> None:
    files = [write_events(tmp_path / name, 7, 1_000)[0] for name in ("one", "other")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_text().splitlines()) == 1_000


def test_every_tenth_row_is_one_of_all(tmp_path: Path) -> None:
    tenth, every = (
        write_events(tmp_path / str(n), 7, 1_000, every=n)[0].read_text() for n in (10, 1)
    )
    assert tenth.splitlines() == every.splitlines()[3::10]


def test_the_cost_of_a_process_counts_its_children(tmp_path: Path) -> None:
    burn = "t=__import__('time'); e=t.process_time()+1\nwhile t.process_time()<e: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    cost = cost_of([sys.executable, "-c", child], os.environ, tmp_path / "log.txt")
    assert cost.cpu >= 1
    assert cost.wall >= 1
    assert cost.peak_mb > 10


def test_the_peak_memory_is_that_of_the_whole_process_tree(tmp_path: Path) -> None:
    hold = "held = bytearray(b'x') * 100_000_000"
    grandchild = f"import time; {hold}; time.sleep(1)"
    child = (
        f"import subprocess, sys; {hold}; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    )
    cost = cost_of([sys.executable, "-c", child], os.environ, tmp_path / "log.txt")
    assert 200 < cost.peak_mb < 300


def test_a_contender_that_fails_has_no_cost(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"ended with 3; its output is in"):
        cost_of([sys.executable, "-c", "exit(3)"], os.environ, tmp_path / "log.txt")


@pytest.mark.parametrize(
    "names",
    [QUICK_FIGURES, *(pytest.param([name], marks=pytest.mark.long) for name in LONG_FIGURES)],
    ids=" ".join,
)
def test_the_smallest_form_of_each_figure_is_told_saved_and_drawn(
    names: Sequence[str], tmp_path: Path
) -> None:
    asked = ["--size", "smallest", "--folder", str(tmp_path), "--figures", *names]
    with s3_server() if "cluster" in names else nullcontext({}) as options:
        store = {ROOT: "s3://lake/bench", OPTIONS: json.dumps(options)} if options else {}
        done = subprocess.run(
            [sys.executable, "-m", "bench", *asked],
            env=os.environ | {"PYTHONPATH": "include"} | store,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    for name in names:
        assert json.loads((tmp_path / f"{name}.json").read_text())["numbers"]
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"({name}.png)" in (tmp_path / "README.md").read_text()
        assert not (WORK / name).exists()
