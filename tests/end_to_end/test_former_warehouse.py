"""A warehouse that a former version made goes on: what it published, held, and left half done.

The archive has two pipelines below one root. `clicks`, with a table of each output mode: two runs
are published, the third is held. `killed`, with one table: two runs are published, the third died
between its batch's accepted and rejected rows.

`data/former.tar.gz` is what commit 4850152 left, the last one before the package's rooms were
moved: each run was a job of its own, and the last one of `killed` ended itself by SIGKILL.
`make_former_warehouse.py` makes the archive, in a checkout of that commit.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidemark
from tests.kit.late_model import EPOCH, MILLISECOND
from tests.kit.running import SamplePlace, query, succeed
from tests.streaming.audits import audit
from tidemark.errors import CheckpointUnreadable
from tidemark.ledger.ledger import check_ledger
from tidemark.pipeline.model import WindowTable
from tidemark.pipeline.places import OPS_TABLES
from tidemark.recompute.rewind.past_runs import PastRuns, past_runs
from tidemark.runs.contract.check import admit
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.storage.result_file import read_result
from tidemark.version import told_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).parent / "data" / "former.tar.gz"
# Checkpoints and tables hold absolute paths of landed files.
ROOT = Path("/tmp/tidemark-former-warehouse")
NOON, AFTERNOON = (datetime(2026, 7, 1, hour, tzinfo=UTC) for hour in (12, 15))
SLIDE = timedelta(minutes=5)

Row = tuple[Any, ...]


@pytest.fixture
def root() -> Iterator[Path]:
    shutil.rmtree(ROOT, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        # Python before 3.11.4, which Debian 12 has, knows no filters; the archive is our own.
        archive.extractall(ROOT, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    yield ROOT
    shutil.rmtree(ROOT)


@pytest.fixture
def clicks(root: Path) -> SamplePlace:
    return SamplePlace(root, root / "pipelines" / "clicks.yaml")


@pytest.fixture
def killed(root: Path) -> SamplePlace:
    return SamplePlace(root, root / "pipelines" / "killed.yaml")


def row(hour: int, minute: int, key: str | None, amount: int | str, of: str) -> dict[str, Any]:
    at, name = datetime(2026, 7, 1, hour, minute, tzinfo=UTC), f"{of}-{hour:02}{minute:02}-{key}"
    return {"at": at.isoformat(), "key": key, "amount": amount, "id": name}


def land_more(place: SamplePlace) -> None:
    """Rows on time and late ones (the second for its first window only), a row that repeats one
    of the run before and one that repeats a row of the first run, and what is no row."""
    rows = [
        *(row(11, m, key, m, "4") for m in range(30, 59, 4) for key in ("a", "B", None)),
        row(10, 3, "new", 500, "late"),
        row(11, 14, "new", 600, "late"),
        row(11, 28, "a", 1, "3"),
        row(10, 0, "B", 1, "1"),
        "neither JSON",
        row(11, 59, "a", "many", "wrong"),
    ]
    place.land("4.json", rows, f"landing/{place.name}")


def close_of(place: SamplePlace, name: str) -> datetime:
    frontier = DeltaTable(place.places.gold(name)).transaction_version("close") or 0
    return EPOCH + frontier * MILLISECOND


def gold_windows(place: SamplePlace, name: str, table: WindowTable) -> list[Row]:
    columns = ", ".join(("window_start", "window_end", *table.group_by))
    sql = f"SELECT {columns}, events, amount, rows FROM gold ORDER BY ALL"
    return query(sql, gold=place.gold(name))


def windows_of_bronze(place: SamplePlace, table: WindowTable) -> list[Row]:
    """Each accepted row joined with each window of its day that holds it."""
    length, slide = (
        f"INTERVAL {part // timedelta(minutes=1)} MINUTES"
        for part in (table.window.length, table.window.slide)
    )
    keys = ", ".join(table.group_by)
    return query(
        f"""
        WITH starts AS (SELECT unnest(generate_series(
            TIMESTAMPTZ '2026-07-01 09:00Z', TIMESTAMPTZ '2026-07-01 13:00Z', {slide})) AS s)
        SELECT s, s + {length}, {keys}, count(*), sum(amount)::BIGINT, count(*)
        FROM bronze JOIN starts ON s <= "at" AND "at" < s + {length}
        GROUP BY ALL ORDER BY ALL
        """,
        bronze=place.bronze(),
    )


def check_gold(place: SamplePlace) -> None:
    """Gold is what DuckDB makes of bronze; in append mode of its closed windows."""
    for name, table in place.pipeline.tables.items():
        close, expected = close_of(place, name), windows_of_bronze(place, table)
        if table.output_mode == "append":
            expected = [window for window in expected if window[1] <= close]
        assert gold_windows(place, name, table) == expected, name
        for window in place.gold(name).to_pylist():
            assert (window["status"] == "provisional") == (window["window_end"] > close), window
            assert (window["status"] == "corrected") == (window["revision"] > 0), window
        read = tidemark.read(place.name, name, final_only=True, settings=place.settings)
        assert read.num_rows == sum(window[1] <= close for window in expected)


def check_rows(place: SamplePlace) -> None:
    """Each landed line is accepted once or rejected once, and the ledger says how many are."""
    files = (place.root / "landing" / place.name).iterdir()
    lines = Counter(line for file in files for line in file.read_text().splitlines())
    rejected = Counter(place.rejects().column("raw").to_pylist())
    assert rejected <= lines
    accepted = Counter(_facts(json.loads(line)) for line in (lines - rejected).elements())
    assert Counter(map(_facts, place.bronze().to_pylist())) == accepted
    check_ledger(place.warehouse.ledger, place.name)
    ingested = _ledger(place, "ingest")
    assert len({line["batch"] for line in ingested}) == len(ingested)
    counts = [sum(line[name] for line in ingested) for name in ("read", "accepted", "rejected")]
    assert counts == [lines.total(), accepted.total(), rejected.total()]
    reasons = sum((Counter(json.loads(line["reasons"])) for line in ingested), Counter())
    assert reasons == Counter(place.rejects().column("reason").to_pylist())


def _facts(row: Mapping[str, Any]) -> Row:
    at = row["at"] if isinstance(row["at"], datetime) else datetime.fromisoformat(row["at"])
    return at, row["key"], row["amount"], row["id"]


def _ledger(place: SamplePlace, kind: str) -> Sequence[dict[str, Any]]:
    lines = all_rows(place, "ledger").to_pylist()
    return [line for line in lines if (line["pipeline"], line["kind"]) == (place.name, kind)]


def state(place: SamplePlace) -> PipelineState:
    return pipeline_status(place.pipeline, place.settings, datetime.now(UTC)).state


def teams(place: SamplePlace, table: str) -> set[str | None]:
    return set(place.gold(table).column("team").to_pylist())


def queries(place: SamplePlace) -> dict[str, str]:
    """The ids of the queries, which their checkpoints keep for as long as they live."""
    places = place.places
    folders = [places.query_checkpoint(name, 1) for name in place.pipeline.tables]
    files = [Path(folder, "metadata") for folder in (places.ingest_checkpoint, *folders)]
    return {str(file): json.loads(file.read_text())["id"] for file in files}


def versions_told(place: SamplePlace) -> list[str | None]:
    """Of the contracts of all queries, and of the rows of all runs in the order of their starts."""
    contracts = sorted(Path(place.places.checkpoints).rglob("*.contract.json"))
    assert len(contracts) == 1 + len(place.pipeline.tables)
    runs = all_rows(place, "runs").sort_by("started_at").to_pylist()
    own = [run.get("tidemark") for run in runs if run["pipeline"] == place.name]
    return [*(json.loads(file.read_text()).get("tidemark") for file in contracts), *own]


def all_rows(place: SamplePlace, name: str) -> pa.Table:
    """Of a table of `ops`, wherever the pipeline has its rows."""
    return pa.table(place.warehouse.ops_table(name).existing().to_pyarrow_dataset().to_table())


def shared(place: SamplePlace, name: str) -> list[dict[str, Any]]:
    """The pipeline's rows in a table that both pipelines share."""
    uri = f"{place.places.shared_ops}/{name}"
    rows = place.table(uri).to_pylist() if DeltaTable.is_deltatable(uri) else []
    return [row for row in rows if row["pipeline"] == place.name]


def check_moved(place: SamplePlace, runs_before: PastRuns) -> None:
    """The pipeline's own tables have what the shared ones had of it, and no row twice."""
    there = [path.name for path in Path(place.places.ops).iterdir()]
    assert {path.name for path in Path(place.places.shared_ops).iterdir()} <= set(there)
    assert set(there) <= set(OPS_TABLES)
    for name in there:
        own = all_rows(place, name).to_pylist()
        assert {row["pipeline"] for row in own} <= {place.name}
        texts = Counter(repr({key: row[key] for key in sorted(row)}) for row in own)
        assert set(texts.values()) <= {1}
        if name != "runs":
            columns = own[0].keys() if own else set()
            for row in shared(place, name):
                wanted = dict.fromkeys(columns) | row
                assert repr({key: wanted[key] for key in sorted(wanted)}) in texts, (name, row)
    runs = [(row["run"], row["started_at"]) for row in all_rows(place, "runs").to_pylist()]
    assert len(runs) == len(set(runs))
    assert {(row["run"], row["started_at"]) for row in shared(place, "runs")} <= set(runs)
    after = past_runs(place.pipeline, place.warehouse)
    assert after.runs[: len(runs_before.runs)] == runs_before.runs
    assert runs_before.ended.items() <= after.ended.items()


def contents(place: SamplePlace) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in place.root.rglob("*") if file.is_file()}


def check_all(spark: SparkSession, place: SamplePlace) -> None:
    check_gold(place)
    check_rows(place)
    assert audit(spark, place).outcome == "equal"
    assert state(place) is PipelineState.WELL


@pytest.mark.long
def test_the_next_run_publishes_the_held_one_and_goes_on_with_each_output_mode(
    spark: SparkSession, clicks: SamplePlace
) -> None:
    assert state(clicks) is PipelineState.HELD
    assert all("held" not in teams(clicks, name) for name in clicks.pipeline.tables)
    before = queries(clicks)
    runs_before = past_runs(clicks.pipeline, clicks.warehouse)
    assert [run.run for run in runs_before.runs] == ["clicks-1", "clicks-2"]
    land_more(clicks)
    result = succeed(spark, clicks, "next", scheduled=NOON)
    check_moved(clicks, runs_before)
    assert set(result.restart.values()) == {"clean end"}
    assert (result.rows.read, result.rows.accepted) == (30, 26)
    assert result.rows.rejected == {"duplicate": 2, "malformed": 1, "wrong type": 1}
    # Those of the held run, which no publish has taken, and those of this run.
    late = {"updated": 4 + 3, "appended": 2 + 1, "completed": 1 + 1}
    assert {name: table.late.assigned for name, table in result.tables.items()} == late
    assert all({"held", "new"} <= teams(clicks, name) for name in clicks.pipeline.tables)
    check_all(spark, clicks)
    sealed = succeed(spark, clicks, "idle", scheduled=AFTERNOON)
    assert sealed.rows.read == 0
    ends = dict.fromkeys(clicks.pipeline.tables, NOON) | {"updated": NOON + SLIDE}
    assert {name: close_of(clicks, name) for name in clicks.pipeline.tables} == ends
    check_all(spark, clicks)
    assert queries(clicks) == before


def test_the_next_run_finishes_the_batch_of_the_killed_one(
    spark: SparkSession, killed: SamplePlace
) -> None:
    assert state(killed) is PipelineState.KILLED
    assert "held" in killed.bronze().column("key").to_pylist()
    assert "not JSON" not in killed.rejects().column("raw").to_pylist()
    before = queries(killed)
    land_more(killed)
    assert set(versions_told(killed)) == {None}
    runs_before = past_runs(killed.pipeline, killed.warehouse)
    result = succeed(spark, killed, "next", scheduled=NOON)
    assert result.took_over is not None
    # The contracts of both queries, two runs of the former version, and this one.
    assert versions_told(killed) == [told_version()] * 2 + [None] * 2 + [told_version()]
    assert result.restart == {"ingest": "repeats batch 2", "updated": "clean end"}
    assert {"held", "new"} <= teams(killed, "updated")
    check_moved(killed, runs_before)
    other = shared(SamplePlace(killed.root, killed.root / "pipelines" / "clicks.yaml"), "runs")
    assert other, "the rows of the other pipeline are where they were"
    check_all(spark, killed)
    assert queries(killed) == before
    # From now on gold says what it rests on.
    gold = DeltaTable(killed.places.gold("updated"))
    query_id = before[str(Path(killed.places.query_checkpoint("updated", 1), "metadata"))]
    assert gold.transaction_version(f"query/{query_id}") is not None


@pytest.mark.slow
@pytest.mark.parametrize("query", ["ingest", "updated", "appended", "completed"])
def test_what_a_newer_release_ran_is_refused_by_name_before_anything_is_written(
    clicks: SamplePlace, query: str
) -> None:
    file = Path(clicks.places.contract(query, 1))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tidemark": "0.3.0+0123456789ab"}))
    before, uri = contents(clicks), clicks.places.result("clicks-3")
    told = r"Tidemark 0\.3\.0\+0123456789ab wrote it, and this is 0\.2\."
    with pytest.raises(CheckpointUnreadable, match=told):
        admit(clicks.pipeline, clicks.settings)
    assert contents(clicks) == before
    held = read_result(RunResult, uri, {})
    published = publish_and_record(clicks.pipeline, held, uri, clicks.settings)
    assert published.error is not None
    assert published.error.type == CheckpointUnreadable.__name__
    assert not published.error.retry_can_help
    tables = Path(clicks.places.bronze).parent
    written = {name for name, of in contents(clicks).items() if before.get(name) != of}
    logs = [Path(name) for name in written if "_delta_log" in name]
    ops = Path(clicks.places.ops)
    assert not [log for log in logs if tables in log.parents and ops not in log.parents]


@pytest.mark.long
def test_a_held_run_is_published_by_its_result_file(
    spark: SparkSession, clicks: SamplePlace
) -> None:
    uri = clicks.places.result("clicks-3")
    held = read_result(RunResult, uri, {})
    assert held.held
    published = publish_and_record(clicks.pipeline, held, uri, clicks.settings)
    assert published.error is None
    assert not read_result(RunResult, uri, {}).held
    assert all("held" in teams(clicks, name) for name in clicks.pipeline.tables)
    check_all(spark, clicks)
