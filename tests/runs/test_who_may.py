"""Who may change numbers, as the settings list them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.kit.running import Place
from tidemark.cli.main import app
from tidemark.errors import ActRefused
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.acceptance import check_may, this_user
from tidemark.runs.requests import (
    BackfillRequest,
    EraseRequest,
    JobRequest,
    MigrationRequest,
    ReplayRequest,
    RetractRequest,
    RewindRequest,
    StreamRequest,
    check_may_ask,
)

AT = datetime(2026, 7, 1, tzinfo=UTC)


def listed(**acts: tuple[str, ...]) -> Settings:
    return Settings(root="/root", acts=acts)


@pytest.mark.parametrize("who", ["ann", "ann@machine", "ann, by Airflow"])
def test_a_name_is_a_login_on_any_machine_a_user_of_airflow_or_what_was_said(who: str) -> None:
    check_may(listed(retract=("bob", "ann")), "retract", who)
    check_may(listed(), "retract", who)
    check_may(listed(rewind=("bob",)), "retract", who)
    for names in ((), ("bob",), ("an",)):
        with pytest.raises(ActRefused, match="Nothing was changed") as refused:
            check_may(listed(retract=names), "retract", who)
        assert who in str(refused.value)
        assert not refused.value.retry_can_help


def test_an_address_of_airflow_is_no_login() -> None:
    with pytest.raises(ActRefused):
        check_may(listed(retract=("ann",)), "retract", "ann@elsewhere.org, by Airflow")


def test_without_a_name_it_is_the_user_of_the_process() -> None:
    check_may(listed(retract=(this_user().partition("@")[0],)), "retract", None)


REQUESTS: list[tuple[type[JobRequest], str, dict[str, Any]]] = [
    (BackfillRequest, "backfill", {"table": "t", "start": AT, "end": AT}),
    (MigrationRequest, "migrate", {"table": "t"}),
    (RewindRequest, "rewind", {"to_run": "a"}),
    (RetractRequest, "retract", {"file": "a"}),
    (ReplayRequest, "replay", {"again": True}),
    (EraseRequest, "erase", {"where": "a = 1"}),
]


@pytest.mark.parametrize(("kind", "act", "asked"), REQUESTS)
def test_each_act_is_refused_to_others_and_a_look_is_not(
    kind: type[JobRequest], act: str, asked: dict[str, Any]
) -> None:
    def ask(by: str, **more: Any) -> JobRequest:
        return kind.model_validate({"pipeline": "x", "by": by, **asked, **more})

    settings = listed(**{act: ("ann",)})
    check_may_ask(ask("ann"), settings)
    check_may_ask(ask("bob", dry_run=True), settings)
    with pytest.raises(ActRefused, match=f"`{act}`"):
        check_may_ask(ask("bob"), settings)
    if "accept" in kind.model_fields:
        with pytest.raises(ActRefused, match="`accept`"):
            check_may_ask(ask("ann", accept=True, reason="known"), listed(accept=("bob",)))
    check_may_ask(StreamRequest(pipeline="x", by="bob"), settings)


def test_a_command_refuses_before_spark_is_started(tmp_path: Path) -> None:
    place = Place(tmp_path, acts={"rewind": ["ann"], "migrate": ["ann"]})
    place.write_file()
    for asked in (
        ("rewind", "clicks", "--to-run", "a", "--apply"),
        ("migrate", "clicks", "--rollback", "per_10m"),
        ("migrate", "clicks", "--rebuild", "per_10m"),
    ):
        done = CliRunner().invoke(app, [*asked, "--by", "bob"], env=place.variables)
        assert done.exit_code == 1, done.output
        assert f"bob is not among those who may do this (`{asked[0]}`)" in done.output
