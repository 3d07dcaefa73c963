"""TIDEMARK_* variables, which override the settings file."""

from __future__ import annotations

import os
from typing import Any

PREFIX = "TIDEMARK_"
# It names the settings file, and is no setting.
_FILE = f"{PREFIX}SETTINGS"


def read_environment() -> dict[str, Any]:
    """What TIDEMARK_* variables set; SettingsInvalid for one that cannot be read."""
    if not any(name.upper().startswith(PREFIX) and name.upper() != _FILE for name in os.environ):
        return {}
    from tidemark.pipeline.settings.variables import read_variables

    return read_variables()
