"""A fold's state between two rows: what its JSON says, and nothing of it lost on the way."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.said import message_of, named

_LACKING = object()
# Equal values of these are the same; of subclasses, members of an IntEnum say, they are not.
_ALWAYS_PLAIN = frozenset({str, int, bool, type(None)})


class InvalidState(Exception):
    """A state that does not come back from JSON; the message says what of it."""


@dataclass(frozen=True)
class States:
    """The states of one fold, all of a type: a dataclass or a model of pydantic."""

    kind: type[Any]

    def through_json(self, state: Any) -> tuple[str, Any]:
        """A state as JSON, and as it comes back. Raises InvalidState, and what pydantic raises."""
        written = self._adapter.dump_json(state, by_alias=True, round_trip=True, warnings="error")
        read = self._adapter.validate_json(written)
        for name in _fields(state):
            before, after = getattr(state, name), getattr(read, name, _LACKING)
            if not _same(_as_read(state, name), after):
                raise InvalidState(_said(name, before, after))
        return written.decode(), read

    def read(self, written: str) -> Any:
        return self._adapter.validate_json(written)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        # With None, which is no state: a dataclass or a model alone is given no configuration.
        kind: Any = self.kind | None
        return TypeAdapter(kind, config=ConfigDict(ser_json_inf_nan="constants"))

    def check(self) -> None:
        """PipelineInvalid where no state of this type comes back from JSON."""
        try:
            _ = self._adapter
        except (Exception, SystemExit) as error:
            said = message_of(error)
            raise PipelineInvalid(f"`{self.kind.__name__}` is not for JSON: {said}") from error
        if not dataclasses.is_dataclass(self.kind):
            return
        for field in dataclasses.fields(self.kind):
            if not field.init:
                raise PipelineInvalid(
                    f"`{self.kind.__name__}.{field.name}` has `init=False`, and does not come back "
                    "from JSON; give it a default instead"
                )


def states_of(fold: type[Any]) -> States:
    """By what `start` says that it returns; PipelineInvalid where that is no state."""
    one: Any = fold
    return _states_of(one)


# A few: classes that are loaded again for each key are not to be kept.
@lru_cache(maxsize=16)
def _states_of(fold: Any) -> States:
    try:
        found = typing.get_type_hints(fold.start).get("return")
    except (Exception, SystemExit) as error:
        raise PipelineInvalid(
            f"`start` has a return type that is unknown: {named(error)}"
        ) from error
    if not isinstance(found, type) or not _is_record(found):
        given = "nothing" if found is None else f"`{getattr(found, '__name__', found)}`"
        raise PipelineInvalid(
            f"`start` says that it returns {given}: say the type of the state, a dataclass or a "
            "model of pydantic, as in `def start(self) -> Visit:`"
        )
    return States(found)


def _is_record(kind: type[Any]) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel)


def _fields(record: Any) -> Sequence[str]:
    if isinstance(record, BaseModel):
        return tuple(type(record).model_fields)
    return tuple(record.__dataclass_fields__)


def _as_read(record: Any, name: str) -> Any:
    """A field's value; a list of a tuple's where the field says Sequence, as it comes back then."""
    value, kind = getattr(record, name), record.__class__
    return [*value] if type(value) is tuple and name in _sequences(kind) else value


@lru_cache(maxsize=16)
def _sequences(kind: Any) -> frozenset[str]:
    """Fields that say no more of their value than that it is a Sequence or a Collection."""
    try:
        hints = typing.get_type_hints(kind)
    except (AttributeError, NameError, TypeError):
        return frozenset()
    either = {Sequence, Collection}
    return frozenset(
        name
        for name, hint in hints.items()
        if either & {typing.get_origin(one) or one for one in (hint, *typing.get_args(hint))}
    )


def _same(one: Any, other: Any) -> bool:
    """Is a value what came back, for all that a class does with it? A list may have become the
    tuple that its field says; NaN is NaN."""
    if type(one) in _ALWAYS_PLAIN:
        return bool(one == other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        # What is empty is let through: `()` is the usual default of a Sequence, read as a list.
        kept = not one or isinstance(one, list) or isinstance(other, tuple)
        return kept and _all_same(one, other)
    if isinstance(one, deque) and isinstance(other, deque):
        return one.maxlen == other.maxlen and _all_same(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and _same_items(one, other)
    if isinstance(one, set | frozenset) and isinstance(other, set | frozenset):
        came = {member: member for member in other}
        return one == other and _all_same(one, [came[member] for member in one])
    if _is_record(type(one)) and type(one) is type(other):
        return all(_same(_as_read(one, name), getattr(other, name)) for name in _fields(one))
    if isinstance(one, Enum) and type(one) is not type(other):
        return False
    if isinstance(one, datetime | time) and isinstance(other, datetime | time):
        return one == other and _same_zone(one.tzinfo, other.tzinfo)
    return bool(one == other or (one != one and other != other))


def _all_same(one: Collection[Any], other: Collection[Any]) -> bool:
    return len(one) == len(other) and all(map(_same, one, other))


def _same_items(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Of two dicts with equal keys."""
    if isinstance(one, defaultdict) and isinstance(other, defaultdict):
        # pydantic makes a factory by the type of the values, whatever the class's own gives.
        made = [given.default_factory and given.default_factory() for given in (one, other)]
        if not _same(*made):
            return False
    came = {key: key for key in other}
    return all(_same(key, came[key]) and _same(one[key], other[key]) for key in one)


def _same_zone(one: tzinfo | None, other: tzinfo | None) -> bool:
    """JSON holds an offset: it is all there is to a zone without changes of the clock."""
    return one == other or (one is not None and one.utcoffset(None) is not None)


def _said(name: str, before: Any, after: Any) -> str:
    came = "is not there" if after is _LACKING else f"comes back as {after!r}"
    said = f"`{name}` {came}, and was {before!r}"
    if isinstance(before, float) and not math.isfinite(before):
        said += "; a model keeps it with model_config = ConfigDict(ser_json_inf_nan='constants')"
    return said
