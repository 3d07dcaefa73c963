"""What `tidemark new` says of a sample's rows is what the judge of a run says of them."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark.judge.rules import rules_of
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import load_pipeline
from tidemark.sources.files.slices import file_slices
from tidemark.sources.kinds import row_origin
from tidemark.storage.files import stat_files
from tidemark.streaming.ingest.judged_slices import BatchRules, JudgedLines, judge_slices

MOST = 4096
START = 1_782_900_000_000
AT = datetime.fromtimestamp(START / 1_000, UTC).isoformat()
# Of each kind: times in a column of milliseconds, and in one of text.
TIMES: dict[str, list[Any]] = {
    "epoch": [START // 1_000, START * 1_000, 0, -1, 253_402_300_800_000, 10**30, "x", None, True],
    "text": ["2126-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "2026-07-01T10:00:00", "", 7, None],
}
ODD_LINES = (
    b"", b" ", b"x", b"{", b"[]", b'{"at": 1', b'{"at": NaN}', b"\xff", b'{"id": 1, "id": 1}',
    json.dumps({"at": START, "note": "x" * MOST}).encode(), b"x" * (MOST + 1), b"{}",
)  # fmt: skip


def project(folder: Path) -> dict[str, str]:
    folder.joinpath("settings.yaml").write_text(
        json.dumps({"root": "warehouse", "pipelines": "pipelines", "max_line_bytes": MOST})
    )
    return {"TIDEMARK_SETTINGS": str(folder / "settings.yaml")}


def landed(folder: Path, lines: list[bytes], ending: str = "") -> Path:
    file = folder / "warehouse" / "landing" / f"1.json{ending}"
    file.parent.mkdir(parents=True)
    content = b"".join(line + b"\n" for line in lines)
    file.write_bytes(gzip.compress(content) if ending else content)
    return file


def judged(folder: Path, file: Path) -> JudgedLines:
    """As a batch of the pipeline that was written judges the file."""
    pipeline = load_pipeline(folder / "pipelines" / "orders.yaml")
    facts = stat_files([file.as_uri()], {})[file.as_uri()]
    assert facts is not None
    rules = BatchRules(
        rules_of(pipeline), row_origin(pipeline), 0, epoch_ms(datetime.now(UTC)), MOST,
        keeps_lines=False, by_line=True,
    )  # fmt: skip
    found = judge_slices(rules, file_slices({file.as_uri(): facts}, {}), 2**40)
    assert found is not None
    return found


def told(output: str) -> tuple[int | None, dict[str, int]]:
    """How many rows a run accepts by the command's first line (None: all), and rejects."""
    first, *rest = output.splitlines()
    pattern = r"A run accepts ([\d,]+|all) of them(?: and rejects [\d,]+ \((.*)\))?"
    found = re.search(pattern, first)
    assert found is not None, first
    accepted, reasons = found.groups()
    by_reason = {
        reason: int(number.replace(",", ""))
        for number, reason in re.findall(r"([\d,]+) ([a-z ]+)", reasons or "")
    }
    for reason, number in by_reason.items() if rest else ():
        assert any(line.startswith(f"{reason}: {number:,} line") for line in rest), output
    return (None if accepted == "all" else int(accepted.replace(",", ""))), by_reason


@st.composite
def samples(draw: st.DrawFn) -> list[bytes]:
    """Lines, most of which are rows with a time, in any order."""
    kind = draw(st.sampled_from(sorted(TIMES)))
    usual: Any = START if kind == "epoch" else AT
    number = draw(st.integers(5, 200))
    rows: list[bytes] = []
    for n in range(number):
        at = usual + n if kind == "epoch" else usual
        rows.append(json.dumps({"at": at, "id": f"i{n}", "n": n}).encode())
    for place in draw(st.sets(st.integers(0, number - 1), max_size=number // 10)):
        time = draw(st.sampled_from(TIMES[kind]))
        change = draw(
            st.sampled_from([{"at": time}, {"n": "text"}, {"id": None}, {"id": "i0"}, {"new": 1}])
        )
        rows[place] = json.dumps(json.loads(rows[place]) | change).encode()
    rows += draw(st.lists(st.sampled_from(ODD_LINES), max_size=number // 3))
    return draw(st.permutations(rows))


@pytest.mark.slow
@given(lines=samples(), ending=st.sampled_from(["", ".gz"]))
def test_what_is_said_of_rows_is_what_a_run_s_judge_says(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ending: str
) -> None:
    folder = tmp_path_factory.mktemp("new")
    environment, file = project(folder), landed(folder, lines, ending)
    ended = CliRunner().invoke(
        app, ["new", "orders", "--from", str(file), "--event-time", "at"], env=environment
    )
    assert ended.exit_code == 0, ended.output
    expected = judged(folder, file)
    accepted, rejected = told(ended.stdout)
    assert rejected == dict(expected.by_reason)
    assert accepted == (sum(map(len, expected.accepted)) if rejected else None)
    assert f"proposed from {len(lines):,} lines" in ended.stdout
    heading = (folder / "pipelines" / "orders.yaml").read_text().splitlines()[1]
    assert told(heading) == (accepted, rejected)


def test_counts_of_another_unit_are_accepted_as_a_run_takes_them_and_told(tmp_path: Path) -> None:
    """Seconds in a column of milliseconds are times in January 1970."""
    times = [START + n for n in range(18)] + [START // 1_000] * 2
    rows = [json.dumps({"at": at, "id": n}).encode() for n, at in enumerate(times)]
    environment, file = project(tmp_path), landed(tmp_path, rows)
    ended = CliRunner().invoke(app, ["new", "orders", "--from", str(file)], env=environment)
    assert ended.stdout.startswith("orders: proposed from 20 lines. A run accepts all of them.\n")
    text = (tmp_path / "pipelines" / "orders.yaml").read_text()
    assert "# In 2 rows the number is no time from 2000 to 2100: is it of\n" in text
    (rows_accepted,) = judged(tmp_path, file).accepted
    years = [time.year for time in rows_accepted["at"].to_pylist()]
    assert sorted(set(years)) == [1970, 2026]
