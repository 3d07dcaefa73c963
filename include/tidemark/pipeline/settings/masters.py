"""Spark's masters: which of them can work on a root, and where their driver is reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.settings import Settings

DRIVER_ADDRESS = "SPARK_LOCAL_IP"


def is_local_master(master: str) -> bool:
    """Are the executors threads of the driver?"""
    return master == "local" or master.startswith("local[")


def check_master(settings: Settings, master: str, origin: str) -> None:
    """Raise SettingsInvalid for a local root with a master whose executors are elsewhere.

    Each of them would write to a disk of its own. `origin` says where the master was named.
    """
    if settings.is_local and not is_local_master(master):
        raise SettingsInvalid(
            f"The root {settings.root} is a folder of this machine, and the master {master} "
            f"({origin}) has executors on others, which would write to their own disks. Nothing "
            "was started. Set the root to a store that all machines reach (s3://bucket/folder), "
            "or take the master `local[*]`."
        )


def without_loopback(environment: Mapping[str, str], master: str) -> dict[str, str]:
    """The environment of a driver that the master's executors reach.

    Set-up binds a driver to this machine alone (`SPARK_LOCAL_IP=127.0.0.1`). Executors on others
    would look for it on their own machines, and end, again and again. Without the variable Spark
    takes the address of this machine's name; one that is not a loopback address stays as it is.
    """
    kept = dict(environment)
    if _is_loopback(kept.get(DRIVER_ADDRESS, "")) and not _is_on_this_machine(master):
        del kept[DRIVER_ADDRESS]
    return kept


def _is_on_this_machine(master: str) -> bool:
    """Threads or processes of this machine, or a standalone master that is bound to it alone."""
    if is_local_master(master) or master.startswith("local-cluster["):
        return True
    hosts = re.findall(r"(?:^spark://|,)(\[[^\]]*\]|[^:,]+)", master)
    return bool(hosts) and all(_is_loopback(host.strip("[]")) for host in hosts)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
