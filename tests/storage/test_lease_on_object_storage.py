"""The same lease on S3: a real HTTP store (moto's server)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from tests.storage.leases import ELSEWHERE, holder, ignore, leave, left_by_another
from tests.storage.s3 import s3_server
from tidemark.errors import LeaseHeld, LeaseLost
from tidemark.storage.files import list_files
from tidemark.storage.lease.lease import hold_lease, read_lease


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.slow
def test_a_lease_is_taken_renewed_released_and_taken_over(options: dict[str, str]) -> None:
    folder = "s3://lake/one/lease"
    with hold_lease(folder, holder("first"), options, 3, on_lapse=ignore) as lease:
        with (
            pytest.raises(LeaseHeld, match="held by run first"),
            hold_lease(folder, holder("x", ELSEWHERE), options, on_takeover=ignore),
        ):
            pass
        wait_until_renewed(folder, options)
        lease.check()
    leave(folder, left_by_another(number=2, machine=ELSEWHERE), options)
    fenced: list[int] = []
    with hold_lease(folder, holder("second"), options, on_takeover=fenced.append) as lease:
        assert (lease.number, fenced) == (3, [3])
    found = read_lease(folder, options)
    assert found is not None
    assert (found.run_id, found.released) == ("second", True)
    assert list(list_files(folder, options)) == [f"{folder}/{3:020}.json"]


def wait_until_renewed(folder: str, options: dict[str, str]) -> None:
    end = time.monotonic() + 10
    while (found := read_lease(folder, options)) and found.renewed_at == found.taken_at:
        assert time.monotonic() < end, "it was not renewed"
        time.sleep(0.05)


def test_the_owner_of_a_lease_that_was_taken_finds_out(options: dict[str, str]) -> None:
    folder = "s3://lake/two/lease"
    slow = hold_lease(folder, holder("slow"), options, 30, on_lapse=ignore)
    with pytest.raises(LeaseLost, match="number 2 is of run other"), slow:
        leave(folder, left_by_another(number=2), options)
    assert read_lease(folder, options) == left_by_another(number=2)


@pytest.mark.slow
def test_of_takers_at_once_one_wins(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.storage.lease.taking.SHORTLY", 0)
    folder, takers = "s3://lake/three/lease", 4
    begin, judged = Barrier(takers, timeout=30), Barrier(takers, timeout=30)

    def take(name: int) -> int | None:
        begin.wait()
        mine = replace(holder(f"{name}"), machine=f"machine {name}")
        try:
            with hold_lease(folder, mine, options) as lease:
                judged.wait()
                return lease.number
        except LeaseHeld:
            judged.wait()
            return None

    for number in range(1, 11):
        with ThreadPoolExecutor(takers) as pool:
            taken = [number for number in pool.map(take, range(takers)) if number is not None]
        assert taken == [number]
