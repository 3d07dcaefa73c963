from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from samples.impressions import Spec, generate, plan, rows
from samples.impressions.write import file_name

SCRIPT = Path(__file__).parents[2] / "include" / "samples" / "generate_impressions.py"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC = Spec(
    seed=7,
    rows=2_000,
    files=8,
    start=NOON,
    span=timedelta(hours=2),
    now=NOON + timedelta(hours=3),
    late=0.05,
    malformed=0.06,
    duplicates=0.04,
    future=0.01,
)
REQUIRED = ("timestamp", "spotId", "impressionId")

Json = dict[str, Any]


def lines_of(path: Path) -> list[str]:
    stored = path.read_bytes()
    text = (gzip.decompress(stored) if path.suffix == ".gz" else stored).decode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


def when(row: Json) -> datetime:
    return datetime.fromisoformat(row["timestamp"])


def malformed_kind(line: str) -> str | None:
    """What is wrong with a line by itself, found without the generator's code."""
    try:
        row = json.loads(line)
    except ValueError:
        return "broken_json"
    if not all(name in row for name in REQUIRED):
        return "missing_field"
    try:
        when(row)
    except ValueError:
        return "wrong_type"
    typed = isinstance(row["spotId"], int) and isinstance(row["impressionId"], str)
    return None if typed else "wrong_type"


class Recount:
    """Counts what the files hold, in name order, by the rules that the manifest states."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.seen: dict[str, str] = {}
        self.newest: datetime | None = None

    def kind(self, line: str) -> str:
        wrong = malformed_kind(line)
        if wrong:
            return wrong
        row = json.loads(line)
        if row["impressionId"] in self.seen:
            assert self.seen[row["impressionId"]] == line
            assert not self.is_late(row)
            return "duplicates"
        self.seen[row["impressionId"]] = line
        if when(row) >= self.spec.now + timedelta(days=1):
            return "future"
        assert when(row) <= self.spec.now
        return "late" if self.is_late(row) else "on_time"

    def is_late(self, row: Json) -> bool:
        return self.newest is not None and self.newest - when(row) > self.spec.delay

    def file(self, path: Path) -> Json:
        lines = lines_of(path)
        kinds = [self.kind(line) for line in lines]
        count = Counter(kinds)
        pairs = zip(kinds, lines, strict=True)
        good = [when(json.loads(line)) for kind, line in pairs if kind in ("on_time", "late")]
        self.newest = max([*good, self.newest] if self.newest else good, default=None)
        return {
            "name": path.name,
            "rows": len(lines),
            "good": len(good),
            **{kind: count[kind] for kind in ("on_time", "late", "duplicates", "future")},
            "malformed": {k: count[k] for k in ("broken_json", "missing_field", "wrong_type")},
            "event_time": {"min": min(good, default=None), "max": max(good, default=None)},
        }


def with_times(file: Json) -> Json:
    times = {k: v and datetime.fromisoformat(v) for k, v in file["event_time"].items()}
    return {**file, "event_time": times}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "landing" / "ad_impressions", tmp_path / "manifest.json"


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    files = draw(st.integers(1, 9))
    share = st.integers(0, 30).map(lambda percent: percent / 100)
    return Spec(
        seed=draw(st.integers(0, 2**31)),
        files=files,
        rows=draw(st.integers(files, 400)),
        start=NOON,
        span=timedelta(seconds=draw(st.integers(0, 100_000))),
        now=NOON + timedelta(days=2),
        delay=timedelta(seconds=draw(st.integers(0, 4_000))),
        spots=draw(st.integers(1, 1_000)),
        late=draw(share) if files > 1 else 0.0,
        malformed=draw(share),
        duplicates=draw(share),
        future=draw(share),
        gzip=draw(st.booleans()),
    )


@pytest.mark.slow
@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(specs())
def test_the_manifest_equals_a_recount_of_the_files(spec: Spec) -> None:
    try:
        plan(spec)
    except ValueError:
        assume(False)
    with TemporaryDirectory() as root:
        out = Path(root) / "landing"
        written = generate(spec, out, Path(root) / "manifest.json")
        recount = Recount(spec)
        counted = [recount.file(path) for path in sorted(out.iterdir())]
        assert json.loads((Path(root) / "manifest.json").read_text()) == written
    assert [with_times(file) for file in written["files"]] == counted
    total = written["total"]
    for name in ("rows", "good", "on_time", "late", "duplicates", "future"):
        assert total[name] == sum(file[name] for file in counted)
    for kind, count in total["malformed"].items():
        assert count == sum(file["malformed"][kind] for file in counted)
    oldest = min(file["event_time"]["min"] for file in counted if file["good"])
    assert datetime.fromisoformat(total["event_time"]["min"]) == oldest


def test_shares_become_exact_numbers(places: tuple[Path, Path]) -> None:
    total = generate(SPEC, *places)["total"]
    assert (total["rows"], total["good"]) == (2_000, 2_000 - 120 - 80 - 20)
    assert (total["late"], total["duplicates"], total["future"]) == (100, 80, 20)
    assert total["malformed"] == {"broken_json": 40, "missing_field": 40, "wrong_type": 40}


def test_a_half_row_is_rounded_up() -> None:
    planned = plan(replace(SPEC, rows=10, files=2, late=0, malformed=0.15, duplicates=0, future=0))
    assert planned.malformed == 2


def test_the_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        generate(replace(SPEC, gzip=True), tmp_path / name, tmp_path / f"{name}.json")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    times = {stored[4:8] for stored in contents(tmp_path / "one").values()}
    assert times == {bytes(4)}  # the time of writing, in the header of gzip
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_a_seed_gives_the_same_rows_on_every_machine_and_version() -> None:
    lines = "\n".join(line for chunk in rows(plan(SPEC)) for line in chunk.lines)
    assert hashlib.sha256(lines.encode()).hexdigest() == (
        "72e4ba5a16434f7adc2b255dcf96dfccab63d175b5c74e5981b0273a72712a0a"
    )


def test_another_seed_gives_other_names_and_ids(tmp_path: Path) -> None:
    for seed in (1, 2):
        spec = replace(SPEC, seed=seed, malformed=0, duplicates=0)
        generate(spec, tmp_path / "landing", tmp_path / f"{seed}.json")
    found = [
        json.loads(line) for path in (tmp_path / "landing").iterdir() for line in lines_of(path)
    ]
    assert len({row["impressionId"] for row in found}) == len(found) == 2 * SPEC.rows


def test_duplicates_repeat_rows_of_their_own_file_and_of_earlier_ones(
    places: tuple[Path, Path],
) -> None:
    generate(SPEC, *places)
    first: dict[str, int] = {}
    apart: list[int] = []
    for file, path in enumerate(sorted(places[0].iterdir())):
        for line in filter(lambda line: malformed_kind(line) is None, lines_of(path)):
            apart += [file - first[line]] if line in first else []
            first.setdefault(line, file)
    assert len(apart) == 80
    assert sum(files > 0 for files in apart) > 20
    assert sum(files == 0 for files in apart) > 20


def test_every_field_is_missing_somewhere_and_each_wrong_type_occurs(
    places: tuple[Path, Path],
) -> None:
    generate(SPEC, *places)
    lines = [line for path in places[0].iterdir() for line in lines_of(path)]
    by_kind = {
        kind: [json.loads(line) for line in lines if malformed_kind(line) == kind]
        for kind in ("missing_field", "wrong_type")
    }
    missing = {name for row in by_kind["missing_field"] for name in REQUIRED if name not in row}
    assert missing == set(REQUIRED)
    types = {type(row["spotId"]) for row in by_kind["wrong_type"]}
    assert types == {int, str, list}


def test_on_time_rows_are_out_of_order_within_a_quarter_of_the_delay() -> None:
    clean = replace(SPEC, late=0, malformed=0, duplicates=0, future=0)
    times = [time for chunk in rows(plan(clean)) for time in chunk.times.tolist()]
    behind = [max(times[: at + 1]) - time for at, time in enumerate(times)]
    assert sum(by > 0 for by in behind) > len(times) / 2
    assert max(behind) <= SPEC.delay.total_seconds() * 1000 / 4


@pytest.mark.slow
def test_a_file_of_several_chunks_is_counted_like_any_other(places: tuple[Path, Path]) -> None:
    spec = replace(SPEC, rows=80_000, files=2)
    chunks = Counter(chunk.file for chunk in rows(plan(spec)))
    assert chunks == {0: 2, 1: 2}
    written = generate(spec, *places)
    recount = Recount(spec)
    counted = [recount.file(path) for path in sorted(places[0].iterdir())]
    assert [with_times(file) for file in written["files"]] == counted


def test_bad_rows_are_spread_over_every_file(places: tuple[Path, Path]) -> None:
    files = generate(SPEC, *places)["files"]
    assert all(file["duplicates"] and file["future"] for file in files)
    assert all(min(file["malformed"].values()) > 0 for file in files)
    assert [file["late"] > 0 for file in files] == [False] + 7 * [True]


def test_a_manifest_that_the_pipeline_would_read_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "landing"
    with pytest.raises(ValueError, match="put it outside"):
        generate(SPEC, out, out / "nested" / "manifest.json")
    assert not out.exists()


def test_files_that_are_there_are_not_overwritten(places: tuple[Path, Path]) -> None:
    generate(SPEC, *places)
    before = contents(places[0])
    with pytest.raises(FileExistsError, match=r"8 of 8 files already.*another seed"):
        generate(SPEC, *places)
    assert contents(places[0]) == before


def test_a_file_is_seen_only_when_it_is_whole(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the folder while the rows of each file are made."""
    seen: list[list[str]] = []

    def watched(planned: Any) -> Iterator[Any]:
        for _, chunks in groupby(rows(planned), key=lambda chunk: chunk.file):
            yield from chunks
            seen.append(sorted(path.name for path in places[0].iterdir()))

    monkeypatch.setattr("samples.impressions.write.rows", watched)
    generate(replace(SPEC, files=3), *places)
    names = [file_name(SPEC, file) for file in range(3)]
    assert seen == [[f".impressions-7-{k:06d}.part", *names[:k]] for k in range(3)]
    assert sorted(contents(places[0])) == names


def test_a_failure_leaves_whole_files_only(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(planned: Any) -> Iterator[Any]:
        for chunk in rows(planned):
            yield chunk
            if chunk.file == 1:
                raise OSError("no space left on device")

    monkeypatch.setattr("samples.impressions.write.rows", failing)
    with pytest.raises(OSError, match="no space"):
        generate(SPEC, *places)
    assert list(contents(places[0])) == [file_name(SPEC, 0)]
    assert not places[1].exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 3}, "rows is 3, it must be from 8"),
        ({"files": 0}, "files is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"spots": 0}, "spots is 0"),
        ({"late": 1.5}, r"late is 1\.5, a share is from 0 to 1"),
        ({"future": float("nan")}, "future is nan"),
        ({"span": timedelta(-1)}, "span is -1 day"),
        ({"delay": timedelta(-1)}, "delay is -1 day"),
        ({"start": datetime(2026, 3, 1)}, "need a zone"),
        ({"now": NOON}, "good rows would be future"),
        ({"malformed": 0.95}, "at least one row must be on time"),
        ({"files": 1}, "must fit into the files after the first"),
    ],
)
def test_a_spec_that_cannot_be_made_is_refused(changes: Json, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(replace(SPEC, **changes))


def test_all_problems_of_a_spec_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"spots is 0.*late is 2.*need a zone"):
        plan(replace(SPEC, spots=0, late=2, now=datetime(2026, 3, 1)))


@pytest.mark.slow
def test_the_script_runs_from_any_folder(tmp_path: Path) -> None:
    words = "landing --manifest made.json --rows 100 --files 2 --late 0.1 --gzip --seed 3"
    clock = ["--now", "2026-03-01T13:00:00Z"]
    command = [sys.executable, "-E", str(SCRIPT), *words.split(), *clock]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    made = json.loads((tmp_path / "made.json").read_text())
    assert json.loads(ran.stdout) == made["total"]
    assert made["total"]["late"] == 10
    assert made["spec"]["start"] == "2026-03-01T12:00:00Z"
    assert sum(len(lines_of(path)) for path in (tmp_path / "landing").iterdir()) == 100
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "take another seed" in again.stderr
