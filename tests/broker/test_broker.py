"""A real broker: what survives which end, who may log in, and that no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from broker.broker import Broker
from broker.errors import BrokerFailed
from broker.installed import installed_java
from tests.kit.kafka import (
    client_of,
    make_topic,
    new_name,
    produce,
    secure_client_of,
    started_broker,
    stored,
    wait_until,
)


@pytest.fixture(scope="module")
def started() -> Iterator[Broker]:
    """One that may be killed: no other file's tests use it."""
    with started_broker() as started:
        yield started


@pytest.fixture
def own(started: Broker) -> Broker:
    if not started.pids:
        started.start()
    return started


def values_in(broker: Broker, topic: str) -> list[bytes | None]:
    return [message.value() for message in stored(broker, topic)]


def reaches(options: dict[str, Any]) -> bool:
    try:
        AdminClient(options).list_topics(timeout=2)
    except KafkaException:
        return False
    return True


def error_of(options: dict[str, Any]) -> str:
    """What a client is told by whom it is refused."""
    told: list[str] = []
    client = Producer({**options, "error_cb": lambda error: told.append(str(error))})
    wait_until(lambda: client.poll(0.1) is not None and bool(told), "Nothing was refused")
    return told[0]


@pytest.mark.long
def test_a_killed_one_starts_again_with_its_messages_at_the_same_address(own: Broker) -> None:
    topic, before = make_topic(own, new_name()), own.servers
    produce(own, topic, ["before"])
    own.kill()
    assert own.pids == {}
    assert not reaches(client_of(own))
    # By a thread that ends: the broker does not end with it.
    thread = threading.Thread(target=own.start)
    thread.start()
    thread.join()
    assert own.servers == before
    produce(own, topic, ["after"])
    assert values_in(own, topic) == [b"before", b"after"]


@pytest.mark.slow
def test_a_paused_one_does_not_answer_until_it_is_resumed(own: Broker) -> None:
    own.pause()
    assert not reaches(client_of(own))
    own.resume()
    wait_until(lambda: reaches(client_of(own)), "It does not answer")


@pytest.mark.long
def test_a_paused_one_can_be_stopped_and_another_takes_over_its_folder(own: Broker) -> None:
    topic = make_topic(own, new_name())
    produce(own, topic, ["before"])
    own.pause()
    own.stop()
    assert own.pids == {}
    with Broker(own.folder, installed_java()) as second:
        assert (second.servers, second.password) == (own.servers, own.password)
        assert values_in(second, topic) == [b"before"]


@pytest.mark.slow
def test_a_start_that_fails_says_what_the_log_says(tmp_path: Path) -> None:
    broken = Broker(tmp_path, installed_java(), settings={"num.io.threads": "none"})
    with pytest.raises(BrokerFailed, match="Invalid value none for configuration"):
        broken.start()
    assert broken.pids == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    ["PLAIN", pytest.param("SCRAM-SHA-256", marks=pytest.mark.long), "SCRAM-SHA-512"],
)
def test_the_right_password_is_let_in_and_a_wrong_one_refused(
    broker: Broker, mechanism: str
) -> None:
    options = secure_client_of(broker, mechanism)
    assert reaches(options)
    refused = error_of({**options, "sasl.password": "wrong"})
    assert "_AUTHENTICATION" in refused


def test_a_client_refuses_a_broker_whose_certificate_another_ca_signed(broker: Broker) -> None:
    options = secure_client_of(broker)
    refused = error_of({**options, "ssl.ca.location": str(broker.other_ca_pem)})
    assert "certificate verify failed" in refused


@pytest.mark.slow
def test_a_client_is_known_by_its_certificate(broker: Broker) -> None:
    options = {
        **client_of(broker),
        "bootstrap.servers": broker.mutual_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.ca_pem),
    }
    key = {"ssl.key.location": str(broker.client_key_pem)}
    assert reaches({**options, **key, "ssl.certificate.location": str(broker.client_pem)})
    assert not reaches(options)


@pytest.mark.long
def test_three_nodes_go_on_without_one() -> None:
    with started_broker(nodes=3) as three:
        topic = make_topic(three, new_name(), partitions=3, min_insync_replicas=2)
        produce(three, topic, [str(n) for n in range(30)])
        three.kill(2)
        produce(three, topic, [str(n) for n in range(30, 60)])
        three.start(2)
        assert sorted(map(int, values_in(three, topic))) == list(range(60))  # type: ignore[arg-type]


STARTS = """
import json, sys, time
from pathlib import Path
from broker.broker import Broker
from broker.installed import installed_java

broker = Broker(Path(sys.argv[1]), installed_java())
broker.start()
print(json.dumps(broker.pids), flush=True)
time.sleep({seconds})
"""


@contextmanager
def starting(folder: Path, seconds: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that starts a broker and does not stop it; the process of the broker."""
    command = [sys.executable, "-c", STARTS.format(seconds=seconds), str(folder)]
    include = Path(__file__).parents[2] / "include"
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(include)}
    )
    with process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        (pid,) = next(json.loads(line) for line in lines if line[0] == "{").values()
        yield process, pid


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(None, marks=pytest.mark.long)])
def test_no_process_is_left_by_one_that_ends_without_stopping_it(
    tmp_path: Path, end: signal.Signals | None
) -> None:
    with starting(tmp_path, seconds=0 if end is None else 60) as (process, pid):
        if end is not None:
            process.send_signal(end)
        process.wait()
        wait_until(lambda: is_gone(pid), "The broker is left")


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
