"""Contracts: recorded and read back, and the verdict of each kind of change."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.running import clicks
from tidemark.checkpoint.reading.log_formats import parse_offsets
from tidemark.errors import CheckpointUnreadable
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.state import PROVIDER
from tidemark.runs.contract.check import contract_differences
from tidemark.runs.contract.contract import (
    FIXED_BY_CHECKPOINT,
    AcceptedChange,
    Contract,
    contract_of,
    read_contract,
    write_contract,
)
from tidemark.runs.kept_columns import fingerprint
from tidemark.version import told_version

DATA = Path(__file__).parents[1] / "checkpoint" / "data"
SETTINGS = Settings(root="/lake", pipelines="/pipelines")
Change = Callable[[dict[str, Any]], object]


def content() -> dict[str, Any]:
    """Two keys of one type, two measures of one type, and something of each section."""
    columns = {"at": "timestamp", "seen": "timestamp", "key": "string", "tag": "string"}
    source = {
        "files": "landing/clicks/*.json",
        "columns": columns | {"amount": "long", "size": "long"},
        "event_time": {"column": "at"},
        "unique": {"by": "key", "within": "1 day"},
        "derive": {"large": "size > 10"},
    }
    table = {
        "window": {"length": "10 minutes"},
        "group_by": ["key", "tag"],
        "measures": {"amount": "sum(amount)", "size": "sum(size)"},
    }
    return clicks(source=source, keep="30 days", tables={"per_10m": table})


def contracts(of: dict[str, Any], settings: Settings = SETTINGS) -> tuple[Contract, Contract]:
    pipeline = pipeline_from_mapping("clicks", of)
    return contract_of(pipeline, "ingest", settings), contract_of(pipeline, "per_10m", settings)


def found(change: Change, settings: Settings = SETTINGS) -> list[Difference]:
    changed = copy.deepcopy(content())
    change(changed)
    pairs = zip(contracts(content()), contracts(changed, settings), strict=True)
    return [one for old, new in pairs for one in contract_differences(old, new)]


def source(**changes: Any) -> Change:
    return lambda of: of["source"].update(changes)


def columns(**changes: Any) -> Change:
    return lambda of: of["source"]["columns"].update(changes)


def event_time(**changes: Any) -> Change:
    return lambda of: of["source"]["event_time"].update(changes)


def table(**changes: Any) -> Change:
    return lambda of: of["tables"]["per_10m"].update(changes)


def top(**changes: Any) -> Change:
    return lambda of: of.update(changes)


def without(*path: str) -> Change:
    def remove(of: dict[str, Any]) -> None:
        for name in path[:-1]:
            of = of[name]
        del of[path[-1]]

    return remove


def advanced(**changes: Any) -> Change:
    return lambda of: of.update(advanced=changes)


SAME = {
    "descriptions": table(description="Clicks"),
    "schedule and owner": top(schedule="@hourly", owner="me", description="Clicks"),
    "spelling of a measure": table(measures={"amount": "SUM( amount )", "size": "sum(size)"}),
    "another name of a type": columns(amount="bigint"),
    "order of the columns": lambda of: of["source"]["columns"].update(
        at=of["source"]["columns"].pop("at")
    ),
    "a new table": lambda of: of["tables"].update(other=of["tables"]["per_10m"]),
    "the default store, by its name": advanced(state={"store": "memory"}),
    "limits of the state": advanced(state={"limits": {"max_changes": 5}}),
    "memory": advanced(spark={"spark.sql.files.maxPartitionBytes": "1m"}),
}
SAFE = {
    "source.columns.page": columns(page="string"),
    "source.columns.seen": without("source", "columns", "seen"),
    "source.columns.amount": columns(amount="long not null"),
    "source.event_time.format": event_time(format="epoch_millis"),
    "source.event_time.zone": event_time(zone="Europe/Vienna"),
    "source.event_time.max_future": event_time(max_future="1 minute"),
    "source.unique": source(unique={"by": "key", "within": "2 days"}),
    "source.derive.small": source(derive={"large": "size > 10", "small": "size < 2"}),
    "source.unknown_fields": source(unknown_fields="reject"),
    "source.rules": source(rules=[{"name": "large", "count": "size > 10"}]),
    "source.nulls": source(nulls=["NA"]),
    "source.columns.amount.nulls": columns(amount={"type": "long", "nulls": ["NA"]}),
    "source.columns.amount.from_text": columns(amount={"type": "long", "from_text": True}),
    "source.files": source(files="landing/clicks/*.json*"),
    "source.derive.large": source(derive={}),
    "advanced.max_files_per_batch": advanced(max_files_per_batch=5),
    "advanced.max_bytes_per_batch": advanced(max_bytes_per_batch=5),
}
TO_ACCEPT = {
    "source.columns.amount.field": columns(amount={"type": "long", "field": "payload.amount"}),
    "source.derive.large": source(derive={"large": "size > 20"}),
    "keep": top(keep="7 days"),
    "keep_rejects": top(keep_rejects="7 days"),
}
NO_EFFECT = {
    "advanced.shuffle_partitions": advanced(shuffle_partitions=8),
    "advanced.state.store": advanced(state={"store": "rocksdb"}),
}
NEW_GENERATION = {
    "window.length": table(window={"length": "20 minutes", "slide": "10 minutes"}),
    "window.slide": table(window={"length": "10 minutes", "slide": "5 minutes"}),
    "group_by": table(group_by=["tag", "key"]),
    "measures": table(measures={"size": "sum(size)", "amount": "sum(amount)"}),
    "measures.amount": table(measures={"amount": "max(amount)", "size": "sum(size)"}),
    "output_mode": table(output_mode="append"),
}
NOT_ALLOWED = {
    "source.files": source(files="landing/other/*.json"),
    "source.event_time.column": event_time(column="seen"),
    "source.columns.amount": columns(amount="int"),
    "keep": top(keep="90 days"),
}


def test_each_change_of_a_column_is_told() -> None:
    changed = columns(amount={"type": "long not null", "field": "n", "nulls": ["NA"]})
    assert {one.what for one in found(changed)} == {
        "source.columns.amount", "source.columns.amount.field", "source.columns.amount.nulls"
    }  # fmt: skip


def test_without_a_header_the_order_of_the_columns_says_which_field_each_is() -> None:
    def of(*columns: str, **written: Any) -> Contract:
        changed = copy.deepcopy(content())
        changed["source"]["columns"] = {
            name: content()["source"]["columns"][name] for name in columns
        }
        changed["source"]["format"] = {"csv": written}
        return contracts(changed)[0]

    names = ["at", "key", "tag", "amount", "size"]
    old = of(*names, header=False)
    # As it is recorded, and read again.
    old = Contract.model_validate_json(old.model_dump_json())
    (one, other) = contract_differences(old, of(*names[:3], "size", "amount", header=False))
    assert (one.what, one.before, one.after, one.verdict) == (
        "source.columns.amount.field",
        "number 4 of a record",
        "number 5 of a record",
        ChangeVerdict.TO_ACCEPT,
    )
    assert other.what == "source.columns.size.field"
    assert contract_differences(old, of(*names, header=False)) == ()
    # A field more at the end moves none; with a header their order says nothing.
    (added,) = contract_differences(old, of(*names, "seen", header=False))
    assert added.after == "timestamp of number 6 of a record"
    assert (added.what, added.verdict) == ("source.columns.seen", ChangeVerdict.SAFE)
    inserted = contract_differences(old, of("at", "seen", *names[1:], header=False))
    assert {one.what for one in inserted if one.refused} == {
        f"source.columns.{name}.field" for name in names[1:]
    }
    assert contract_differences(of(*names), of(*names[::-1])) == ()


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_no_query_knows_is_no_difference(change: Change) -> None:
    assert found(change) == []


@pytest.mark.parametrize(
    ("verdict", "what", "change"),
    [
        (verdict, what, change)
        for verdict, changes in (
            (ChangeVerdict.SAFE, SAFE),
            (ChangeVerdict.TO_ACCEPT, TO_ACCEPT),
            (ChangeVerdict.NO_EFFECT, NO_EFFECT),
            (ChangeVerdict.NEW_GENERATION, NEW_GENERATION),
            (ChangeVerdict.NOT_ALLOWED, NOT_ALLOWED),
        )
        for what, change in changes.items()
    ],
)
def test_each_change_alone_has_its_verdict(
    verdict: ChangeVerdict, what: str, change: Change
) -> None:
    assert [(one.what, one.verdict) for one in found(change)] == [(what, verdict)]


def test_a_wider_column_needs_a_generation_of_each_table_and_another_field_is_asked_about() -> None:
    wider = columns(amount={"type": "decimal(20,0)", "field": "n"})
    assert {(one.query, one.what, one.verdict) for one in found(wider)} == {
        ("ingest", "source.columns.amount", ChangeVerdict.NEW_GENERATION),
        ("ingest", "source.columns.amount.field", ChangeVerdict.TO_ACCEPT),
        ("per_10m", "source.columns.amount", ChangeVerdict.NEW_GENERATION),
    }


def test_a_measure_without_a_bound_changes_who_computes_the_table_and_that_is_told() -> None:
    measures = {"amount": "sum(amount)", "size": "count(distinct size)"}
    told = [(one.what, one.before, one.after) for one in found(table(measures=measures))]
    assert told == [
        ("measures.size", "sum(size)", "count(distinct size)"),
        ("stream", "engine", "recompute"),
    ]


def test_what_a_measure_decided_is_recorded_and_read_back(tmp_path: Path) -> None:
    of = content()
    table(measures={"amounts": "count(distinct amount)"})(of)
    contract = contracts(of)[1]
    place = str(tmp_path / "t.contract.json")
    write_contract(place, contract, {})
    back = read_contract(place, {})
    assert back is not None
    assert list(contract_differences(back, contract)) == []
    assert back.pipeline.tables["per_10m"].recomputes
    assert back.is_of(pipeline_from_mapping("clicks", of))


def test_windows_become_sessions_by_a_new_generation_alone() -> None:
    refused = found(table(window={"session": "10 minutes"}))
    assert [(one.what, one.verdict) for one in refused] == [
        ("window", ChangeVerdict.NEW_GENERATION),
        # That of sessions, where the file says nothing.
        ("output_mode", ChangeVerdict.NEW_GENERATION),
    ]


@pytest.mark.parametrize(
    ("keys", "measures"),
    [
        (["key"], {"amount": "sum(amount)", "size": "sum(size)"}),
        (["key", "tag", "seen"], {"amount": "sum(amount)", "size": "sum(size)"}),
        (["key", "tag"], {"amount": "sum(amount)"}),
        (["key", "tag"], {"total": "sum(amount)", "size": "sum(size)"}),
        (["key", "tag"], {"amount": "sum(amount)", "size": "sum(size)", "n": "count(*)"}),
    ],
)
def test_other_keys_and_measures_need_a_new_generation(
    keys: list[str], measures: dict[str, str]
) -> None:
    (one,) = found(table(group_by=keys, measures=measures))
    assert one.verdict is ChangeVerdict.NEW_GENERATION
    assert one.reason.startswith("The state and the table hold")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("to_char(sum(amount), '999')", "to_char(sum(amount), '000')"),
        ("to_char(max(at), 'HH:mm')", "to_char(max(at), 'hh:mm')"),
        ("percentile(amount, 0.5)", "percentile(amount, 0.9)"),
    ],
)
def test_a_measure_that_another_argument_makes_another_one_needs_a_new_generation(
    before: str, after: str
) -> None:
    old, new, spelled = content(), content(), content()
    for of, text in ((old, before), (new, after), (spelled, before.replace("(", "( "))):
        table(measures={"amount": text, "size": "sum(size)"})(of)
    (one,) = contract_differences(contracts(old)[1], contracts(new)[1])
    assert (one.what, one.before, one.after) == ("measures.amount", before, after)
    assert one.verdict is ChangeVerdict.NEW_GENERATION
    assert list(contract_differences(contracts(old)[1], contracts(spelled)[1])) == []


def test_swapped_measures_are_told_as_a_matter_of_position() -> None:
    (one,) = found(NEW_GENERATION["measures"])
    assert (one.before, one.after) == ("amount, size", "size, amount")
    assert "by their position" in one.reason


def test_a_watermark_delay_is_safe_and_moves_the_bound_on_the_future_with_it() -> None:
    told = {(one.query, one.what, one.verdict) for one in found(top(watermark={"delay": "1 hour"}))}
    assert told == {
        ("per_10m", "watermark.delay", ChangeVerdict.SAFE),
        ("ingest", "source.event_time.max_future", ChangeVerdict.SAFE),
    }


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ("landing/**/*.json", ChangeVerdict.SAFE),
        ("landing/clicks/**/*.json", ChangeVerdict.SAFE),
        ("landing/click/**/*.json", ChangeVerdict.NOT_ALLOWED),
        ("landing/*.json", ChangeVerdict.NOT_ALLOWED),
        ("s3://other/clicks/*.json", ChangeVerdict.NOT_ALLOWED),
    ],
)
def test_a_pattern_may_change_where_it_still_reaches_the_old_folder(
    files: str, verdict: ChangeVerdict
) -> None:
    assert [one.verdict for one in found(source(files=files))] == [verdict]


def test_a_derived_name_that_was_a_column_or_becomes_one_has_two_meanings() -> None:
    def swap(of: dict[str, Any]) -> None:
        of["source"]["columns"]["large"] = "boolean"
        of["source"]["derive"] = {"small": "size < 2"}

    def swap_back(of: dict[str, Any]) -> None:
        del of["source"]["columns"]["tag"]
        of["source"]["derive"]["tag"] = "upper(key)"

    for change, what in ((swap, "source.derive.large"), (swap_back, "source.derive.tag")):
        told = {one.what: one.verdict for one in found(change)}
        assert told[what] is ChangeVerdict.TO_ACCEPT


def test_what_was_accepted_is_that_change_and_no_other() -> None:
    recorded = contracts(content())[0]
    (asked,) = found(top(keep="7 days"))
    accepted = AcceptedChange(
        what=asked.what, before=asked.before, after=asked.after, reason="disk", by="Ada",
        at=datetime(2026, 7, 1, tzinfo=UTC),
    )  # fmt: skip
    recorded = recorded.model_copy(update={"accepted": (accepted,)})
    for keep, refused in (("7 days", False), ("6 days", True)):
        (one,) = contract_differences(recorded, contracts(content() | {"keep": keep})[0])
        assert one.refused is refused
        assert ("accepted: disk (Ada)" in str(one)) is not refused


def test_a_contract_of_a_former_version_has_no_acceptances(tmp_path: Path) -> None:
    place = tmp_path / "ingest.contract.json"
    written = json.loads(contracts(content())[0].model_dump_json())
    for name in ("accepted", "taken"):
        del written[name]
    place.write_text(json.dumps(written))
    assert read_contract(str(place), {}) == contracts(content())[0]


def test_a_keep_that_goes_is_not_allowed_and_one_that_comes_needs_to_be_accepted() -> None:
    assert [one.verdict for one in found(without("keep"))] == [ChangeVerdict.NOT_ALLOWED]
    kept = contracts(content())[0]
    for_ever = contracts({name: of for name, of in content().items() if name != "keep"})[0]
    (one,) = contract_differences(for_ever, kept)
    assert (one.verdict, one.refused) == (ChangeVerdict.TO_ACCEPT, True)
    assert "for good" in one.reason


def test_rejects_that_are_kept_for_longer_or_for_ever_are_safe() -> None:
    kept, longer = (contracts(content() | {"keep_rejects": one})[0] for one in ("7 days", "8 days"))
    for_ever = contracts(content())[0]
    for old, new, verdict in (
        (kept, longer, ChangeVerdict.SAFE),
        (kept, for_ever, ChangeVerdict.SAFE),
        (longer, kept, ChangeVerdict.TO_ACCEPT),
    ):
        (one,) = contract_differences(old, new)
        assert (one.what, one.verdict) == ("keep_rejects", verdict)
    assert contract_differences(kept, kept) == ()


def test_settings_of_the_project_count_like_the_pipelines_own() -> None:
    settings = Settings(root="/lake", pipelines="/pipelines", spark={PROVIDER: "org.example.Store"})
    (one,) = found(lambda of: None, settings)
    assert (one.what, one.before) == ("advanced.state.store", "memory")
    assert one.after == "org.example.Store"


def test_a_contract_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    for number, contract in enumerate(contracts(content())):
        typed = contract.with_types({"key": "string", "amount": "long"})
        place = str(tmp_path / f"{number}.contract.json")
        write_contract(place, typed, {})
        read = read_contract(place, {})
        assert read is not None
        assert read == typed.model_copy(update={"tidemark": told_version()})
        assert read.pipeline.model_dump_json() == typed.pipeline.model_dump_json()
        assert read.is_of(contract.pipeline)
        assert contract_differences(read, contract) == ()


def test_swapped_measures_are_another_content_though_mappings_compare_equal() -> None:
    changed = copy.deepcopy(content())
    NEW_GENERATION["measures"](changed)
    swapped = pipeline_from_mapping("clicks", changed)
    contract = contracts(content())[1]
    assert contract.pipeline == swapped
    assert not contract.is_of(swapped)


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}', '{"version": 1, "query": "x"}'])
def test_a_file_that_is_no_contract_is_named(tmp_path: Path, text: str) -> None:
    place = tmp_path / "1.contract.json"
    place.write_text(text)
    with pytest.raises(CheckpointUnreadable, match="no contract that this version"):
        read_contract(str(place), {})


@pytest.mark.parametrize("more", [{}, {"unknown": 1}, {"version": 2}])
def test_a_contract_of_a_newer_release_is_refused_by_name(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    place = tmp_path / "1.contract.json"
    write_contract(str(place), contracts(content())[1], {})
    newer = json.loads(place.read_text()) | {"tidemark": "0.3.0+0123456789ab", **more}
    place.write_text(json.dumps(newer))
    with pytest.raises(CheckpointUnreadable) as refused:
        read_contract(str(place), {})
    told = str(refused.value)
    assert f"Tidemark 0.3.0+0123456789ab wrote it, and this is {told_version()}" in told
    assert "Run Tidemark 0.3.0+0123456789ab or later" in told
    assert not refused.value.retry_can_help


def test_no_contract_is_none(tmp_path: Path) -> None:
    assert read_contract(str(tmp_path / "1.contract.json"), {}) is None


def test_what_a_checkpoint_fixes_stands_in_the_offsets_of_a_real_one() -> None:
    offsets = parse_offsets(0, (DATA / "aggregate/offsets/0").read_bytes())
    assert set(FIXED_BY_CHECKPOINT) <= set(offsets.conf)


def test_a_change_of_a_check_concerns_no_query_and_no_column() -> None:
    checked = copy.deepcopy(content())
    checked["source"]["checks"] = [{"warn": {"rejected_share": {"at_most": 0.1}}}]
    checked["tables"]["per_10m"]["checks"] = [{"fail": "amount > 0"}]
    assert found(table(checks=[{"fail": "amount > 0"}])) == []
    before, after = (pipeline_from_mapping("clicks", one) for one in (content(), checked))
    assert fingerprint(before) == fingerprint(after)
    for old, new in zip(contracts(content()), contracts(checked), strict=True):
        assert old == new
        assert old.is_of(after)
    assert after.without_checks() == before
    assert before.with_checks_of(after) == after


def test_a_measure_that_only_has_another_name_is_told_of_renamed_from() -> None:
    measures = {"sum": "SUM( amount )", "size": "sum(size)"}
    (told,) = found(table(measures=measures))
    assert told.verdict is ChangeVerdict.NEW_GENERATION
    assert "say `renamed_from: {sum: amount}` in the table" in told.reason
    (told,) = found(table(measures=measures, renamed_from={"sum": "amount"}))
    assert "renamed_from" not in told.reason
    (told,) = found(table(measures={"sum": "sum(size + 1)", "size": "sum(size)"}))
    assert "renamed_from" not in told.reason
    (told,) = found(table(measures={"b": "sum(size)", "a": "sum(amount)"}))
    assert "say `renamed_from: {b: size, a: amount}` in the table" in told.reason


SHOP = {"shop": {"table": "dims/shops", "on": {"key": "code"}, "columns": {"city": "string"}}}
DAILY = {"calendar": "day", "zone": "Europe/Vienna"}


def daily(of_source: dict[str, Any], key: str, measure: str, **changes: Any) -> Contract:
    """A table of days, which any run computes from bronze."""
    table = {"window": DAILY, "group_by": [key], "measures": {"found": measure}}
    made = clicks(tables={"per_10m": table}, **changes)
    made["source"] = made["source"] | of_source
    return contracts(made)[1]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("looked_up", "own", "what"),
    [
        (
            daily({}, "shop.city", "count(*)", lookup=SHOP),
            daily({"derive": {"shop_city": "upper(key)"}}, "shop_city", "count(*)"),
            {"group_by", "lookup.shop"},
        ),
        (
            daily({}, "key", "max(shop.city)", lookup=SHOP),
            daily(
                {"columns": clicks()["source"]["columns"] | {"shop": "struct<city: string>"}},
                *("key", "max(shop.city)"),
            ),
            {"lookup.shop"},
        ),
    ],
    ids=["a key", "a measure's column"],
)
def test_a_name_that_gold_keeps_for_another_column_needs_a_new_generation(
    looked_up: Contract, own: Contract, what: set[str], turned: bool
) -> None:
    old, new = (own, looked_up) if turned else (looked_up, own)
    # As a run records it.
    old = old.with_types(dict.fromkeys(("key", "shop_city", "found"), "string"))
    refused = [
        one for one in contract_differences(old, new) if one.verdict is ChangeVerdict.NEW_GENERATION
    ]
    assert {one.what for one in refused} == what
