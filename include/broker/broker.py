"""A Kafka cluster of one node or several, started, stopped and killed on this machine."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from broker.certificates import Certificates
from broker.errors import failed
from broker.identity import HOST, USER, identity_in
from broker.java import Java
from broker.properties import SCRAM, properties_of

# It says nothing of how far it is, and takes some seconds.
_START_SECONDS = 300
_STOP_SECONDS = 10
_MEMORY = "256m"


class Broker:
    """One broker, or the `nodes` of a cluster, with all its files in `folder`.

    It listens on loopback: without a login at `servers`, with `user` and `password` (PLAIN or
    SCRAM) and TLS at `secure_servers`, with the client's certificate at `mutual_servers`. `ca_pem`
    signed the certificates; `other_ca_pem` signed none. Addresses stay while this object lives.
    Methods take the number of a node, from 1; without it they mean all.
    """

    def __init__(
        self, folder: Path, java: Java, nodes: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder, self.user = folder, USER
        self._java = java
        self._identity = identity_in(folder, nodes)
        self._certificates = Certificates(folder / "certificates")
        self._nodes = {node.number: node for node in self._identity.nodes}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for node in self._nodes.values():
            data = self.data(node.number)
            told = properties_of(node, self._identity, self._certificates, data, settings or {})
            file = self._properties(node.number)
            file.touch(mode=0o600)
            file.write_text(told)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def servers(self) -> str:
        return ",".join(f"{HOST}:{node.plain}" for node in self._nodes.values())

    @property
    def secure_servers(self) -> str:
        return ",".join(f"{HOST}:{node.secure}" for node in self._nodes.values())

    @property
    def mutual_servers(self) -> str:
        return ",".join(f"{HOST}:{node.mutual}" for node in self._nodes.values())

    @property
    def password(self) -> str:
        return self._identity.password

    @property
    def ca_pem(self) -> Path:
        return self._certificates.ca

    @property
    def other_ca_pem(self) -> Path:
        return self._certificates.other_ca

    @property
    def client_pem(self) -> Path:
        return self._certificates.client

    @property
    def client_key_pem(self) -> Path:
        return self._certificates.client_key

    @property
    def pids(self) -> dict[int, int]:
        """The process of each node that runs."""
        alive = {number: one for number, one in self._running.items() if one.poll() is None}
        return {number: one.pid for number, one in alive.items()}

    def data(self, node: int = 1) -> Path:
        """A node's data: a folder for each partition, `TOPIC-NUMBER`."""
        return self.folder / f"node{node}" / "data"

    def log(self, node: int = 1) -> Path:
        return self.folder / f"node{node}.log"

    def start(self, node: int | None = None) -> None:
        """Start what does not run, also after `kill`; returns when it answers.

        BrokerFailed when it ends or does not answer; then nothing of it is left running.
        """
        asked = [number for number in self._asked(node) if number not in self.pids]
        self._format(asked)
        for number in asked:
            self._running[number] = self._java.start(
                _MEMORY, self.log(number), "kafka.Kafka", str(self._properties(number))
            )
        try:
            self._wait_until_ready(asked)
        except BaseException:
            for number in asked:
                self.kill(number)
            raise

    def stop(self, node: int | None = None) -> None:
        """End it in its own way, within ten seconds; after that, or when it hangs, kill it."""
        self.resume(node)
        self._signal(node, signal.SIGTERM)
        end = time.monotonic() + _STOP_SECONDS
        for number in self._asked(node):
            if process := self._running.get(number):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0, end - time.monotonic()))
        self.kill(node)

    def kill(self, node: int | None = None) -> None:
        self._signal(node, signal.SIGKILL)
        for number in self._asked(node):
            if process := self._running.pop(number, None):
                process.wait()

    def pause(self, node: int | None = None) -> None:
        """From now on it answers nothing, and its connections stay open."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int | None = None) -> None:
        self._signal(node, signal.SIGCONT)

    def _asked(self, node: int | None) -> list[int]:
        return list(self._nodes) if node is None else [self._nodes[node].number]

    def _signal(self, node: int | None, number: signal.Signals) -> None:
        for one in self._asked(node):
            if one in self._running:
                # Does nothing to one that has ended, whose process id may be another's.
                self._running[one].send_signal(number)

    def _properties(self, node: int) -> Path:
        return self.folder / f"node{node}.properties"

    def _format(self, nodes: list[int]) -> None:
        """Give new data folders the cluster's id and its users; others stay as they are."""
        new = [node for node in nodes if not (self.data(node) / "meta.properties").exists()]
        users = (f"{one}=[name={self.user},password={self.password}]" for one in SCRAM)
        program = ["kafka.tools.StorageTool", "format", f"--cluster-id={self._identity.cluster}"]
        program += [part for user in users for part in ("--add-scram", user)]
        started = {
            node: self._java.start(
                "64m", self.log(node), *program, "--config", str(self._properties(node))
            )
            for node in new
        }
        for node, process in started.items():
            if process.wait(_START_SECONDS) != 0:
                raise failed("The broker's folder could not be prepared", self.log(node))

    def _wait_until_ready(self, asked: list[int]) -> None:
        # Its own log says why it does not start; librdkafka's would repeat that nobody answers.
        quiet = {"log_level": 0, "reconnect.backoff.max.ms": 100}
        client = AdminClient({"bootstrap.servers": self.servers, **quiet})
        end = time.monotonic() + _START_SECONDS
        while not self._answers(client):
            for node in asked:
                if node not in self.pids:
                    raise failed(f"Node {node} of the broker ended at its start", self.log(node))
            if time.monotonic() > end:
                log = self.log(next(iter(self._running)))
                raise failed(f"The broker did not answer in {_START_SECONDS} s", log)
            time.sleep(0.05)

    def _answers(self, client: AdminClient) -> bool:
        """Do all that run belong to the cluster, and lead what one of them can lead?"""
        try:
            told = client.list_topics(timeout=1)
        except KafkaException:
            return False
        running = set(self.pids)
        partitions = [one for topic in told.topics.values() for one in topic.partitions.values()]
        return running <= set(told.brokers) and all(
            one.leader in running or not running.intersection(one.isrs) for one in partitions
        )
