"""The one error of the set-up: what is known, and what to do."""

from __future__ import annotations


class SetupFailed(Exception):
    """Set-up cannot go on. What is finished stays, and the next call goes on from there."""

    def __init__(self, known: str, *advice: str) -> None:
        super().__init__(known)
        self.known = known
        self.advice = advice

    def __str__(self) -> str:
        lines = [f"set-up stopped: {self.known}".rstrip() + ("" if "\n" in self.known else ".")]
        lines += [f"  What to do: {line}." for line in self.advice]
        return "\n".join(lines)


def disk_full(place: str) -> SetupFailed:
    return SetupFailed(
        f"the disk became full while working on {place}",
        "free about 3 GB, in the repository's file system and in that of $TMPDIR (or /tmp), "
        "then run the same command again",
    )


def refuse_full_disk(output: str, place: str) -> None:
    """Turn the operating system's own words, in the output of a command, into advice."""
    if "no space left on device" in output.lower():
        raise disk_full(place)
