from __future__ import annotations

from pathlib import Path

import pytest

from setup.step import Step, facts_of, last_lines, run_logged, run_step


class Counted:
    """A step that says how often it was done, and that can be killed in the middle."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "output"
        self.stamps = folder / "stamps"
        self.done = 0

    def run(self, key: str = "a", killed: bool = False, **result: str) -> dict[str, str]:
        def act() -> dict[str, str]:
            self.done += 1
            self.output.write_text("half")
            if killed:
                raise KeyboardInterrupt
            return result

        return run_step(Step("counted", "counting", key, (self.output,), act), self.stamps)


@pytest.fixture
def step(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


def test_a_step_is_done_once_for_a_key_and_gives_back_what_it_found(step: Counted) -> None:
    assert step.run(home="/java") == {"home": "/java"}
    assert step.run() == {"home": "/java"}
    assert step.done == 1


def test_a_second_call_prints_nothing(step: Counted, capsys: pytest.CaptureFixture[str]) -> None:
    step.run(note="why")
    assert "set-up: counting ... 0.0 s (why)" in capsys.readouterr().out
    step.run()
    assert capsys.readouterr().out == ""


def test_another_key_does_the_step_again(step: Counted) -> None:
    step.run("a")
    step.run("b")
    step.run("a")
    assert step.done == 3


def test_a_missing_output_does_the_step_again(step: Counted) -> None:
    step.run()
    step.output.unlink()
    step.run()
    assert step.done == 2


def test_a_missing_output_that_only_the_stamp_names_does_the_step_again(
    step: Counted, tmp_path: Path
) -> None:
    made = tmp_path / "archive"
    made.touch()
    step.run(made=str(made))
    step.run()
    assert step.done == 1
    made.unlink()
    step.run()
    assert step.done == 2


def test_a_killed_step_is_done_again(step: Counted) -> None:
    with pytest.raises(KeyboardInterrupt):
        step.run(killed=True)
    step.run()
    assert step.done == 2


def test_a_step_that_is_killed_when_done_again_has_no_stamp_left(step: Counted) -> None:
    step.run("a")
    with pytest.raises(KeyboardInterrupt):
        step.run("b", killed=True)
    step.run("a")
    assert step.done == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 1}'])
def test_an_unreadable_stamp_is_no_stamp(step: Counted, text: str) -> None:
    step.run()
    (step.stamps / "counted.json").write_text(text)
    step.run()
    assert step.done == 2


def test_the_facts_of_a_file_change_with_its_size_and_time(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_text("one")
    first = facts_of([jar])
    jar.write_text("three")
    assert facts_of([jar]) != first


def test_a_command_that_fails_gives_its_output_and_the_log_keeps_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_logged(["sh", "-c", "echo fine"], log) is None
    assert run_logged(["sh", "-c", "echo broken >&2; exit 3"], log) == "broken\n"
    assert log.read_text() == "broken\n"


def test_the_last_lines_are_few_and_without_passwords() -> None:
    output = "\n\n".join([*map(str, range(30)), "https://me:secret@host/a failed"])
    shown = last_lines(output, count=3)
    assert shown == "    | 28\n    | 29\n    | https://host/a failed"
