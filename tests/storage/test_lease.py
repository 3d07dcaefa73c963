"""Taking, holding, renewing, losing and releasing a lease, in one process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.storage.leases import ELSEWHERE, T0, at, holder, ignore, leave, left_by_another, names
from tidemark.errors import (
    LeaseHeld,
    LeaseLost,
    LeaseUnreadable,
    RunFailed,
    StorageUnavailable,
)
from tidemark.storage.lease import files as lease_files
from tidemark.storage.lease.files import HIGHEST_NUMBER, LeaseFolder, LeaseRecord
from tidemark.storage.lease.lease import (
    Holder,
    Lease,
    hold_lease,
    read_lease,
    release_lease,
    utc_now,
)
from tidemark.storage.processes import mark_of


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "lease")


def found(folder: str) -> LeaseRecord:
    record = read_lease(folder, {})
    assert record is not None
    return record


@contextmanager
def lost_at_its_end(
    folder: str,
    match: str,
    seconds: float = 60,
    who: Holder | None = None,
    on_lapse: Callable[[LeaseLost], object] = ignore,
    now: Callable[[], datetime] = utc_now,
) -> Iterator[Lease]:
    """Hold a lease for a block in which it is lost, as the end of the block must say."""
    held = hold_lease(folder, who or holder(), {}, seconds, on_lapse=on_lapse, now=now)
    with pytest.raises(LeaseLost, match=match), held as lease:
        yield lease


def wait_until(true: Callable[[], Any], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


def test_a_lease_that_nobody_held_is_taken_without_a_fence_and_released(folder: str) -> None:
    assert read_lease(folder, {}) is None
    fenced: list[int] = []
    with hold_lease(folder, holder(), {}, on_takeover=fenced.append, now=lambda: T0) as lease:
        lease.check()
        record = found(folder)
    assert (lease.number, lease.took_over, fenced) == (1, None, [])
    assert (record.run_id, record.purpose, record.expires_at) == ("mine", "stream", at(60))
    assert not record.released
    assert found(folder) == record.model_copy(update={"released": True})


def test_numbers_go_on_and_only_the_highest_file_stays(folder: str) -> None:
    for number in range(1, 4):
        with hold_lease(folder, holder(), {}) as lease:
            assert lease.number == number
        assert names(folder) == [f"{number:020}.json"]


@pytest.mark.slow
def test_a_live_lease_is_refused_with_who_holds_it(folder: str) -> None:
    alive = mark_of(os.getppid())
    leave(folder, left_by_another(processes=(alive,), machine=ELSEWHERE))
    with (
        pytest.raises(LeaseHeld) as raised,
        hold_lease(folder, holder(), {}, on_takeover=ignore, now=lambda: at(1)),
    ):
        pass
    assert str(raised.value) == (
        f"The lease {folder} is held by run other (stream) on elsewhere, process {os.getppid()}, "
        "until 2026-03-01T12:01:00Z (another host may take it over from 2026-03-01T12:02:00Z on). "
        "Nothing was written. Try again when it has ended; `tidemark lease show` tells more."
    )
    assert LeaseHeld.retry_can_help


@pytest.mark.slow
def test_a_process_does_not_end_itself_for_a_lease_that_it_holds(folder: str) -> None:
    with hold_lease(folder, holder("one"), {}):
        for run_id in ("one", "two"):
            with (
                pytest.raises(LeaseHeld, match="that is this process, or one that started it"),
                hold_lease(folder, holder(run_id), {}, on_takeover=ignore),
            ):
                pass


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [60, 119])
def test_an_expired_lease_of_another_host_is_left_until_the_margin_is_over(
    folder: str, seconds: float
) -> None:
    leave(folder, left_by_another(machine=ELSEWHERE))
    with (
        pytest.raises(LeaseHeld, match="from 2026-03-01T12:02:00Z on"),
        hold_lease(folder, holder(), {}, on_takeover=ignore, now=lambda: at(seconds)),
    ):
        pass
    assert names(folder) == [f"{7:020}.json"]


def test_after_the_margin_it_is_taken_over_and_the_takeover_recorded(folder: str) -> None:
    leave(folder, left_by_another(machine=ELSEWHERE))
    seen: list[Any] = []

    def fence(number: int) -> None:
        seen.append((number, found(folder).fence_due))

    with hold_lease(folder, holder(), {}, on_takeover=fence, now=lambda: at(120)) as lease:
        assert seen == [(8, True)]
        assert not found(folder).fence_due
    record = found(folder)
    assert record.took_over == lease.took_over
    assert record.took_over is not None
    assert record.took_over.model_dump() == {
        "number": 7,
        "run_id": "other",
        "purpose": "stream",
        "host": "elsewhere",
        "because": "it ran out on elsewhere at 2026-03-01T12:01:00Z",
    }


def test_a_lease_whose_processes_are_gone_is_taken_over_at_once(folder: str) -> None:
    leave(folder, left_by_another())
    fenced: list[int] = []
    with hold_lease(folder, holder(), {}, on_takeover=fenced.append, now=lambda: T0) as lease:
        assert fenced == [8]
        assert lease.took_over is not None
        assert lease.took_over.because == "its processes are gone"


def test_a_lease_that_is_held_for_less_than_a_second_is_waited_for(folder: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with hold_lease(folder, holder("shortly"), {}):
            waiting = pool.submit(_taken, folder)
            time.sleep(0.3)
            assert not waiting.done()
        assert waiting.result(5) == 2


def _taken(folder: str) -> int:
    with hold_lease(folder, holder("next"), {}) as lease:
        return lease.number


def test_who_ends_no_processes_takes_over_what_is_left_and_fences_it(folder: str) -> None:
    leave(folder, left_by_another())
    fenced: list[int] = []
    taking = hold_lease(folder, holder(), {}, on_takeover=fenced.append, ends_processes=False)
    with taking as lease:
        assert (fenced, lease.number) == ([8], 8)


def test_without_a_fence_nothing_is_taken_over(folder: str) -> None:
    leave(folder, left_by_another())
    with (
        pytest.raises(LeaseHeld, match=r"its processes are gone. `stream` may not take over; the"),
        hold_lease(folder, holder(), {}, now=lambda: at(1000)),
    ):
        pass
    assert found(folder).number == 7


def test_a_lease_whose_tables_were_not_fenced_is_fenced_by_the_next_taker(folder: str) -> None:
    leave(folder, left_by_another())

    def fail(number: int) -> None:
        raise StorageUnavailable("the store is away")

    with pytest.raises(StorageUnavailable), hold_lease(folder, holder(), {}, on_takeover=fail):
        pytest.fail("nothing may be written before the fence")
    assert (found(folder).number, found(folder).released, found(folder).fence_due) == (
        8,
        True,
        True,
    )
    with (
        pytest.raises(LeaseHeld, match="with tables still to be fenced"),
        hold_lease(folder, holder(), {}),
    ):
        pass
    fenced: list[int] = []
    with hold_lease(folder, holder(), {}, on_takeover=fenced.append):
        assert fenced == [9]
    with hold_lease(folder, holder(), {}, on_takeover=fenced.append):
        assert fenced == [9], "once is enough"


def test_where_a_table_was_left_unfenced_the_next_taker_fences_too(folder: str) -> None:
    leave(folder, left_by_another())
    fenced: list[int] = []

    def fence_some(number: int) -> list[str]:
        fenced.append(number)
        return ["a table that is behind"] if len(fenced) == 1 else []

    for numbers in ([8], [8, 9], [8, 9]):
        with hold_lease(folder, holder(), {}, on_takeover=fence_some):
            assert fenced == numbers


def test_what_a_crash_between_taking_and_removing_leaves_does_no_harm(folder: str) -> None:
    leave(folder, left_by_another(number=6))
    leave(folder, left_by_another(number=7))
    leave(folder, left_by_another(number=8, released=True))
    (Path(folder) / "notes.txt").write_text("of somebody")
    with hold_lease(folder, holder(), {}) as lease:
        assert lease.number == 9
    assert names(folder) == [f"{9:020}.json", "notes.txt"]


def test_a_slow_taker_that_creates_a_number_of_the_past_has_not_taken_it(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(folder, left_by_another(released=True))
    create = LeaseFolder.create

    def late(files: LeaseFolder, record: LeaseRecord) -> bool:
        monkeypatch.setattr(LeaseFolder, "create", create)
        for _ in range(2):
            with hold_lease(folder, holder("quick"), {}):
                pass
        return files.create(record)

    monkeypatch.setattr(LeaseFolder, "create", late)
    monkeypatch.setattr("tidemark.storage.lease.taking.SHORTLY", 0)
    with (
        pytest.raises(LeaseHeld, match=r"run quick .* which took it at the same moment"),
        hold_lease(folder, holder("slow"), {}),
    ):
        pass
    assert (found(folder).number, found(folder).run_id) == (9, "quick")
    with hold_lease(folder, holder("next"), {}) as lease:
        assert lease.number == 10
    assert names(folder) == [f"{10:020}.json"]


def test_a_request_that_the_store_carried_out_and_the_client_repeated_has_taken_it(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = lease_files.write_bytes

    def twice(uri: str, data: bytes, options: Any, create_only: bool = False) -> None:
        if create_only:
            write(uri, data, options, create_only)
        write(uri, data, options, create_only)

    monkeypatch.setattr(lease_files, "write_bytes", twice)
    with hold_lease(folder, holder(), {}) as lease:
        assert lease.number == 1


@pytest.mark.slow
def test_a_lease_is_renewed_while_it_is_held(folder: str) -> None:
    with hold_lease(folder, holder(), {}, 1.5, on_lapse=ignore) as lease:
        first = found(folder)
        wait_until(lambda: utc_now() > first.expires_at)
        lease.check()
        later = found(folder)
    assert later.expires_at > first.expires_at
    assert (later.taken_at, later.number) == (first.taken_at, first.number)
    assert (later.expires_at - later.renewed_at).total_seconds() == 1.5


def test_a_lease_that_was_taken_over_is_noticed_by_check_and_by_the_renewal(folder: str) -> None:
    lapses: list[LeaseLost] = []
    with lost_at_its_end(folder, "number 8 is of run other", 0.6, on_lapse=lapses.append) as lease:
        leave(folder, left_by_another(number=8))
        with pytest.raises(LeaseLost, match="may write nothing more: its lease"):
            lease.check()
        wait_until(lambda: lapses)
    assert len(lapses) == 1
    assert found(folder) == left_by_another(number=8), "the loser releases nothing"
    assert LeaseLost.retry_can_help


def test_a_lease_whose_folder_was_cleared_is_lost(folder: str) -> None:
    lapses: list[LeaseLost] = []
    with lost_at_its_end(folder, "number 1, has no file any more", 0.6, on_lapse=lapses.append):
        Path(folder, f"{1:020}.json").unlink()
        wait_until(lambda: lapses)
    assert names(folder) == []


@pytest.mark.slow
def test_a_store_that_is_away_ends_the_lease_and_the_error_says_so(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lapses: list[LeaseLost] = []

    def fail(*_: Any) -> None:
        raise StorageUnavailable("the store is away")

    match = "without being renewed. The last renewal failed: the store is away"
    with lost_at_its_end(folder, match, 0.5, on_lapse=lapses.append) as lease:
        monkeypatch.setattr(LeaseFolder, "rewrite", fail)
        wait_until(lambda: lapses)
        monkeypatch.undo()
        with pytest.raises(LeaseLost):
            lease.check()
    assert len(lapses) == 1


@pytest.mark.slow
def test_a_store_that_comes_back_in_time_costs_nothing(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[int] = []

    def fail(*_: Any) -> None:
        failures.append(1)
        raise StorageUnavailable("the store is away")

    with hold_lease(folder, holder(), {}, 3, on_lapse=ignore) as lease:
        monkeypatch.setattr(LeaseFolder, "rewrite", fail)
        wait_until(lambda: failures)
        monkeypatch.undo()
        wait_until(lambda: found(folder).renewed_at > found(folder).taken_at)
        lease.check()


@pytest.mark.slow
def test_a_store_that_does_not_answer_does_not_hide_the_end_of_the_lease(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    answer, began = threading.Event(), time.monotonic()
    monkeypatch.setattr(LeaseFolder, "rewrite", lambda *_: answer.wait(10))
    with lost_at_its_end(
        folder, "ran out", 0.6, on_lapse=lambda _: told.append(time.monotonic() - began)
    ):
        wait_until(lambda: told)
        answer.set()
    assert 0.55 < told[0] < 2


@pytest.mark.slow
def test_a_wall_clock_that_jumps_past_the_end_ends_the_lease(folder: str) -> None:
    clock: list[datetime] = [T0]
    lapses: list[LeaseLost] = []
    with lost_at_its_end(folder, "ran out", on_lapse=lapses.append, now=lambda: clock[0]) as lease:
        clock[0] = at(60)
        with pytest.raises(LeaseLost, match="ran out at 2026-03-01T12:01:00Z"):
            lease.check()
        wait_until(lambda: lapses)


@pytest.mark.slow
def test_a_wall_clock_that_goes_back_does_not_make_the_lease_longer(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise StorageUnavailable("away")

    clock: list[datetime] = [T0]
    lapses: list[LeaseLost] = []
    with lost_at_its_end(folder, "ran out", 0.5, on_lapse=lapses.append, now=lambda: clock[0]):
        monkeypatch.setattr(LeaseFolder, "rewrite", fail)
        clock[0] = at(-3600)
        wait_until(lambda: lapses, 2)


def test_an_error_of_the_work_is_not_hidden_by_a_lost_lease(folder: str) -> None:
    lapses: list[LeaseLost] = []

    def work() -> None:
        leave(folder, left_by_another(number=8))
        wait_until(lambda: lapses)
        raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError),
        hold_lease(folder, holder(), {}, 0.3, on_lapse=lapses.append),
    ):
        work()


def test_after_an_error_of_ours_the_lease_is_free(folder: str) -> None:
    with pytest.raises(RunFailed), hold_lease(folder, holder(), {}):
        raise RunFailed("a query failed")
    assert (found(folder).released, found(folder).fence_due) == (True, False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_after_an_interrupt_or_an_unforeseen_error_the_next_taker_fences(
    folder: str, error: type[BaseException]
) -> None:
    with pytest.raises(error), hold_lease(folder, holder(), {}):
        raise error
    assert (found(folder).released, found(folder).fence_due) == (True, True)
    fenced: list[int] = []
    with hold_lease(folder, holder(), {}, on_takeover=fenced.append):
        assert fenced == [2]


def test_a_lease_that_cannot_be_released_is_told_and_the_work_stands(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise StorageUnavailable("the store is away")

    with hold_lease(folder, holder(), {}, now=lambda: T0):
        monkeypatch.setattr(LeaseFolder, "rewrite", fail)
    assert capsys.readouterr().err == (
        "The lease was not released, and runs until 2026-03-01T12:01:00Z: the store is away\n"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file: Invalid JSON"),
        ('{"number": 7}', "run_id: Field required"),
        (left_by_another(number=6).model_dump_json(), "it is of number 6"),
        (
            left_by_another().model_dump_json().replace("12:01:00Z", "12:01:00"),
            "expires_at: Input should have timezone info",
        ),
        (
            left_by_another().model_dump_json().replace("2026-03-01T12:01", "9999-12-31T23:59"),
            "expires_at: Value error, Input should be between the years 1970 and 2999",
        ),
    ],
    ids=["empty", "half", "of another number", "a time without a zone", "the last day"],
)
def test_a_file_that_no_run_wrote_is_named_and_the_way_out_too(
    folder: str, content: str, reason: str
) -> None:
    Path(folder).mkdir()
    file = Path(folder, f"{7:020}.json")
    file.write_text(content)
    with pytest.raises(LeaseUnreadable) as raised, hold_lease(folder, holder(), {}):
        pass
    assert str(raised.value).startswith(f"{file} is not a lease file: {reason}")
    assert "tidemark lease release --force" in str(raised.value)
    assert not LeaseUnreadable.retry_can_help
    fenced: list[int] = []
    with pytest.raises(LeaseUnreadable):
        release_lease(folder, holder(), {}, fenced.append)
    assert release_lease(folder, holder(), {}, fenced.append, force=True) is not None
    assert fenced == [8]
    with hold_lease(folder, holder(), {}) as lease:
        assert lease.number == 9


def test_where_no_number_is_left_that_is_said(folder: str) -> None:
    leave(folder, left_by_another(number=HIGHEST_NUMBER, released=True))
    with (
        pytest.raises(LeaseUnreadable, match=r"has no number left.* remove that folder"),
        hold_lease(folder, holder(), {}),
    ):
        pass


def test_what_a_later_version_adds_to_a_file_is_passed_over(folder: str) -> None:
    text = left_by_another(released=True).model_dump_json()
    Path(folder).mkdir()
    Path(folder, f"{7:020}.json").write_text(text.replace("{", '{"new": 1,', 1))
    with hold_lease(folder, holder(), {}) as lease:
        assert lease.number == 8


def test_releasing_what_is_free_does_nothing_also_twice(folder: str) -> None:
    fenced: list[int] = []
    assert release_lease(folder, holder(), {}, fenced.append) is None
    leave(folder, left_by_another())
    first = release_lease(folder, holder(), {}, fenced.append)
    assert first is not None
    for force in (False, True):
        assert release_lease(folder, holder(), {}, fenced.append, force) is None
    assert fenced == [8]
    assert (found(folder).number, found(folder).released) == (8, True)


@pytest.mark.slow
def test_a_lease_of_another_host_is_released_by_force_only_and_its_owner_finds_out(
    folder: str,
) -> None:
    lapses: list[LeaseLost] = []
    fenced: list[int] = []
    other = holder("other", ELSEWHERE)
    with lost_at_its_end(folder, "number 2 is of run mine", 0.6, other, lapses.append):
        with pytest.raises(LeaseHeld):
            release_lease(folder, holder(), {}, fenced.append)
        assert release_lease(folder, holder(), {}, fenced.append, force=True) is not None
        wait_until(lambda: lapses)
    assert fenced == [2]
    assert found(folder).released
