"""Somebody publishes what checks would keep back: why, and who it is."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class CheckOverride:
    """Why failed checks are overridden, and by whom."""

    reason: str
    by: str


def acceptance(accept: bool, reason: str | None, by: str | None) -> CheckOverride | None:
    """What a command's options `--accept`, `--reason` and `--by` come to.

    Without a name it is the user of this process. Raises ValueError, with the options' names in it,
    where they do not go together.
    """
    given = (reason or "").strip()
    if accept != bool(given):
        raise ValueError('--accept and --reason go together: --accept --reason "…"')
    if not accept:
        if by:
            raise ValueError("--by goes with --accept")
        return None
    return CheckOverride(given, by or this_user())


def this_user() -> str:
    """The login of this process, and its machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number that has no name.
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
