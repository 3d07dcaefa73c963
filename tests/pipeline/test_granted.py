"""What pipelines may name: places that the settings grant, and code of their own."""

from __future__ import annotations

import json
import os.path
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.kit.running import clicks
from tidemark.errors import PipelineInvalid
from tidemark.pipeline.granted import check_granted, why_not_granted
from tidemark.pipeline.load import load_pipeline, pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.pipeline.settings.storage_options import is_local
from tidemark.sources.kinds import source_handle
from tidemark.streaming.session import start_session

REPOSITORY = Path(__file__).parents[2]
ROOTS = ("/data/lake", "s3://lake/warehouse")
GRANTS = (
    "/srv/in",
    "/srv/deep/in",
    "s3://other/landing",
    "abfss://box@account.dfs.core.windows.net/in",
)
LETTERS = ("srv", "in", "in2", "data", "lake", "landing", "*", "x*.json", "%2e%2e", "..", "in%20b")


def reading(place: str, kind: str = "files") -> Pipeline:
    source = {k: v for k, v in clicks()["source"].items() if k != "files"}
    named: dict[str, Any] = {"files": place} if kind == "files" else {"delta": {"table": place}}
    return pipeline_from_mapping("clicks", clicks(source={**named, **source}))


def granting(root: str = ROOTS[0], **changes: Any) -> Settings:
    return Settings(root=root, pipelines="/p", **changes)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("kind", ["files", "delta"])
@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/private/passwords.json",
        "file:/srv/in2/*.json",
        "file:///srv/more/in*/x.json",
        "file:///srv/deep/in?/private/x.json",
        "file:/srv/in#2/x.json",
        "file:///data/lake2/landing/*.json",
        "s3://lake2/warehouse/landing/*.json",
        "s3a://other/landing2/*.json",
        "s3://other/private/x.json",
        "abfss://box@another.dfs.core.windows.net/in/*.json",
    ],
)
def test_a_place_that_is_not_granted_is_refused_with_the_line_that_grants_it(
    root: str, kind: str, place: str
) -> None:
    pipeline, settings = reading(place, kind), granting(root, sources=GRANTS)
    for door in (source_handle, start_session):
        with pytest.raises(PipelineInvalid, match="lies outside of the root") as refused:
            door(pipeline, settings)
    (line,) = [one for one in str(refused.value).split("`") if one.startswith("sources: ")]
    check_granted(pipeline, granting(root, **YAML(typ="safe").load(line)))


@pytest.mark.parametrize("kind", ["files", "delta"])
@pytest.mark.parametrize(
    "place",
    [
        "landing/clicks/*.json",
        "file:///data/lake/landing/*.json",
        "file:/srv/in/*.json",
        "FILE:///srv/in/a/{b,c}/*.json",
        "s3a://other/landing/*.json",
        "abfss://box@account.dfs.core.windows.net/in/*.json",
    ],
)
def test_a_place_below_the_root_or_one_that_is_listed_is_read(kind: str, place: str) -> None:
    check_granted(reading(place, kind), granting(sources=GRANTS))


@given(
    st.sampled_from(["file:", "file://", "file://host", "s3://other", "s3a://other", "S3://other"]),
    st.lists(st.sampled_from(LETTERS), min_size=1, max_size=5).map("/".join),
)
def test_no_form_of_a_place_reaches_past_what_is_granted(store: str, path: str) -> None:
    """By what a file system, or a store, makes of the names."""
    place = f"{store}/{path}"
    if why_not_granted(place, granting(sources=GRANTS)) is None:
        found = os.path.normpath(unquote(urlsplit(place).path))
        assert ".." not in place
        above = ("/srv/in", "/data/lake") if is_local(place) else ("/landing",)
        assert any(f"{found}/".startswith(f"{one}/") for one in above)


@pytest.mark.parametrize("kind", ["files", "delta.table"])
@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("http://169.254.169.254/latest/x.json", "has the scheme `http`"),
        ("hdfs://name/landing/x.json", "has the scheme `hdfs`"),
        ("jar:file:///x!/y/z.json", "has the scheme `jar`"),
        ("landing/../../etc/x.json", "has `..`"),
        ("file:///srv/in/%2E%2e/x.json", "has `..`"),
        ("file:///srv/in/..%2f..%2Fetc/x.json", "percent-encoded slash"),
        ("/etc/x.json", "is an absolute path"),
        ("s3://key:word@other/landing/x.json", "user, password or port"),
    ],
)
def test_what_is_no_place_of_a_store_is_a_problem_of_the_file(
    kind: str, place: str, why: str
) -> None:
    with pytest.raises(PipelineFileInvalid) as error:
        reading(place, kind.partition(".")[0])
    (problem,) = error.value.problems
    assert problem.field == f"source.{kind}"
    assert why in problem.message


@pytest.mark.parametrize("listed", ["http://169.254.169.254", "s3:/x", "file:///srv/*", ""])
def test_the_settings_list_places_of_the_stores_that_are_known(listed: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|bucket|patterns|empty"):
        granting(sources=[listed])


def test_places_in_the_settings_count_from_their_file_and_variables_override_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("root: lake\nsources: [in, file:///srv/a%20b, s3a://other/]\n")
    assert load_settings(file).sources == (f"{tmp_path}/in", "/srv/a b", "s3://other")
    monkeypatch.setenv("TIDEMARK_SOURCES", json.dumps(["/else"]))
    monkeypatch.setenv("TIDEMARK_ALLOW_PYTHON", "false")
    assert load_settings(file).sources == ("/else",)
    assert not load_settings(file).allow_python


def test_python_of_a_pipeline_is_refused_where_the_settings_do_not_allow_it() -> None:
    pipeline = load_pipeline(REPOSITORY / "include" / "pipelines" / "site_visits.yaml")
    check_granted(pipeline, granting())
    for door in (source_handle, start_session):
        with pytest.raises(PipelineInvalid, match="`allow_python: true`"):
            door(pipeline, granting(allow_python=False))


def test_in_containers_it_is_not_allowed_unless_somebody_says_so() -> None:
    compose = YAML(typ="safe").load(REPOSITORY / "docker-compose.yaml")
    assert compose["x-root"]["TIDEMARK_ALLOW_PYTHON"] == "${ALLOW_PYTHON:-false}"
