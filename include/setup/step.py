"""A step of the set-up, done once for each key, with one line of progress."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One piece of set-up.

    `act` must be repeatable: it may find anything that an earlier, killed call left behind. What
    it returns is kept in the stamp and given back by the calls that follow. There, `note` is for
    the line of progress, and `made` names one more output, of those that not every machine gets.
    """

    name: str
    doing: str
    key: str
    outputs: tuple[Path, ...]
    act: Callable[[], dict[str, str]]


def run_step(step: Step, stamps: Path) -> dict[str, str]:
    """Do the step unless its stamp says that it is done; returns what `act` returned."""
    stamp = stamps / f"{step.name}.json"
    kept = read_stamp(stamp)
    outputs = [*step.outputs, *([Path(kept["made"])] if "made" in kept else [])]
    if kept.get("key") == step.key and all(path.exists() for path in outputs):
        return {name: value for name, value in kept.items() if name != "key"}
    stamp.unlink(missing_ok=True)
    print(f"set-up: {step.doing} ... ", end="", flush=True)
    started = time.monotonic()
    result = step.act()
    note = f" ({result['note']})" if "note" in result else ""
    print(f"{time.monotonic() - started:.1f} s{note}", flush=True)
    write_whole(stamp, json.dumps({"key": step.key, **result}, indent=1))
    return result


@contextmanager
def one_at_a_time(state: Path) -> Iterator[None]:
    """Two calls at the same time would overwrite each other's .venv. A killed one holds nothing."""
    state.mkdir(exist_ok=True)
    with (state / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this folder to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_stamp(stamp: Path) -> dict[str, str]:
    """An unreadable stamp is no stamp: the step is done again."""
    try:
        kept = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def write_whole(path: Path, text: str) -> None:
    """Write so that a reader, or a later call after a kill, sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    Path(part).replace(path)


def key_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


def facts_of(paths: Iterable[Path]) -> list[str]:
    """Name, size and time of change of each file: what the JVM itself compares of a jar."""
    facts = []
    for path in sorted(paths):
        stat = path.stat()
        facts.append(f"{path}|{stat.st_size}|{stat.st_mtime_ns}")
    return facts


def run_logged(command: list[str], log: Path, env: Mapping[str, str] | None = None) -> str | None:
    """Run a command; None when it succeeded, else its output. The log keeps the last command's."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=env, check=False)
    return None if ended.returncode == 0 else log.read_text(encoding="utf-8", errors="replace")


def last_lines(output: str, count: int = 12) -> str:
    """What a person needs of a command's output; a password in a URL is left out."""
    kept = [line for line in output.splitlines() if line.strip()][-count:]
    return re.sub(r"://[^/\s@]+@", "://", "\n".join(f"    | {line[:200]}" for line in kept))


def say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)
