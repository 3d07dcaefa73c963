"""Which of Spark's masters can work on a root."""

from __future__ import annotations

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.settings import Settings


def check_master(settings: Settings, master: str, origin: str) -> None:
    """Raise SettingsInvalid for a local root with a master whose executors are elsewhere.

    Each of them would write to a disk of its own. `origin` says where the master was named.
    """
    if settings.is_local and not (master == "local" or master.startswith("local[")):
        raise SettingsInvalid(
            f"The root {settings.root} is a folder of this machine, and the master {master} "
            f"({origin}) has executors on others, which would write to their own disks. Nothing "
            "was started. Set the root to a store that all machines reach (s3://bucket/folder), "
            "or take the master `local[*]`."
        )
