"""What commands and jobs print is text, whatever rows, names and messages hold."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from typer.testing import CliRunner, Result

from tests.kit.running import Place, clicks
from tests.kit.windows import at, window
from tests.quality.held import Held
from tests.storage.leases import leave, left_by_another
from tidemark.cli.console import print_documents, report_console, report_table
from tidemark.cli.main import app
from tidemark.cli.report import print_result
from tidemark.cli.trial.report import print_trial
from tidemark.printed import printing_text, shown
from tidemark.runs.requests import StreamRequest
from tidemark.storage.result_file import RunError

# What a terminal obeys: it clears, names windows, colours, answers; and what turns lines around.
HOSTILE = "\x1b[2J\x1b]0;named\x07\x9b31mred\x1b[8m\u202eturned\r"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202e\ud800-\udfff]")
TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.text("\x1b[]0;m\x07\x9b\r\n\t\ud800a\u061c\u200e\u200f", max_size=20),
)


def said(result: Result) -> str:
    return result.stdout + result.stderr


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands with their names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


ALL = dict(commands(typer.main.get_command(app)))


@given(TEXTS)
def test_any_text_is_printed_as_text_and_a_document_reads_back_as_it_was(text: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), printing_text():
        print(text)
        print(text, file=sys.stderr)
        sys.stderr.writelines([text])
    assert err.getvalue() == f"{shown(text)}\n{shown(text)}"
    assert out.getvalue() == f"{shown(text)}\n"
    assert not OBEYED.search(out.getvalue())
    document = io.StringIO()
    with redirect_stdout(document), printing_text():
        print_documents([{text: text}])
    assert json.loads(document.getvalue()) == [{text: text}]
    assert not OBEYED.search(document.getvalue())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_a_stream_cannot_encode_is_printed_as_json_writes_it(encoding: str) -> None:
    def printed(print_: Callable[[], None]) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with redirect_stdout(out), printing_text():
            print_()
        out.flush()
        return out.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]

    text = "–😀ä"
    assert json.loads(printed(lambda: print_documents([{text: text}]))) == [{text: text}]
    assert printed(lambda: report_console().print(text)).startswith(r"\u2013\ud83d\ude00")


def test_without_a_stdout_and_a_stderr_a_command_ends_as_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Python has them where they are closed."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with printing_text():
        report_console().print("told")
        print("told")
        print("told", file=sys.stderr)
        sys.stdout.flush()


@given(st.text("abcäß€😀 .,;:'\"\\/[]()", max_size=20))
def test_what_a_terminal_does_not_obey_is_printed_as_it_is(text: str) -> None:
    assert shown(f"{text}\t\n") == f"{text}\t\n"


@given(TEXTS)
def test_tables_and_lines_of_reports_are_text_and_hold_no_markup(text: str) -> None:
    out = io.StringIO()
    with redirect_stdout(out), printing_text():
        console = report_console()
        table = report_table(text or "name")
        table.add_row(text)
        console.print(table)
        console.print(text, soft_wrap=True)
        console.print(":smile: [red]", Text(text).plain)
    assert not OBEYED.search(out.getvalue())
    assert ":smile: [red]" in out.getvalue()


def test_a_terminal_gets_our_styles_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    with redirect_stdout(out), printing_text():
        report_console().print("\x1b[8mhidden", style="bold")
    assert out.getvalue() == "\x1b[1m\\u001b[8mhidden\x1b[0m\n"


@pytest.mark.slow
@pytest.mark.parametrize("names", ALL, ids=" ".join)
def test_every_command_shows_what_it_was_given_as_text(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Each argument is a text that no command can use, and is told in its error."""
    place = Place(tmp_path)
    place.write_file()
    arguments: list[str] = []
    for one in ALL[names].params:
        if one.param_type_name == "argument":
            arguments.append(str(tmp_path / HOSTILE))
        elif one.required:
            arguments += [one.opts[0], "1" if one.name in ("to_batch", "partitions") else HOSTILE]
    if names == ("page",):
        # Without a fault it would serve until somebody ends it.
        arguments = ["--settings", str(tmp_path / HOSTILE)]
    ended = CliRunner().invoke(app, [*names, *arguments], env=place.variables)
    assert not OBEYED.search(said(ended))
    if ended.exit_code:
        # As a time is told, with Python's own escapes.
        assert re.search(r"\\(u00|x)1b\[2J", said(ended))
    unknown = CliRunner().invoke(app, [*names, f"--{HOSTILE}"], env=place.variables)
    assert unknown.exit_code == 2
    assert not OBEYED.search(said(unknown))


def test_an_error_that_nobody_foresaw_is_a_traceback_of_text() -> None:
    broken = typer.Typer(cls=app.info.cls, pretty_exceptions_enable=app.pretty_exceptions_enable)

    @broken.command()
    def one() -> None:
        raise ZeroDivisionError(HOSTILE)

    broken.command(name="other")(lambda: None)
    ended = CliRunner().invoke(broken, ["one"])
    assert ended.exit_code == 1
    assert "Traceback" in ended.stderr
    assert ended.stderr.endswith(f"ZeroDivisionError: {shown(HOSTILE)}\n")


def test_rows_rejects_and_errors_of_a_trial_are_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Held(tmp_path, [{"fail": "total > 0"}])
    result = held.run(window(at(10), key=HOSTILE, total=1), close=at(10, 10))
    held.publish(result)
    error = RunError.model_validate(
        {"class": "RunFailed", "message": HOSTILE, "retry_can_help": True}
    )
    with printing_text():
        print_trial(held.place.pipeline, held.place.places, report_console())
        print_result(result.model_copy(update={"error": error, "run_id": HOSTILE}), HOSTILE)
    told = capsys.readouterr()
    assert "\\u001b[2J" in told.out
    assert f"RunFailed: {shown(HOSTILE)}" in told.err
    assert not OBEYED.search(told.out + told.err)


def test_names_of_files_and_fields_and_a_leases_holder_are_text(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    name = "1\x1b[2J\x9b31m.json"
    place.land(name, [{"at": "2026-03-01T09:00:00Z", HOSTILE: 1, "k": HOSTILE}])
    leave(place.places.lease, left_by_another(run_id=HOSTILE, host=HOSTILE))
    (tmp_path / "pipelines" / "bad\x1b[2J.yaml").write_text(f"source: {json.dumps(HOSTILE)}\n")
    for asked in (
        ["new", "orders", "--from", str(tmp_path / "landing" / name)],
        ["validate"],
        ["lease", "show", "clicks"],
        ["status"],
        ["status", "clicks"],
    ):
        ended = CliRunner().invoke(app, asked, env=place.variables)
        assert "\\u001b[2J" in said(ended), (asked, said(ended))
        assert not OBEYED.search(said(ended))


def test_a_jobs_errors_and_progress_are_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidemark.storage.result_file import Facts
    from tidemark.streaming.jobs.entry import Job, JobOutcome, job_main, reported

    def work(job: Job[StreamRequest]) -> JobOutcome:
        job.progress.say(HOSTILE)
        try:
            raise ZeroDivisionError(HOSTILE)
        except ZeroDivisionError as error:
            reported(error, job.progress)
        return JobOutcome(Facts(), None, 0, HOSTILE)

    place = Place(tmp_path, clicks())
    place.write_file()
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    for pipeline in ("clicks", HOSTILE):
        job_main(StreamRequest(pipeline=pipeline), work, Facts)
    told = capsys.readouterr()
    assert f"clicks: {shown(HOSTILE)}\n" in told.err
    assert told.err.count("Traceback") == 1
    assert told.err.splitlines()[-1].startswith("PipelineNotFound: There is no pipeline")
    assert not OBEYED.search(told.out + told.err)


def test_progress_is_drawn_into_a_terminal_and_what_it_names_is_text(tmp_path: Path) -> None:
    """The cursor's own sequences are obeyed, and no others."""
    place = tmp_path / "\x9b31mred\u202e"
    (place / "offsets").mkdir(parents=True)
    (place / "offsets" / "0").write_text("v1\n{}\n{}")
    drawn = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "400"}
    ended = CliRunner().invoke(app, ["checkpoint", "inspect", str(place)], env=drawn)
    assert "\x1b[?25l" in ended.stderr
    assert "files; reading" in ended.stderr
    assert "\\u009b31mred\\u202e" in ended.stderr
    assert "\\u001b" not in ended.stderr
    assert not re.search("[\x9b\u202e]", said(ended))
