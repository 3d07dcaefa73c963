"""`tidemark try`, and the README's way from a file of one's own to a table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from tests.end_to_end.pages import examples_under
from tests.kit.clone import set_up_clone, typed
from tests.kit.kafka import client_of, make_topic, new_name, produce
from tests.kit.running import REPOSITORY, Place, clicks
from tests.kit.shipped import FILES
from tests.operators.contract.joins import OTHER, partner_pipeline
from tidemark.cli.console import report_console
from tidemark.cli.main import app
from tidemark.cli.trial.first_rows import take_first_rows, trial_environment, write_pipeline
from tidemark.cli.trial.report import print_trial
from tidemark.errors import SampleUnusable
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.settings.settings import load_settings

if TYPE_CHECKING:
    from broker.broker import Broker

README = (REPOSITORY / "README.md").read_text()
SECTION = "Your own data in five minutes"
FIRST = [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": number} for number in range(5)]
# The README's orders by hour and country, by another engine; each id once, wrong types left out.
BY_HOUR = """
    SELECT strftime(date_trunc('hour', time), '%Y-%m-%d %H:%M:%S'), country, count(*)::INT,
        count(*) FILTER (express)::INT, sum(items)::INT, round(sum(amount::DOUBLE), 6)
    FROM (SELECT DISTINCT ordered_at::TIMESTAMP AS time, * FROM read_json('{}',
        format='newline_delimited', ignore_errors=true,
        columns={{order_id: 'VARCHAR', ordered_at: 'VARCHAR', country: 'VARCHAR', items: 'BIGINT',
                  amount: 'VARCHAR', express: 'BOOLEAN'}}))
    WHERE TRY_CAST(amount AS DOUBLE) IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return set_up_clone(tmp_path)


def files_below(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.long
@pytest.mark.process
def test_the_readme_leads_from_a_file_to_a_tried_and_then_a_real_table(clone: Path) -> None:
    propose, try_it, run_it = examples_under(README, SECTION, "sh")
    shown = re.search(r"Among what it prints:\n\n```\n(.*?)```", README, re.DOTALL)
    assert shown
    typed(clone, propose)
    pipeline = load_pipeline(clone / "include" / "pipelines" / "orders.yaml")
    assert pipeline.source.label == "landing/orders/*.json*"

    before = files_below(clone / "warehouse"), files_below(clone / "include")
    tried = typed(clone, try_it)
    assert (files_below(clone / "warehouse"), files_below(clone / "include")) == before
    assert list((clone / "tmp").glob("tidemark-try-*")) == []
    printed = [line.rstrip() for line in tried.stdout.splitlines()]
    for line in shown[1].splitlines():
        assert line in printed, tried.stdout

    typed(clone, run_it)
    orders = clone / "warehouse" / "landing" / "orders" / "orders-1.json"
    with duckdb.connect() as connection:
        expected = connection.sql(BY_HOUR.format(orders)).fetchall()
    gold = DeltaTable(str(clone / "warehouse" / "orders" / "per_hour" / "gold"))
    rows = gold.to_pyarrow_table().sort_by(
        [("window_start", "ascending"), ("country", "ascending")]
    )
    assert [
        (f"{row['window_start']:%Y-%m-%d %H:%M:%S}", row["country"], row["events"],
         row["express_count"], row["items_sum"], round(row["amount_sum"], 6))
        for row in rows.to_pylist()
    ] == expected  # fmt: skip
    # What was tried is what was run.
    for start, country, events, *_ in expected:
        assert any(re.match(rf"{start}  {country} +{events} ", line) for line in printed)


@pytest.mark.long
@pytest.mark.process
def test_a_trial_whose_every_row_is_rejected_fails_and_can_be_kept(clone: Path) -> None:
    place = Place(clone / "warehouse")
    place.land("1.json", ["no JSON", '{"key": 1}', *FIRST])
    place.write_file().rename(clone / "include" / "pipelines" / "clicks.yaml")
    before = files_below(clone / "warehouse")
    tried = typed(clone, "tidemark try clicks --rows 2 --keep || echo code $?")
    assert tried.stdout.splitlines()[-1] == "code 1"
    assert "Each of the 2 rows was rejected" in tried.stderr
    assert "  malformed: not exactly one JSON object\n    no JSON\n" in tried.stdout
    assert "  ingest: 2 read = 0 accepted + 2 rejected\n" in tried.stdout
    (root,) = (clone / "tmp").glob("tidemark-try-*")
    assert f"The temporary root is kept: {root}" in tried.stdout
    assert (root / "clicks" / "rejects").is_dir()
    assert files_below(clone / "warehouse") == before


@pytest.mark.long
@pytest.mark.process
def test_what_is_proposed_from_a_topic_and_from_a_table_can_be_tried_and_run(
    clone: Path, broker: Broker
) -> None:
    topic = make_topic(broker, new_name("proposed"), 2)
    rows = [
        {"order_id": f"o{n}", "shop": f"s{n % 3}", "at": f"2026-07-01T10:{n % 60:02}:00Z"}
        for n in range(1_200)
    ]
    for half in (0, 1):
        produce(broker, topic, [None, *map(json.dumps, rows[half::2])], partition=half)
    write_deltalake(str(clone / "warehouse" / "lake"), pa.Table.from_pylist(rows))
    plain = {"events": {"servers": broker.servers, "security_protocol": "PLAINTEXT"}}
    admin = AdminClient(client_of(broker))
    before = {one.group_id for one in admin.list_consumer_groups().result().valid}
    for name, source in (("a", f"kafka:events/{topic}"), ("b", "delta:warehouse/lake")):
        said = typed(
            clone,
            f"export TIDEMARK_CONNECTIONS='{json.dumps(plain)}'\n"
            f"tidemark new {name} --from {source}\ntidemark try {name}\ntidemark run {name}",
        )
        assert f"{name}: the first 1,000 " in said.stderr
        assert len(DeltaTable(str(clone / "warehouse" / name / "bronze")).to_pyarrow_table()) == (
            1_200
        )
        assert list((clone / "tmp").glob("tidemark-try-*")) == []
        if name == "a":
            assert "  no value: The message has no value (a tombstone)\n" in said.stdout
            assert f"    topic {topic}, partition 1, offset 0\n" in said.stdout
    assert {one.group_id for one in admin.list_consumer_groups().result().valid} == before


def tidemark(place: Place, *arguments: str, **more: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env={**place.variables, **more})


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "has no file with a line."),
        (["1.json"], "has no file with a line."),
        (["1.json.xz"], "Its name ends with .xz, which is not read"),
        (["1.json.bz2"], "1.json.bz2 cannot be read beyond line 0"),
        (["1.json.gz"], "1.json.gz cannot be read beyond line 0"),
    ],
)
def test_a_source_without_rows_is_told_before_anything_runs(
    tmp_path: Path, files: list[str], said: str
) -> None:
    place = Place(tmp_path)
    (tmp_path / "landing").mkdir()
    for name in files:
        (tmp_path / "landing" / name).write_bytes(
            b"BZh91AY" if "2" in name else b"x" * 9 * (name != "1.json")
        )
    ended = tidemark(place, "try", "clicks")
    assert ended.exit_code == 1
    assert "SampleUnusable: clicks has no row to try: " in ended.stderr
    assert said in ended.stderr
    assert ended.stderr.endswith("Nothing was run.\n")


def test_the_command_by_itself_looks_at_files(tmp_path: Path) -> None:
    """Where nothing else has loaded what reading them takes."""
    place = Place(tmp_path)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json.gz").write_bytes(b"\x1f\x8b cut off")
    place.write_file()
    command = [sys.executable, "-m", "tidemark", "try", "clicks"]
    variables = os.environ | place.variables
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "SampleUnusable: clicks has no row to try: " in ended.stderr


def test_a_source_s_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    ended = tidemark(Place(tmp_path), "try", "clicks")
    assert ended.exit_code == 1
    assert f"The folder {tmp_path}/landing does not exist" in ended.stderr


@pytest.mark.slow
def test_the_temporary_root_has_the_marker_that_a_root_has(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", FIRST)
    (tmp_path / ".mounted").touch()
    more = {"TIDEMARK_ROOT_MARKER": ".mounted", "JAVA_HOME": "/no/java"}
    assert "EngineMissing: " in tidemark(place, "try", "clicks", **more).stderr


def test_the_first_rows_are_those_of_the_first_files_by_name(tmp_path: Path) -> None:
    place = Place(tmp_path / "root")
    place.land("2.json", ["2a", "2b", "2c"])
    place.land("1.json", ["1a", "1b"])
    place.land("3.json", ["3a"])
    taken = take_first_rows(place.pipeline, place.settings, 4, tmp_path / "copy")
    assert (taken.rows, taken.parts, taken.notes) == (4, 2, ())
    copies = sorted((tmp_path / "copy").rglob("*.json"))
    assert [path.read_text() for path in copies] == ["1a\n1b\n", "2a\n2b\n"]


def test_the_pipeline_that_is_tried_differs_by_its_source_s_files_alone(tmp_path: Path) -> None:
    for number, file in enumerate(FILES):
        own = load_pipeline(file)
        copied = {"files": f"{own.name}_source/**/*"}
        copy = load_pipeline(
            write_pipeline(own, copied, tmp_path / str(number), Place(tmp_path).settings)
        )
        assert copy.source.label == copied["files"]
        source = copy.source.model_copy(update={"files": own.source.label})
        assert copy.model_copy(update={"source": source}) == own


def test_the_rejects_that_are_shown_are_of_every_reason_with_where_they_lie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    rejects = [
        {"reason": "malformed", "detail": "blank line", "raw": f"{n:02}", "_topic": "events",
         "_partition": 1, "_offset": n} for n in range(20)
    ]  # fmt: skip
    rejects[19]["reason"] = "no value"
    rejects[19]["raw"] = None
    write_deltalake(place.places.rejects, pa.Table.from_pylist(rejects))
    source = {name: one for name, one in clicks()["source"].items() if name != "files"}
    kafka = {"kafka": {"topic": "events", "connection": "broker"}, **source}
    print_trial(Place(tmp_path, clicks(source=kafka)).pipeline, place.places, report_console())
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("rejects: 20 rows, 10 of them")
    shown = ["  malformed: blank line", "    topic events, partition 1, offset 0", "    00"]
    assert lines[begin + 1 : begin + 4] == shown
    assert lines[begin + 3 * 9 + 1 :] == [
        "  no value: blank line", "    topic events, partition 1, offset 19",
    ]  # fmt: skip


def test_a_pipeline_that_joins_is_not_tried_by_its_own_rows_alone(tmp_path: Path) -> None:
    pipeline = Place(tmp_path).pipeline.model_copy(
        update={"partners": {OTHER: partner_pipeline().as_partner()}}
    )
    settings = Place(tmp_path).settings
    with pytest.raises(SampleUnusable, match=f"joins with {OTHER}"):
        take_first_rows(pipeline, settings, 4, tmp_path / "copy")


def test_a_trial_reads_lookups_where_they_are(tmp_path: Path) -> None:
    rates = {"file": "dims/rates.csv", "on": "key", "columns": {"rate": "long"}}
    names = {"table": "s3://dims/names", "on": "key", "columns": {"name": "string"}}
    measures = {"paid": "sum(amount * rates.rate)", "name": "max(names.name)"}
    table = {"window": {"length": "10 minutes"}, "measures": measures}
    place = Place(tmp_path, clicks(tables={"t": table}, lookup={"rates": rates, "names": names}))
    file = write_pipeline(place.pipeline, {"files": "a_source/*"}, tmp_path / "a", place.settings)
    found = load_pipeline(file).lookup
    assert found["rates"].file == f"file://{tmp_path}/dims/rates.csv"
    assert found["names"].table == "s3://dims/names"


def test_a_pipeline_that_is_named_like_its_copied_source_can_be_tried(tmp_path: Path) -> None:
    for name in ("source", "landing", "a_source"):
        pipeline = Place(tmp_path, clicks(), name)
        content = clicks(source=clicks()["source"] | {"files": "elsewhere/*.json"})
        pipeline.content = content
        source = {"files": f"{name}_source/*"}
        assert write_pipeline(pipeline.pipeline, source, tmp_path / name, pipeline.settings)
        assert load_pipeline(tmp_path / name / f"{name}.yaml").name == name


@pytest.mark.parametrize("variable", ["TIDEMARK_ROOT__FILE", "tidemark_root__file"])
def test_a_root_that_stands_in_a_file_is_not_the_trial_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    place = Place(tmp_path / "real")
    (tmp_path / "root.txt").write_text(str(place.root))
    for name in [name for name in os.environ if name.upper().startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)
    (tmp_path / "sources.txt").write_text('["/elsewhere"]')
    variables = {variable: str(tmp_path / "root.txt"),
                 "TIDEMARK_SOURCES__FILE": str(tmp_path / "sources.txt"),
                 "TIDEMARK_PIPELINES__FILE": str(tmp_path / "root.txt"),
                 "TIDEMARK_LEASE_SECONDS": "77"}  # fmt: skip
    root, file = tmp_path / "trial", tmp_path / "trial" / "pipelines" / "clicks.yaml"
    env = trial_environment(variables, place.settings, root, file)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    found = load_settings(None)
    assert (found.root, found.pipelines) == (str(root), str(file.parent))
    assert str(place.root) in found.sources
    assert "/elsewhere" not in found.sources
    assert found.lease_seconds == 77
