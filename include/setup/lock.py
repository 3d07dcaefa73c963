"""Reading the lock: versions by name, and the one rule that the lock itself cannot state."""

from __future__ import annotations

import re

from setup.errors import SetupFailed

PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", re.MULTILINE)
MUST_BE_EQUAL = ("pyspark", "pyspark-client")


def pinned_versions(lock: str) -> dict[str, set[str]]:
    """The versions of each package; several where markers choose between them."""
    versions: dict[str, set[str]] = {}
    for name, version in PIN.findall(lock):
        versions.setdefault(re.sub(r"[-_.]+", "-", name).lower(), set()).add(version)
    return versions


def unequal_engines(lock: str) -> str | None:
    """What is wrong with the versions of pyspark and pyspark-client, or None.

    Both wheels install the package `pyspark`, so with unequal versions the files of whichever
    comes last would run against the jars of the other.
    """
    versions = pinned_versions(lock)
    found = {name: sorted(versions.get(name, ())) for name in MUST_BE_EQUAL}
    if all(len(pins) == 1 for pins in found.values()) and len({*map(str, found.values())}) == 1:
        return None
    shown = ", ".join(f"{name} {' and '.join(pins) or 'missing'}" for name, pins in found.items())
    return f"pyspark and pyspark-client need one and the same version, and the lock has {shown}"


def refuse_unequal_engines(lock: str) -> None:
    problem = unequal_engines(lock)
    if problem:
        raise SetupFailed(
            problem,
            "give both the same version in requirements.in and make requirements.txt again with "
            "the command in its first lines",
        )
