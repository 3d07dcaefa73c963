"""`tidemark accept`: changes of a pipeline's file that runs wait for, without Spark."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from tests.kit.running import Place
from tests.runs.test_contract_check import content, make_gold, plan_all, started
from tidemark.cli.main import app
from tidemark.runs.contract.accept import changes_to_accept


def tidemark(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)


def test_a_change_that_runs_wait_for_is_shown_and_then_accepted(tmp_path: Path) -> None:
    place = Place(tmp_path, content())
    make_gold(place)
    started(place)
    plan_all(place)
    assert "and no change of its file waits" in tidemark(place, "accept", "clicks").stdout
    place.content = content(keep="30 days")
    shown = tidemark(place, "accept", "clicks")
    assert "ingest: keep: none → 30 days: needs to be accepted. The next publish" in shown.stdout
    assert 'Nothing was written. Accept it with --reason "…".' in shown.stdout
    assert len(changes_to_accept(place.pipeline, place.settings)) == 1
    place.acts = {"accept": ["Ada"]}
    refused = tidemark(place, "accept", "clicks", "--reason", "disk", "--by", "Bob")
    assert refused.exit_code == 1
    assert "Bob is not among those who may do this (`accept`)" in refused.output
    assert len(changes_to_accept(place.pipeline, place.settings)) == 1
    accepted = tidemark(place, "accept", "clicks", "--reason", "disk", "--by", "Ada")
    assert accepted.exit_code == 0, accepted.stderr
    assert "Accepted: disk (Ada).\n" in accepted.stdout
    assert "The next run (`tidemark run clicks`) takes the change." in accepted.stdout
    assert "Audit" not in accepted.stdout
    assert changes_to_accept(place.pipeline, place.settings) == ()
