"""A job that Kafka does not let in: what it prints and leaves has no secret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.kafka import make_topic, new_name
from tests.kit.running import run_job
from tests.sources.kafka.test_brokers_in_trouble import secure
from tests.sources.kafka.test_lost_topics import topics_place, write

if TYPE_CHECKING:
    from broker.broker import Broker

pytestmark = [pytest.mark.process, pytest.mark.long]


def test_a_wrong_password_ends_a_job_with_its_exit_code_and_stands_nowhere(
    broker: Broker, tmp_path: Path
) -> None:
    place = topics_place(tmp_path, broker, {"topic": make_topic(broker, new_name("closed"))})
    write(place, broker, "ab")
    secure(place, broker, password="not-the-password")
    end = run_job(place)
    assert end.exit_code == 1, end.output
    assert end.result is not None
    assert end.result.error is not None
    assert (end.result.error.type, end.result.error.retry_can_help) == ("SourceRefused", False)
    assert "not-the-password" not in end.output
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"not-the-password" in file.read_bytes()]
    assert not Path(place.places.bronze).exists()
