"""Whether a run may begin, and by which content: from checkpoints and tables, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from typer.testing import CliRunner

from tests.kit.running import Place, clicks
from tests.operators.contract.joins import join_table, partner_pipeline
from tidemark.cli.main import app
from tidemark.errors import LeaseLost, PipelineChanged
from tidemark.pipeline.model import Pipeline
from tidemark.runs.contract.accept import accept_file
from tidemark.runs.contract.check import Admitted, admit, compare_contracts, record_contracts
from tidemark.runs.contract.contract import Contract, read_contract
from tidemark.runs.contract.recorded import as_it_ran

MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
SWAPPED = dict(reversed(MEASURES.items()))
START = datetime(2026, 7, 1, tzinfo=UTC)


def content(measures: Mapping[str, str] = MEASURES, **changes: Any) -> dict[str, Any]:
    window = {"length": "10 minutes"}
    table = {"window": window, "group_by": ["key"], "measures": dict(measures)}
    return clicks(tables={"per_10m": table}, **changes)


def longer(delay: str) -> dict[str, Any]:
    return content(watermark={"delay": delay})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A pipeline whose gold is there, as its first run made it."""
    place = Place(tmp_path, content())
    make_gold(place)
    return place


def make_gold(place: Place, generation: int = 1) -> None:
    utc = pa.timestamp("us", "UTC")
    columns = [
        pa.field("window_start", utc),
        pa.field("window_end", utc),
        pa.field("key", pa.string()),
        pa.field("events", pa.int64(), metadata={"comment": "count(*)"}),
        pa.field("amount", pa.int64(), metadata={"comment": "sum(amount)"}),
        pa.field("rows", pa.int64()),
    ]
    uri, schema = place.places.gold("per_10m"), pa.schema(columns)
    named = CommitProperties(app_transactions=[Transaction("generation", generation)])
    DeltaTable.create(uri, Schema.from_arrow(schema), mode="overwrite", commit_properties=named)
    row = [[START], [START + timedelta(minutes=10)], ["a"], [1], [2], [1]]
    write_deltalake(uri, pa.table(row, schema=schema), mode="append")


def plan(place: Place, query: str, batch: int, committed: bool) -> None:
    """A batch of no files."""
    folder = Path(place.places.contract(query, 1).removesuffix(".contract.json"))
    for log in ("offsets", "commits") if committed else ("offsets",):
        (folder / log).mkdir(parents=True, exist_ok=True)
        text = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"logOffset":-1}'
        (folder / log / str(batch)).write_text(text if log == "offsets" else "v1\n{}")


def commit(place: Place, table: str, query: str, batch: int) -> None:
    """A table that holds something of a query's batch, and the checkpoint that says which it is."""
    name_query(place, query)
    named = CommitProperties(app_transactions=[Transaction(query, batch)])
    write_deltalake(table, pa.table({"x": [1]}), mode="append", commit_properties=named)


def name_query(place: Place, query: str) -> None:
    folder = Path(place.places.contract(query, 1).removesuffix(".contract.json"))
    (folder / "metadata").write_text(f'{{"id":"{query}"}}')


def plan_all(place: Place) -> None:
    for query in ("ingest", "per_10m"):
        plan(place, query, 0, committed=True)


def started(place: Place, of: Mapping[str, Any] | None = None) -> Admitted:
    """A run up to where its first batch would be planned."""
    place.content = of or place.content
    admitted = admit(place.pipeline, place.settings)
    record_contracts(admitted, place.warehouse)
    return admitted


def test_a_first_run_records_both_contracts_with_the_types_of_the_table(place: Place) -> None:
    assert [query.name for query in started(place).to_record] == ["ingest", "per_10m"]
    contract = read_contract(place.places.contract("per_10m", 1), {})
    assert contract is not None
    assert [(one.name, one.type) for one in contract.keys] == [("key", "string")]
    assert [(one.name, one.type) for one in contract.measures] == [
        ("events", "long"),
        ("amount", "long"),
    ]


def test_a_run_whose_lease_is_lost_records_no_contract(place: Place) -> None:
    def lost() -> None:
        raise LeaseLost("gone")

    admitted = admit(place.pipeline, place.settings)
    with pytest.raises(LeaseLost):
        record_contracts(admitted, place.warehouse.fenced(lost))
    assert read_contract(place.places.contract("ingest", 1), {}) is None


def test_the_next_run_records_nothing(place: Place) -> None:
    started(place)
    plan_all(place)
    assert started(place) == Admitted(place.pipeline)


@pytest.mark.parametrize("former", [None, "0.0.9", "0.1.0+0123456789ab"])
def test_a_run_of_another_build_records_that_and_changes_nothing_else(
    place: Place, former: str | None
) -> None:
    started(place)
    plan_all(place)
    ours: dict[str, Contract | None] = {}
    for query in ("ingest", "per_10m"):
        file = place.places.contract(query, 1)
        ours[file] = read_contract(file, {})
        written = json.loads(Path(file).read_text()) | {"tidemark": former}
        Path(file).write_text(json.dumps(written))
    admitted = started(place)
    assert admitted.messages == ()
    assert {file: read_contract(file, {}) for file in ours} == ours
    assert started(place) == Admitted(place.pipeline)


def test_a_contract_by_which_no_batch_was_planned_gives_way(place: Place) -> None:
    started(place)
    admitted = started(place, content(SWAPPED, advanced={"shuffle_partitions": 3}))
    assert len(admitted.to_record) == 2
    contract = read_contract(place.places.contract("per_10m", 1), {})
    assert contract is not None
    assert list(contract.settings.values()) == ["3"]
    assert [one.name for one in contract.measures] == list(SWAPPED)


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_contract_binds_while_either_log_is_there(place: Place, log: str) -> None:
    started(place)
    plan_all(place)
    other = {"offsets": "commits", "commits": "offsets"}[log]
    (Path(place.places.query_checkpoint("per_10m", 1)) / other / "0").unlink()
    with pytest.raises(PipelineChanged, match="needs a new generation"):
        started(place, content(SWAPPED))


def test_settings_that_a_checkpoint_fixes_are_told_with_every_run(place: Place) -> None:
    started(place)
    plan_all(place)
    for _ in range(2):
        (told,) = started(place, content(advanced={"shuffle_partitions": 3})).messages
        assert "shuffle_partitions: the default → 3: safe, without effect" in told


def test_a_batch_that_was_left_is_finished_by_the_content_that_was_recorded(place: Place) -> None:
    started(place)
    plan_all(place)
    plan(place, "per_10m", 1, committed=False)
    commit(place, place.places.changes("per_10m", 1), "per_10m", 1)
    before = place.pipeline
    admitted = started(place, longer("1 hour"))
    assert admitted.pipeline.model_dump_json() == before.model_dump_json()
    assert admitted.to_record == ()
    assert "per_10m repeats batch 1" in admitted.messages[0]
    plan(place, "per_10m", 1, committed=True)
    assert started(place).pipeline == place.pipeline
    assert not compare_contracts(place.pipeline, place.settings).differences


def test_a_batch_that_was_left_is_finished_in_the_process_that_the_file_asks_for_now(
    place: Place,
) -> None:
    """Pipelines share a process by their files: there its settings are as they are."""
    queries, process = "spark.sql.adaptive.enabled", "spark.executor.memory"
    place.content = content(advanced={"spark": {queries: "true", process: "2g"}})
    started(place)
    plan_all(place)
    plan(place, "per_10m", 1, committed=False)
    commit(place, place.places.changes("per_10m", 1), "per_10m", 1)
    cores = {"spark.executor.cores": "2"}
    now = longer("1 hour") | {"advanced": {"spark": {queries: "false", **cores}}}
    assert started(place, now).pipeline.advanced.spark == {queries: "true", **cores}


def test_a_change_is_taken_with_a_batch_that_was_left_before_a_table_held_it(place: Place) -> None:
    started(place)
    plan_all(place)
    commit(place, place.places.changes("per_10m", 1), "per_10m", 0)
    plan(place, "per_10m", 1, committed=False)
    assert started(place, longer("1 hour")).pipeline == place.pipeline
    assert not compare_contracts(place.pipeline, place.settings).differences


@pytest.mark.parametrize("table", ["bronze", "rejects"])
@pytest.mark.parametrize(("held", "takes"), [(0, True), (1, False)])
def test_a_batch_of_ingest_is_bound_by_what_either_table_holds_of_it(
    place: Place, table: str, held: int, takes: bool
) -> None:
    started(place)
    plan_all(place)
    commit(place, getattr(place.places, table), "ingest", held)
    plan(place, "ingest", 1, committed=False)
    before = place.pipeline
    source = content()["source"] | {"unknown_fields": "reject"}
    admitted = started(place, content(source=source))
    expected = place.pipeline if takes else before
    assert admitted.pipeline.source.unknown_fields == expected.source.unknown_fields


def test_a_query_that_committed_nothing_takes_other_measures_and_loses_its_state(
    place: Place,
) -> None:
    started(place)
    plan(place, "ingest", 0, committed=True)
    plan(place, "per_10m", 0, committed=False)
    name_query(place, "per_10m")
    state = Path(place.places.query_checkpoint("per_10m", 1)) / "state/0/_metadata/schema"
    state.parent.mkdir(parents=True)
    state.touch()
    admitted = started(place, content(SWAPPED))
    assert admitted.pipeline == place.pipeline
    assert "amount, events: safe. No batch of the query was committed" in admitted.messages[0]
    assert not state.exists()
    contract = read_contract(place.places.contract("per_10m", 1), {})
    assert contract is not None
    assert [one.name for one in contract.measures] == list(SWAPPED)


def test_a_query_whose_first_batch_a_table_holds_is_refused_other_measures(place: Place) -> None:
    started(place)
    plan(place, "ingest", 0, committed=True)
    plan(place, "per_10m", 0, committed=False)
    commit(place, place.places.changes("per_10m", 1), "per_10m", 0)
    with pytest.raises(PipelineChanged, match="needs a new generation"):
        started(place, content(SWAPPED))


def joining(place: Place, other: str | None) -> Pipeline:
    """The pipeline, whose table joins with another one."""
    if other is None:
        return place.pipeline
    table = join_table("left")
    joined = {"join": table.join.model_copy(update={"other": other}), "measures": MEASURES}
    changed = {
        "tables": {"per_10m": table.model_copy(update=joined)},
        "partners": {other: partner_pipeline().as_partner()},
    }
    return place.pipeline.model_copy(update=changed)


@pytest.mark.parametrize(
    ("planned", "asked", "what"),
    [("orders", "views", "join.with"), (None, "orders", "window"), ("orders", None, "window")],
)
def test_a_first_batch_that_was_left_is_not_repeated_over_other_bronzes(
    place: Place, planned: str | None, asked: str | None, what: str
) -> None:
    """Its offsets name those that it was planned over, and the engine reads no others by them."""
    record_contracts(admit(joining(place, planned), place.settings), place.warehouse)
    plan(place, "ingest", 0, committed=True)
    plan(place, "per_10m", 0, committed=False)
    name_query(place, "per_10m")
    found = compare_contracts(joining(place, asked), place.settings)
    assert what in [one.what for one in found.refused]
    assert not compare_contracts(joining(place, planned), place.settings).differences


def test_a_batch_that_the_change_does_not_concern_needs_no_run_of_its_own(place: Place) -> None:
    started(place)
    plan_all(place)
    plan(place, "per_10m", 1, committed=False)
    source = content()["source"]
    admitted = started(place, content(source=source | {"unknown_fields": "reject"}))
    assert admitted.pipeline is not None
    assert admitted.pipeline.source.unknown_fields == "reject"


def test_batches_that_two_contents_planned_are_not_finished_by_either(place: Place) -> None:
    """As after a table was taken out of the file with a batch left, and put back with a change."""
    started(place)
    plan_all(place)
    plan(place, "per_10m", 1, committed=False)
    ingest = Path(place.places.contract("ingest", 1))
    ingest.write_text(ingest.read_text().replace(': "keep"', ': "ignore"'))
    with pytest.raises(PipelineChanged, match="planned by another content") as refused:
        started(place, longer("1 hour"))
    assert "per_10m repeats batch 1" in str(refused.value)
    assert place.places.contract("per_10m", 1) in str(refused.value)


def accepted(place: Place, reason: str = "disk is full") -> list[str]:
    told = accept_file(place.pipeline, place.settings, place.warehouse, reason, "Ada", START)
    return [one.what for one in told]


def test_a_run_waits_for_a_keep_that_drops_rows_until_somebody_accepts_it(place: Place) -> None:
    started(place)
    plan_all(place)
    with pytest.raises(PipelineChanged, match="keep: none → 30 days: needs to be acc") as refused:
        started(place, content(keep="30 days"))
    assert '`tidemark accept clicks --reason "…"`' in str(refused.value)
    assert "Nothing was written" in str(refused.value)
    assert accepted(place) == ["keep"]
    assert accepted(place) == []
    (told,) = started(place).messages
    assert "ingest: keep: none → 30 days: accepted: disk is full (Ada)" in told
    contract = read_contract(place.places.contract("ingest", 1), {})
    assert contract is not None
    assert contract.accepted == ()
    (taken,) = contract.taken
    assert (taken.what, taken.reason, taken.by, taken.at) == ("keep", "disk is full", "Ada", START)


def test_an_acceptance_holds_for_one_change_once(place: Place) -> None:
    def large(expression: str) -> dict[str, Any]:
        return content(source=content()["source"] | {"derive": {"large": expression}})

    started(place, large("amount > 1"))
    plan_all(place)
    for expression in ("amount > 2", "amount > 1", "amount > 2"):
        with pytest.raises(PipelineChanged, match="needs to be accepted"):
            started(place, large(expression))
        assert accepted(place) == ["source.derive.large"]
        started(place)
        assert started(place) == Admitted(place.pipeline)


ADDED = pytest.mark.parametrize(
    ("what", "added"),
    [
        ("source.columns.page", {"columns": {**clicks()["source"]["columns"], "page": "string"}}),
        ("source.derive.page", {"derive": {"page": "upper(key)"}}),
    ],
    ids=["column", "derive"],
)


def bronze_has(place: Place, *pages: str | None) -> None:
    rows = pa.table({"key": ["a"] * len(pages), "page": pa.array(pages, pa.string())})
    write_deltalake(place.places.bronze, rows, mode="append")


@ADDED
def test_a_column_that_is_added_again_waits_until_somebody_accepts_that_it_mixes(
    place: Place, what: str, added: Mapping[str, Any]
) -> None:
    again = content(source=content()["source"] | added)
    started(place, again)
    plan_all(place)
    bronze_has(place, "/former")
    (told,) = started(place, content()).messages
    assert f"{what}: " in told
    assert ": safe. " in told
    bronze_has(place, None)
    with pytest.raises(PipelineChanged, match="Bronze has values of a former column") as refused:
        started(place, again)
    assert "have null there" not in str(refused.value)
    assert accepted(place, "pages again") == [what]
    (told,) = started(place).messages
    assert "accepted: pages again (Ada)" in told
    assert started(place) == Admitted(place.pipeline)


@pytest.mark.parametrize("former", [False, True], ids=["now", "accepted by a former version"])
def test_a_column_that_is_added_again_is_accepted_with_the_field_that_it_is_read_from(
    place: Place, former: bool
) -> None:
    def read_from(field: str) -> dict[str, Any]:
        columns = {**clicks()["source"]["columns"], "page": {"type": "string", "field": field}}
        return content(source=content()["source"] | {"columns": columns})

    started(place, read_from("memo"))
    plan_all(place)
    bronze_has(place, "/former")
    started(place, content())
    bronze_has(place, None)
    with pytest.raises(PipelineChanged, match="page: none → string of memo: needs to be accepted"):
        started(place, read_from("memo"))
    assert accepted(place) == ["source.columns.page"]
    if former:
        contract = Path(place.places.contract("ingest", 1))
        contract.write_text(contract.read_text().replace("string of memo", "string"))
    with pytest.raises(PipelineChanged, match="page: none → string of remark: needs to be acc"):
        started(place, read_from("remark"))
    if former:
        # It does not say of which field it was.
        with pytest.raises(PipelineChanged, match="page: none → string of memo: needs to be acc"):
            started(place, read_from("memo"))
        return
    started(place, read_from("memo"))
    assert started(place) == Admitted(place.pipeline)


@ADDED
def test_a_new_column_that_a_killed_run_has_made_already_is_safe(
    place: Place, what: str, added: Mapping[str, Any]
) -> None:
    started(place)
    plan_all(place)
    bronze_has(place, None)
    (told,) = started(place, content(source=content()["source"] | added)).messages
    assert f"{what}: none → " in told
    assert "safe. Rows of before have null there" in told


@pytest.mark.parametrize("was_removed", [False, True])
@pytest.mark.parametrize("where", ["columns", "derive"])
def test_a_column_that_differs_by_its_case_alone_from_one_of_bronze_is_refused(
    place: Place, where: str, was_removed: bool
) -> None:
    def named(name: str | None) -> dict[str, Any]:
        known = {"columns": clicks()["source"]["columns"], "derive": {}}
        known[where] |= {} if name is None else {name: "string" if where == "columns" else "key"}
        return content(source=content()["source"] | known)

    started(place, named("page"))
    plan_all(place)
    bronze_has(place, None)
    if was_removed:
        started(place, named(None))
    with pytest.raises(
        PipelineChanged, match=f"source.{where}.Page: none → .*: not allowed"
    ) as told:
        started(place, named("Page"))
    assert "`page`" in str(told.value)
    started(place, named("page"))


def test_what_a_run_would_refuse_anyway_is_not_let_through_by_an_acceptance(place: Place) -> None:
    started(place)
    plan_all(place)
    place.content = content(SWAPPED, keep="30 days")
    assert accepted(place) == ["keep"]
    with pytest.raises(PipelineChanged, match="needs a new generation") as refused:
        started(place)
    assert "tidemark accept" not in str(refused.value)


def test_a_held_run_is_published_with_the_keep_that_it_had(place: Place) -> None:
    started(place)
    place.content = content(keep="1 day")
    assert as_it_ran(place.pipeline, place.warehouse).keep is None
    Path(place.places.contract("ingest", 1)).unlink()
    assert as_it_ran(place.pipeline, place.warehouse).keep == timedelta(days=1)


def test_a_held_run_has_its_own_tables_and_the_checks_and_views_of_the_file(place: Place) -> None:
    started(place)
    ran = place.pipeline
    source = content()["source"] | {"checks": [{"warn": {"freshness": {"at_most": "1 hour"}}}]}
    place.content = content({"events": "count(*)"}, source=source)
    table = place.content["tables"]["per_10m"]
    table |= {"group_by": [], "checks": [{"fail": "events > 0"}]}
    table["views"] = {"busy": {"having": "events > 20"}}
    found, now = as_it_ran(place.pipeline, place.warehouse), place.pipeline
    assert found.without_checks() == ran
    assert found.source.checks == now.source.checks != ()
    assert found.tables["per_10m"].checks == now.tables["per_10m"].checks != ()
    assert found.tables["per_10m"].views == now.tables["per_10m"].views != {}
    for query in ("ingest", "per_10m"):
        Path(place.places.contract(query, 1)).unlink()
    assert as_it_ran(now, place.warehouse) == now


def test_a_held_run_of_a_generation_that_was_rolled_back_to_has_the_tables_of_that(
    place: Place,
) -> None:
    started(place)
    ran = place.pipeline
    make_gold(place, generation=2)
    started(place, content(SWAPPED))
    assert as_it_ran(ran, place.warehouse).tables == place.pipeline.tables
    make_gold(place, generation=1)
    assert as_it_ran(place.pipeline, place.warehouse) == ran


def test_without_a_contract_gold_tells_keys_measures_and_length(place: Place) -> None:
    plan_all(place)
    window = {"length": "20 minutes", "slide": "10 minutes"}
    table = {"window": window, "group_by": [], "measures": SWAPPED | {"amount": "max(amount)"}}
    asked = Place(place.root, clicks(tables={"per_10m": table}))
    found = compare_contracts(asked.pipeline, asked.settings).differences
    assert [one.what for one in found] == [
        "window.length",
        "group_by",
        "measures",
        "measures.amount",
    ]
    assert len(started(place).to_record) == 2
    assert started(place) == Admitted(place.pipeline)


def test_a_new_generation_has_a_contract_of_its_own(place: Place) -> None:
    started(place)
    plan_all(place)
    make_gold(place, generation=2)
    _, query = started(place, content(SWAPPED)).to_record
    assert query.place == place.places.contract("per_10m", 2)


def test_validate_says_good_or_what_the_tables_cannot_follow_and_never_both(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_all(place)
    started(place)
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)

    def told(measures: Mapping[str, str]) -> str:
        place.content = content(measures)
        ended = CliRunner().invoke(app, ["validate", str(place.write_file())])
        assert ended.exit_code == ("cannot follow" in ended.output)
        return str(ended.output)

    assert told(MEASURES) == "clicks: good (tables: per_10m)\n"
    renamed = told({"clicks": "count(*)", "amount": "sum(amount)"})
    assert renamed.startswith("The pipeline clicks changed in a way that its tables cannot follow:")
    assert "good" not in renamed
    assert "say `renamed_from: {clicks: events}` in the table" in renamed
