"""Who does what changes numbers, and why: whether they may, and an override of checks."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass

from tidemark.errors import ActRefused
from tidemark.pipeline.settings.settings import Settings

# Behind the name of a user of Airflow.
BY_AIRFLOW = ", by Airflow"


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


def as_utf8(text: str) -> str:
    """An argument's text as it can be kept, in UTF-8; ValueError where it was none."""
    try:
        # Python has a half of a character for each byte that its own locale does not know.
        return text.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        raise ValueError(
            f"{text!r} is no UTF-8, which all that is kept is: write it in a terminal whose "
            "encoding that is, or in ASCII"
        ) from None


def check_may(settings: Settings, act: str, by: str | None) -> None:
    """ActRefused where the settings list who may do this, and they are not among them. Without a
    name it is the user of this process."""
    listed, who = settings.acts.get(act), by or this_user()
    # A login has its machine behind it, a user of Airflow what told the name.
    name = who.removesuffix(BY_AIRFLOW)
    names = {who, name, who.partition("@")[0] if name == who else name}
    if listed is None or names & {*listed}:
        return
    raise ActRefused(
        f"{who} is not among those who may do this (`{act}`): the settings list, under acts, "
        f"{', '.join(listed) or 'nobody'}. Nothing was changed. Let one of them do it, or be put "
        "on the list."
    )


def this_user() -> str:
    """The login of this process, and its machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number that has no name.
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
