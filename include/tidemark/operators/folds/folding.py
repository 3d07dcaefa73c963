"""A fold itself: a key's rows in, episodes and their outputs out. No Spark and no table in it.

The life of an episode:
1. a row that lies more than the timeout after the last one begins it: `start`;
2. each row, in the order of event time, then `order_by`, then all columns, goes to `step`;
3. a row that lies more than the timeout later, or the frontier that has passed the last one by
   that, ends it: `on_timeout`.
Where the class raises, the episode's outputs are taken back, and its one output is the verdict: its
further rows belong to it and are not folded.

Rows of one event time are folded together, and what they put out counts all of them, so that an
output's `rows` is the number of the episode's rows up to its time. By that it is held against
bronze (`folds.py`).

Between two rows the state is what its JSON says, always: so it does not matter in which batches the
rows come, and what the JSON does not hold is gone everywhere alike.
"""

from __future__ import annotations

import dataclasses
import io
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from pydantic import BaseModel

from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.loaded import load_again, load_fold
from tidemark.operators.folds.said import message_of, named, said
from tidemark.operators.folds.states import States, states_of
from tidemark.operators.folds.values import Unfit, converter, copied, ordered
from tidemark.pipeline.fold_code import split_python
from tidemark.pipeline.instants import instant_of

# An output's number where it is the verdict on its episode.
VERDICT = 0
# What a verdict says of a class that comes to something else when it is asked again.
NOT_DETERMINISTIC = "is not deterministic"
_BY_ITSELF = (
    "by a clock, by chance, by what an instance, a class or a module keeps beside the state?"
)

# What says nothing of rows: a worker that lacks a module, or memory. The task fails, as another one
# may succeed, and a verdict would stand for good.
OF_THE_ENVIRONMENT = (ImportError, MemoryError, KeyboardInterrupt, PipelineInvalid)


@dataclass(frozen=True)
class FoldSpec:
    """All that a task needs to fold. `columns` are those of a row, those that it is ordered by
    first; `emits` are an output's, with their types. Times are microseconds since 1970, UTC."""

    python: str
    code: Mapping[str, str]
    timeout: int
    columns: tuple[str, ...]
    emits: Mapping[str, str]
    # The class itself, where it is at hand, and what makes it anew, where that can be.
    given: type[Any] | None = None
    again: Callable[[], type[Any]] | None = None


@dataclass(frozen=True)
class HeldRow:
    """A row of bronze: its event time, and its values by column."""

    time: int
    values: tuple[Any, ...]

    @property
    def place(self) -> Any:
        return self.time, *map(ordered, self.values)


@dataclass(frozen=True)
class Episode:
    """Where an episode stands between two rows. `state` is JSON; None where the class failed.
    `read` is the same, read; None: not yet."""

    start: int
    last: int
    rows: int
    number: int
    state: str | None
    read: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Output:
    """A row of gold: of the episode that starts at `start`, its `number`, determined at `end`.
    With a failure it is the verdict, and has no values; `error` is what the class raised."""

    start: int
    number: int
    end: int
    values: tuple[Any, ...]
    rows: int
    failure: str | None = None
    error: BaseException | None = field(default=None, compare=False, repr=False)


class Failed(Exception):
    """The class, or what it gave, failed; the message says where."""


@dataclass(frozen=True)
class Folding:
    """One task's folding. `anew`: by a class of modules of its own, each call to a new instance."""

    spec: FoldSpec
    anew: bool = False

    def fold(
        self, episode: Episode | None, rows: Iterable[HeldRow], up_to: int | None
    ) -> tuple[Episode | None, list[Output]]:
        """Fold rows of one key that come after those of the episode, all of them up to the
        frontier `up_to` (None: whatever comes, is later). The episode that is left is open."""
        outputs: list[Output] = []
        in_order = sorted(rows, key=lambda row: row.place)
        for time, together in groupby(in_order, key=lambda row: row.time):
            if episode is not None and time > episode.last + self.spec.timeout:
                outputs += self._ended(episode, outputs)
                episode = None
            episode = self._folded(episode, time, list(together), outputs)
        if episode is not None and (up_to is None or episode.last + self.spec.timeout <= up_to):
            outputs += self._ended(episode, outputs)
            episode = None
        return episode, outputs

    @cached_property
    def _class(self) -> type[Any]:
        spec = self.spec
        if self.anew and spec.again:
            return spec.again()
        if spec.given:
            return spec.given
        if self.anew:
            return load_again(*split_python(spec.python), spec.code)
        return load_fold(spec.python, spec.code)

    @cached_property
    def _one(self) -> Any:
        return self._class()

    @property
    def _instance(self) -> Any:
        return self._class() if self.anew else self._one

    @cached_property
    def _states(self) -> States:
        return states_of(self._class)

    @cached_property
    def _converters(self) -> Mapping[str, Any]:
        return {name: converter(kind) for name, kind in self.spec.emits.items()}

    def _folded(
        self, episode: Episode | None, time: int, rows: Sequence[HeldRow], outputs: list[Output]
    ) -> Episode:
        if episode is None:
            now = Episode(time, time, len(rows), 0, "")
            try:
                now = self._with_state(now, 0, self._called("start"))
            except Failed as failure:
                return self._fails(now, time, failure, "at the start", outputs)
        else:
            count = episode.rows + len(rows)
            now = Episode(episode.start, time, count, episode.number, episode.state, episode.read)
        for place, row in enumerate(rows, start=now.rows - len(rows) + 1):
            if now.state is None:
                return now
            try:
                now = self._stepped(now, row, outputs)
            except Failed as failure:
                shown = said(repr(self._row(row)))
                where = f"on row {place} of the episode, {_instant(time)}: {shown}"
                return self._fails(now, time, failure, where, outputs)
        return now

    def _stepped(self, episode: Episode, row: HeldRow, outputs: list[Output]) -> Episode:
        state = self._state(episode)
        given = self._called("step", state, self._row(row))
        new = _numbered(episode, given, row.time)
        stepped = self._with_state(episode, episode.number + len(new), state)
        outputs += new
        return stepped

    def _ended(self, episode: Episode, outputs: list[Output]) -> list[Output]:
        if episode.state is None:
            return []
        end = episode.last + self.spec.timeout
        try:
            given = self._called("on_timeout", self._state(episode))
            return _numbered(episode, given, end)
        except Failed as failure:
            self._fails(episode, end, failure, "at the timeout", outputs)
            return []

    def _fails(
        self, episode: Episode, end: int, failure: Failed, where: str, outputs: list[Output]
    ) -> Episode:
        outputs[:] = [one for one in outputs if one.start != episode.start]
        nothing = (None,) * len(self.spec.emits)
        verdict = f"{failure}, {where}".encode("utf-8", "backslashreplace").decode()
        error = failure.__cause__ or failure
        outputs.append(Output(episode.start, VERDICT, end, nothing, episode.rows, verdict, error))
        return replace(episode, state=None, read=None)

    def _row(self, row: HeldRow) -> dict[str, Any]:
        """The row for a call, which may change it: the values are folded again (`folded_twice`)."""
        return {
            name: copied(value) if type(value) in (list, dict) else value
            for name, value in zip(self.spec.columns, row.values, strict=True)
        }

    def _called(self, method: str, *arguments: Any) -> Any:
        """The state of `start`, the outputs' values of other methods."""
        # Outside of the `try`: where the class cannot be made, the rows are not to blame.
        instance = self._instance
        try:
            given = getattr(instance, method)(*arguments)
            return given if method == "start" else self._taken(method, given)
        except (Failed, *OF_THE_ENVIRONMENT):
            raise
        # SystemExit among them: a worker that ends takes the run along.
        except BaseException as error:
            raise Failed(self._said(error, method)) from error

    def _taken(self, method: str, given: Any) -> list[tuple[Any, ...]]:
        """The outputs' values, of a generator each as it is when it is yielded: what it holds may
        be changed behind that."""
        if given is None:
            return []
        # A model of pydantic is a mapping of no kind, and can be iterated.
        is_one = _as_mapping(given) is not None or isinstance(given, str | bytes)
        if is_one or not isinstance(given, Iterable):
            kind = type(given).__name__
            raise TypeError(f"{method} returns a {kind}; it yields outputs, or returns a list")
        return [self._values(one) for one in given]

    def _said(self, error: BaseException, method: str) -> str:
        """The error, and the last line of the fold's own code that it passed."""
        named_error = named(error)
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename in self.spec.code and frame.lineno:
                # `splitlines` would also end a line at a form feed.
                lines = io.StringIO(self.spec.code[frame.filename], newline=None).readlines()
                line = said(lines[frame.lineno - 1])
                return f"{named_error}, {frame.filename}:{frame.lineno}: `{line}`"
        return f"{named_error}, in `{method}` of {self.spec.python}"

    def _state(self, episode: Episode) -> Any:
        if episode.read is not None:
            return episode.read
        return self._states.read(episode.state or "")

    def _with_state(self, episode: Episode, number: int, state: Any) -> Episode:
        states = self._states
        kind = states.kind
        if not isinstance(state, kind):
            raise Failed(
                f"start returns a {type(state).__name__}, and says that it returns a "
                f"{kind.__name__}, in {self.spec.python}"
            )
        try:
            written, read = states.through_json(state)
        except OF_THE_ENVIRONMENT:
            raise
        except BaseException as error:
            raise Failed(
                f"the state does not come back from JSON as a {kind.__name__}: "
                f"{message_of(error)}, in {self.spec.python}"
            ) from error
        # Built anew, as `replace` costs more than all else of a step.
        return Episode(episode.start, episode.last, episode.rows, number, written, read)

    def _values(self, given: Any) -> tuple[Any, ...]:
        """An output's values in the order of the emitted columns; one that it lacks is null."""
        values = _as_mapping(given)
        if values is None:
            raise Failed(
                f"an output is a {type(given).__name__}, and neither a mapping, a dataclass nor a "
                f"model of pydantic, in {self.spec.python}"
            )
        if unknown := [name for name in values if name not in self._converters]:
            raise Failed(
                f"an output has `{unknown[0]}`, which `emits` does not, in {self.spec.python}"
            )
        try:
            return tuple(convert(values.get(name)) for name, convert in self._converters.items())
        except Unfit as error:
            raise Failed(
                f"an output does not fit `emits`: {message_of(error)}, in {self.spec.python}"
            ) from error


def folded_rows(spec: FoldSpec, rows: Sequence[HeldRow], up_to: int | None) -> list[Output]:
    """All outputs of a key's rows, no later than the frontier: what the stream comes to when it has
    read them, whatever the batches."""
    return Folding(spec).fold(None, _within(rows, up_to), up_to)[1]


def folded_twice(spec: FoldSpec, rows: Sequence[HeldRow], up_to: int | None) -> list[Output]:
    """All outputs of a key's rows; an episode whose outputs differ where the class is asked
    again has a verdict instead: then nothing true can be said of it."""
    return keys_folded_twice(spec, [rows], up_to)[0]


def keys_folded_twice(
    spec: FoldSpec, keys: Sequence[Sequence[HeldRow]], up_to: int | None
) -> list[list[Output]]:
    """The outputs of several keys, each by `folded_twice`."""
    folding = Folding(spec)
    first = [folding.fold(None, _within(rows, up_to), up_to)[1] for rows in keys]
    second = keys_folded_anew(spec, keys, up_to)
    return [agreed(spec, *both, _BY_ITSELF) for both in zip(first, second, strict=True)]


def keys_folded_anew(
    spec: FoldSpec, keys: Sequence[Sequence[HeldRow]], up_to: int | None
) -> list[list[Output]]:
    """The outputs of several keys' rows, each folded by itself, the last one first: so what is kept
    elsewhere than in the state is missed, or is another."""
    second = [
        Folding(spec, anew=True).fold(None, _within(rows, up_to), up_to)[1]
        for rows in reversed(keys)
    ]
    return second[::-1]


def _within(rows: Sequence[HeldRow], up_to: int | None) -> list[HeldRow]:
    return [row for row in rows if up_to is None or row.time <= up_to]


def agreed(
    spec: FoldSpec, one: Sequence[Output], other: Sequence[Output], why: str
) -> list[Output]:
    """The outputs of the same rows, folded twice; where an episode's differ, its verdict, but where
    it has that already. `why` they may."""
    both = [{start: list(of) for start, of in groupby(found, key=lambda output: output.start)}
            for found in (one, other)]  # fmt: skip
    outputs: list[Output] = []
    for start in sorted({*both[0], *both[1]}):
        first, second = (found.get(start, []) for found in both)
        failed_before = any(NOT_DETERMINISTIC in (one.failure or "") for one in first)
        if failed_before or _shown(first) == _shown(second):
            outputs += first
            continue
        last = (first or second)[-1]
        failure = (
            f"{spec.python} {NOT_DETERMINISTIC}: the same rows were folded twice, and came to "
            f"different outputs ({why})"
        )
        nothing = (None,) * len(spec.emits)
        outputs.append(Output(start, VERDICT, last.end, nothing, last.rows, failure))
    return outputs


def _shown(outputs: Sequence[Output]) -> list[str]:
    """What tells outputs apart, NaN being NaN. Two verdicts at one place are the same, as an error
    may name what is made anew."""
    return [repr((one.number, one.end, one.values, one.rows)) for one in outputs]


def _numbered(episode: Episode, given: list[tuple[Any, ...]], end: int) -> list[Output]:
    return [
        Output(episode.start, number, end, values, episode.rows)
        for number, values in enumerate(given, start=episode.number + 1)
    ]


def _as_mapping(given: Any) -> Mapping[str, Any] | None:
    if isinstance(given, Mapping):
        return given
    if isinstance(given, BaseModel):
        return {name: getattr(given, name) for name in type(given).model_fields}
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    return None


def _instant(microseconds: int) -> str:
    at = instant_of(microseconds // 1_000)
    return at.replace(microsecond=microseconds % 1_000_000).isoformat().replace("+00:00", "Z")
