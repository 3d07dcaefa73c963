"""The page of the benchmarks is made of the figures' JSON files, and of nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.__main__ import FIGURES_TOLD
from bench.contenders import REPOSITORY
from bench.drawing import bars
from bench.figure import Figure, Goal, save
from bench.report import PAGE, write_report

DOCS = REPOSITORY / "docs" / "bench"
NAMES = ("first", "second", "not_measured")


def _save(folder: Path, name: str, number: str, machine: str = "2 cores", *goals: Goal) -> None:
    found = {"ours": {"wall": [1.0, 2.0], "CPU": [3.0]}, "theirs": {"wall": [4.0]}}
    told, numbers = [f"{name} is told."], {"number": number}
    row = [name, number]
    figure = Figure(
        name,
        f"The {name} figure",
        ("name", "number"),
        [row],
        told,
        numbers,
        lambda axes: bars(axes, found, "seconds"),
        goals,
    )
    save(figure, folder, machine, 90)


def test_measuring_one_figure_again_keeps_the_others(tmp_path: Path) -> None:
    for name in ("first", "second"):
        _save(tmp_path, name, "1")
    write_report(tmp_path, NAMES)
    kept = (tmp_path / "second.json").read_bytes()
    _save(tmp_path, "first", "2")
    page = write_report(tmp_path, NAMES).read_text()
    assert (tmp_path / "second.json").read_bytes() == kept
    assert "| first | 2 |" in page
    assert "| second | 1 |" in page
    assert page.index("The first figure") < page.index("The second figure")
    assert "Measured in 3 minutes: first 1.5, second 1.5." in page


def test_the_page_comes_again_from_the_json_files_alone(tmp_path: Path) -> None:
    _save(tmp_path, "first", "1", "2 cores", Goal("runs", 1.05, 1.1))
    before = write_report(tmp_path, NAMES).read_text()
    (tmp_path / PAGE).unlink()
    assert {file.name for file in tmp_path.iterdir()} == {"first.json", "first.png"}
    assert write_report(tmp_path, NAMES).read_text() == before


def test_the_page_in_the_docs_is_that_of_its_json_files(tmp_path: Path) -> None:
    for file in DOCS.glob("*.json"):
        shutil.copy(file, tmp_path)
    assert write_report(tmp_path, FIGURES_TOLD).read_text() == (DOCS / PAGE).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "told"),
    [
        (Goal("runs", 1.1, 1.1), "| runs | 1.1 | at most 1.1 | reached |"),
        (Goal("runs", 1.11, 1.1), "| runs | 1.11 | at most 1.1 | not reached |"),
        (Goal("rows/s", 0.9, 0.9, True), "| rows/s | 0.9 | at least 0.9 | reached |"),
        (Goal("rows/s", 0.89, 0.9, True), "| rows/s | 0.89 | at least 0.9 | not reached |"),
    ],
)
def test_a_goal_is_told_with_whether_it_is_reached(tmp_path: Path, goal: Goal, told: str) -> None:
    _save(tmp_path, "first", "1", "2 cores", goal)
    assert told in write_report(tmp_path, NAMES).read_text()


def test_machines_are_told_apart(tmp_path: Path) -> None:
    _save(tmp_path, "first", "1")
    _save(tmp_path, "second", "1")
    assert "\n2 cores\n" in write_report(tmp_path, NAMES).read_text()
    _save(tmp_path, "second", "1", "8 cores")
    page = write_report(tmp_path, NAMES).read_text()
    assert "- first: 2 cores\n- second: 8 cores\n" in page
