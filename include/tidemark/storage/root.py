"""Is the root the one that is meant, or is a mount missing? Asked before anything is looked for
below it: an empty folder looks like a root on which nothing has run.

Nothing below a root can tell that it is gone, so two things outside are asked: the settings'
`root_marker`, a file that whoever owns the root has put there, and the mounts that this machine
should have (`/etc/fstab`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tidemark.errors import RootMissing
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.storage.files import stat_files

FSTAB, MOUNTED = Path("/etc/fstab"), Path("/proc/self/mountinfo")
# The field of a mount point, counted from 0.
_IN_FSTAB, _IN_MOUNTED = 1, 4
_OCTAL = re.compile(r"\\([0-7]{3})")


def check_root(settings: Settings) -> None:
    """Raise RootMissing where the settings' root is not there as it should be; nothing is
    written."""
    if (missing := why_missing(settings)) is not None:
        raise RootMissing(
            f"{missing} Nothing was read or written there: all would be taken for new. Mount it, "
            "then run again."
        )


def why_missing(settings: Settings, fstab: Path = FSTAB, mounted: Path = MOUNTED) -> str | None:
    """Why the root is not there, for people; None where nothing says so."""
    root, marker = settings.root, settings.root_marker
    if marker is not None:
        place = f"{root}/{marker}"
        if stat_files([place], settings.storage_options)[place] is None:
            return f"The root {root} has no file {marker}, which the settings name as root_marker."
    if not is_local(root):
        return None
    for point in set(_points(fstab, _IN_FSTAB)) - set(_points(mounted, _IN_MOUNTED)):
        if Path(os.path.realpath(local_path(root))).is_relative_to(point) and mounted.exists():
            return f"The root {root} lies below {point}, which {fstab} names and is not mounted."
    return None


def _points(file: Path, field: int) -> Iterator[str]:
    """The mount points of a table of mounts; none where it cannot be read."""
    try:
        lines = file.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) > field and not line.lstrip().startswith("#"):
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[field])
            if point.startswith("/"):
                yield point.rstrip("/") or "/"
