"""No pattern that a pipeline file may have reads what the platform writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemark.errors import PipelineInvalid
from tidemark.pipeline.places import Places
from tidemark.pipeline.source_files import has_pattern, is_uri, own_place, split_files
from tidemark.sources.files.handle import check_reaches_no_own_place

PIECES = (
    *("/", "/", ".", ".", "..", "{", "}", ",", "[", "]", "!", "-", "*", "?", "**", "a", "landing"),
    *(
        "landing/",
        "clicks",
        "ops",
        "Ops",
        "clicks/bronze",
        "checkpoints",
        "results",
        "%2e",
        "{a,b}",
    ),
    *("{./.,x/x}", "{/..,/x}", "[.]", ":", "file:///lake/", "s3://lake/"),
)


def expanded(pattern: str) -> Iterator[str]:
    """What a pattern stands for before Hadoop looks at names (class GlobExpander): a brace with a
    `/` in it is taken apart, whatever is around it. The others are patterns of one name, which is
    looked for in its folder's list; that has no `..`."""
    depth, cuts = 0, [0]
    for index, character in enumerate(pattern):
        if character == "{":
            depth += 1
            cuts = [index] if depth == 1 else cuts
        elif character == "," and depth == 1:
            cuts.append(index)
        elif character == "}" and depth:
            depth -= 1
            if depth == 0 and "/" in pattern[cuts[0] : index]:
                for start, end in pairwise([*cuts, index]):
                    before, inner = pattern[: cuts[0]], pattern[start + 1 : end]
                    yield from expanded(before + inner + pattern[index + 1 :])
                return
    yield pattern


def test_braces_are_expanded_as_hadoop_does() -> None:
    assert list(expanded("landing/.{./.,x/{b,c/d}}/{e,f}")) == [
        "landing/.././{e,f}",
        "landing/.x/b/{e,f}",
        "landing/.x/c/d/{e,f}",
    ]


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join))
@example("landing/.{./.,x/x}/clicks/bronze/*")
@example("landing/.{.,x}/clicks/bronze/*")
@example("[{]/landing/..[}]/a")
def test_an_accepted_pattern_stays_below_the_root_and_out_of_own_places(pattern: str) -> None:
    try:
        split_files(pattern)
    except ValueError:
        return
    if own_place(pattern, "clicks"):
        return
    for path in expanded(pattern):
        names = path.split("/")
        assert ".." not in names
        if not is_uri(pattern):
            assert names[0].lower() not in ("clicks", "ops", ".", "")
            assert not has_pattern(names[0])


PLACES = Places("/data/lake", "clicks")


@pytest.mark.parametrize(
    "files",
    [
        "file:///data/lake/clicks/bronze/*.parquet",
        "file:///data/lake/clicks/**/*",
        "file:///data/lake/*/results/*.json",
        "file:///data/lake/{clicks,landing}/*.json",
        "file:///data/lake/**/*.json",
        "file:///data/lake/*",
        "file:///data/lake/ops/runs/*.json",
        "file:///data/lake/[a-p]*/runs/*.json",
    ],
)
def test_a_uri_that_reaches_the_pipelines_own_folder_is_refused(files: str) -> None:
    with pytest.raises(PipelineInvalid, match=r"reaches /data/lake/(clicks|ops), which"):
        check_reaches_no_own_place(split_files(files), PLACES)


@pytest.mark.parametrize(
    "files",
    [
        "file:///data/lake/landing/**/*",
        "file:///data/lake/l*/x/*",
        "file:///data/lake/clicks2/*",
        "s3://lake/x/*",
    ],
)
def test_a_uri_beside_it_is_not(files: str) -> None:
    check_reaches_no_own_place(split_files(files), PLACES)


def test_the_same_bucket_under_its_other_name_is_the_same_place() -> None:
    with pytest.raises(PipelineInvalid, match="reaches s3://bucket/lake/clicks"):
        check_reaches_no_own_place(
            split_files("s3a://bucket/lake/**/*.json"), Places("s3://bucket/lake", "clicks")
        )


def test_a_landing_folder_may_be_a_link_but_not_one_into_the_own_folder(tmp_path: Path) -> None:
    places = Places(str(tmp_path / "lake"), "clicks")
    for folder in ("lake/clicks/bronze", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    source = split_files("landing/*.json")
    source = replace(source, folder=places.source(source.folder))
    landing = tmp_path / "lake/landing"
    landing.symlink_to(tmp_path / "elsewhere")
    check_reaches_no_own_place(source, places)
    landing.unlink()
    landing.symlink_to(tmp_path / "lake/clicks/bronze")
    with pytest.raises(PipelineInvalid, match="reaches"):
        check_reaches_no_own_place(source, places)
