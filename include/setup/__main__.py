"""`python -m setup INSTALLER`, started by setup.sh: all steps, in their order."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from setup.archive import archive_step
from setup.environment import environment_step
from setup.errors import SetupFailed, disk_full
from setup.jars import jars_step
from setup.java import Java, java_step
from setup.layout import Layout, refuse_unusable_path
from setup.packages import (
    bytecode_step,
    packages_step,
    project_step,
    refuse_to_trust_a_broken_venv,
)
from setup.step import one_at_a_time, run_step


def set_up(layout: Layout, installer: str) -> None:
    """Bring everything up to date; does nothing where it is."""
    refuse_unusable_path(layout.root)
    stamps = layout.state / "stamps"
    with one_at_a_time(layout.state):
        refuse_to_trust_a_broken_venv(layout, stamps)
        packages = packages_step(layout, installer)
        run_step(packages, stamps)
        run_step(project_step(layout, installer, packages), stamps)
        run_step(bytecode_step(layout, packages), stamps)
        found = run_step(java_step(layout, packages, os.environ), stamps)
        java = Java(found["home"], found["version"], found["flags"])
        run_step(jars_step(layout, java.home), stamps)
        archive = run_step(archive_step(layout, java), stamps).get("made")
        run_step(environment_step(layout, java, archive), stamps)


def main(installer: str) -> int:
    started = time.monotonic()
    root = Path(__file__).resolve().parents[2]
    try:
        set_up(Layout(root), installer)
    except SetupFailed as failed:
        return stop(str(failed))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return stop(str(disk_full(str(root))))
        return stop(f"set-up stopped: {error}.")
    except KeyboardInterrupt:
        return stop("set-up interrupted. The next call goes on where this one stood.", 130)
    print(f"set-up: up to date ({time.monotonic() - started:.1f} s)", flush=True)
    return 0


def stop(message: str, code: int = 1) -> int:
    print(f"\n{message}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
