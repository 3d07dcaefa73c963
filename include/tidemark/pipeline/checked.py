"""A check of a value as a validator of pydantic's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import AfterValidator


def checked(check: Callable[..., object], *more: object) -> AfterValidator:
    """Leaves a value as it is, where `check`, asked with `more` behind it, raises no ValueError."""

    def validated(value: Any) -> Any:
        check(value, *more)
        return value

    return AfterValidator(validated)
