"""What the jobs take as arguments, and what they say of those that they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.runs.requests import (
    AuditRequest,
    BackfillRequest,
    CompactionRequest,
    MigrationRequest,
    PipelineRequest,
    RewindRequest,
    StateRequest,
    StreamRequest,
)

RANGE = ["--pipeline", "x", "--table", "t", "--to", "2016-06-02"]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
TIME = st.datetimes(timezones=st.just(UTC)) | st.datetimes(
    datetime(2000, 1, 1), timezones=st.just(timezone(timedelta(hours=5, minutes=30)))
)
COMMON = {
    "pipeline": TEXT,
    "settings": st.none() | st.just(Path("a folder/settings.yaml")),
    "root": st.none() | TEXT,
    "run_id": st.none() | TEXT,
    "result": st.none() | TEXT,
}
# Whoever accepts says why.
ACCEPTED = st.fixed_dictionaries(
    {"accept": st.just(True), "reason": TEXT.filter(str.strip)}, optional={"by": TEXT}
) | st.just({})


def requests(kind: type[PipelineRequest], **own: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries(COMMON | own).map(lambda fields: kind(**fields))


REQUESTS = st.one_of(
    requests(StreamRequest, scheduled_time=st.none() | TIME, trigger=TEXT, hold=st.booleans()),
    st.builds(
        lambda fields, accepted: BackfillRequest(**fields, **accepted),
        st.fixed_dictionaries(
            COMMON | {"table": TEXT, "start": TIME, "end": TIME, "dry_run": st.booleans()}
        ),
        ACCEPTED,
    ),
    st.builds(
        lambda fields, accepted: MigrationRequest(**fields, **accepted),
        st.fixed_dictionaries(COMMON | {"table": TEXT, "rebuild": st.booleans()}),
        ACCEPTED,
    ),
    requests(RewindRequest, to_run=TEXT, dry_run=st.booleans()),
    requests(
        RewindRequest,
        to_offsets=st.lists(
            st.builds("{}/{}:{}".format, TEXT, st.integers(0, 9), st.integers(0, 99))
        ).map(tuple),
    ),
    requests(AuditRequest, table=st.none() | TEXT, start=st.none() | TIME, end=st.none() | TIME),
    requests(CompactionRequest, every=st.booleans()),
    requests(
        StateRequest,
        table=TEXT,
        batch=st.none() | st.integers(0),
        where=st.none() | TEXT,
        side=st.none() | st.sampled_from(["left", "right"]),
        limit=st.integers(1),
    ),
)


@given(REQUESTS)
def test_a_job_is_asked_what_its_arguments_were_made_of(request: PipelineRequest) -> None:
    assert type(request).read(request.arguments()) == request


def test_utf_8_that_the_locale_of_the_process_did_not_know_is_read_as_such() -> None:
    asked = RewindRequest.read(["--pipeline", "x", "--undo", "a", "--reason", "caf\udcc3\udca9"])
    assert asked.reason == "café"


def test_a_range_may_be_given_in_dates() -> None:
    asked = BackfillRequest.read([*RANGE, "--from", "2016-06-01"])
    assert asked.start == datetime(2016, 6, 1, tzinfo=UTC)
    assert asked.end == datetime(2016, 6, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "arguments", "told"),
    [
        (
            BackfillRequest,
            [*RANGE, "--from", "2016-06-01T12:00"],
            "argument --from: '2016-06-01T12:00' has no zone; write it as in "
            "2026-07-01T12:00:00Z, or a date alone for its midnight in UTC",
        ),
        (
            MigrationRequest,
            ["--pipeline", "x", "--table", "t", "--accept"],
            '--accept and --reason go together: --accept --reason "…"',
        ),
        (
            RewindRequest,
            ["--pipeline", "x", "--to-offset", "clicks:3"],
            "'clicks:3' is no TOPIC/PARTITION:OFFSET",
        ),
        (
            RewindRequest,
            ["--pipeline", "x", "--to-run", "a", "--undo", "b"],
            "--to-run, --to-offset and --undo exclude each other",
        ),
        (
            RewindRequest,
            ["--pipeline", "x", "--to-run", "a", "--without", "1.json", "--without", ""],
            "--without is empty, which the name of each file ends with",
        ),
        (
            RewindRequest,
            ["--pipeline", "x", "--undo", "a", "--reason", "caf\udce9"],
            r"argument --reason: 'caf\udce9' is no UTF-8, which all that is kept is: write it in a "
            "terminal whose encoding that is, or in ASCII",
        ),
        (
            RewindRequest,
            ["--pipeline", "x", "--undo", "a", "--without", "\ud83d"],
            r"argument --without: '\ud83d' is no UTF-8, which all that is kept is: write it in a "
            "terminal whose encoding that is, or in ASCII",
        ),
        (MigrationRequest, ["--pipeline", "x"], "the following arguments are required: --table"),
        (
            StateRequest,
            ["--pipeline", "x", "--table", "t", "--batch", "-1"],
            "argument --batch: Input should be greater than or equal to 0",
        ),
    ],
)
def test_what_cannot_be_asked_is_told_with_what_is_wrong(
    kind: type[PipelineRequest],
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        kind.read(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {told}\n")
