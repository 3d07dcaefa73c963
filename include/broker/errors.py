"""The one error of the broker: what is known, with the end of its log."""

from __future__ import annotations

from pathlib import Path

_LINES = 15


class BrokerFailed(Exception):
    """The broker did not do what was asked of it; its data stay where they are."""


def failed(what: str, log: Path) -> BrokerFailed:
    said = log.read_text(errors="replace").splitlines()[-_LINES:] if log.exists() else []
    return BrokerFailed("\n".join([f"{what}; {log} ends with:", *(f"  {line}" for line in said)]))
