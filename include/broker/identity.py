"""Who a broker is: what stays the same when it is started again, kept in its folder."""

from __future__ import annotations

import base64
import json
import random
import secrets
import socket
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HOST = "127.0.0.1"
USER = "tidemark"
# Below those that the kernel gives to outgoing connections: one of these could take the port of a
# killed broker, or be connected to itself there.
_PORTS = range(20_000, 32_000)


@dataclass(frozen=True)
class Node:
    """A node's number, from 1, and its ports."""

    number: int
    plain: int
    secure: int
    mutual: int
    controller: int

    @property
    def ports(self) -> tuple[int, ...]:
        return self.plain, self.secure, self.mutual, self.controller


@dataclass(frozen=True)
class Identity:
    cluster: str
    password: str
    nodes: tuple[Node, ...]


def identity_in(folder: Path, nodes: int) -> Identity:
    """The one that the folder holds, else a new one. Ports that others took are replaced."""
    file = folder / "identity.json"
    found = _read(file) if file.exists() else _new(nodes)
    if len(found.nodes) != nodes:
        raise ValueError(f"{folder} holds the data of {len(found.nodes)} nodes, not of {nodes}")
    if not all(_is_free(port) for node in found.nodes for port in node.ports):
        found = replace(found, nodes=_new(nodes).nodes)
    file.touch(mode=0o600)
    file.write_text(json.dumps(asdict(found), indent=1))
    return found


def _read(file: Path) -> Identity:
    kept = json.loads(file.read_text())
    return Identity(**kept | {"nodes": tuple(Node(**node) for node in kept["nodes"])})


def _new(nodes: int) -> Identity:
    ports = _free_ports(4 * nodes)
    return Identity(
        cluster=base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
        password=secrets.token_hex(16),
        nodes=tuple(Node(n + 1, *ports[4 * n : 4 * n + 4]) for n in range(nodes)),
    )


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if _is_free(port):
            found.append(port)
        if len(found) == count:
            break
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As Java binds: connections that a killed broker left do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True
