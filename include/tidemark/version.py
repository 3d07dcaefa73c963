"""Which Tidemark wrote something: its release, and what tells two builds of one release apart."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path

__version__ = "0.2.0"
# The entry of a stored JSON object that says which Tidemark wrote it.
WRITTEN_BY = "tidemark"
_CODE = Path(__file__).parent


@cache
def told_version() -> str:
    """The release and, behind a `+`, a digest of the package's code: 0.2.0+3fa9c2d41b70. Equal
    wherever the same code is installed, however it came there."""
    digest = sha256()
    for name in sorted(path.relative_to(_CODE).as_posix() for path in _CODE.rglob("*.py")):
        code = (_CODE / name).read_bytes()
        digest.update(f"{name} {len(code)}\n".encode() + code)
    return f"{__version__}+{digest.hexdigest()[:12]}"


def written_by(stored: bytes) -> str | None:
    """Which Tidemark wrote a JSON object, by its own word; None where it does not say."""
    try:
        found = json.loads(stored)
    except ValueError:
        return None
    version = found.get(WRITTEN_BY) if isinstance(found, dict) else None
    return version if isinstance(version, str) else None


def is_of_a_newer_release(version: str | None) -> bool:
    """Is the first or second number of a release higher than ours? Releases that share both read
    what each other wrote. What was written before versions were told is older."""
    return version is not None and _release(version) > _release(__version__)


def _release(version: str) -> tuple[int, ...]:
    """None of ours, (), is older than any."""
    numbers = version.partition("+")[0].split(".")[:2]
    return tuple(map(int, numbers)) if all(part.isdecimal() for part in numbers) else ()


def beside_ours(version: str | None) -> str:
    """What wrote something and what reads it, for an error."""
    writer = f"Tidemark {version}" if version else "A Tidemark that does not say its version"
    return f"{writer} wrote it, and this is {told_version()}"
