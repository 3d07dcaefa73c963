"""Changes of a table's query: what its state and its windows are made of.

Rules: the Structured Streaming guide, "Recovery semantics after changes in a streaming query",
and what the engine was seen to do (docs/changing-a-pipeline.md): it looks at the number and types
of the state's columns only, so that much of what the guide forbids passes in silence and is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import changes_of
from tidemark.pipeline.column_types import is_wider
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.expressions.sql import same_expression
from tidemark.pipeline.model import JoinTable, Lookup, Source
from tidemark.pipeline.settings.state import PROVIDER, store_name
from tidemark.runs.contract.contract import PARTITIONS, Contract, KeyColumn, MeasureColumn

_BY_POSITION = "The state holds {0} by their position, so that values would pass from one to other"
_IN_THE_FILE = {PARTITIONS: "advanced.shuffle_partitions", PROVIDER: "advanced.state.store"}
_OTHER_STATE = "The state and the table hold the {0} as they were"
_MODES = (
    "What the state still holds, which windows a batch emits and how the ledger counts them follow "
    "from the mode"
)
_WIDENED = (
    "Bronze is written again with the wider type, and no stream of Delta's goes on over such a "
    "commit: windows are computed anew, from the values that they had"
)
_OF_LOOKUPS = ("on", "as_of", "on_missing")
_STREAMS = (
    "A query with state has none of what one without it has read, and the other way round what was "
    "open stays in a state that nobody reads: the engine does not notice"
)


def aggregate_changes(recorded: Contract, asked: Contract) -> Iterator[Difference]:
    """What differs for a table's query."""
    query = asked.query
    old, new = recorded.pipeline.tables[query], asked.pipeline.tables[query]
    yield from changes_of(operator_of(recorded.pipeline, query), query, new)
    before, after = recorded.pipeline.lookups_of(query), asked.pipeline.lookups_of(query)
    yield from _of_lookups(query, before, after)
    yield from _widened(query, recorded.pipeline.source, asked.pipeline.source)
    yield from _keys(query, recorded.keys, asked.keys)
    # The recorded ones have types too.
    names = [[key.name for key in one.keys] for one in (recorded, asked)]
    if names[0] == names[1] and old.group_by != new.group_by:
        reason = "Gold has one name for both, and would hold a mixture"
        yield _refused(query, "group_by", _list(old.group_by), _list(new.group_by), reason)
    yield from _measures(query, recorded.measures, asked.measures, new.renamed_from)
    if old.output_mode != new.output_mode:
        yield _refused(query, "output_mode", old.output_mode, new.output_mode, _MODES)
    if old.stream != new.stream:
        yield _refused(query, "stream", old.stream, new.stream, _STREAMS)
    delays = recorded.pipeline.watermark.delay, asked.pipeline.watermark.delay
    if isinstance(old, JoinTable) and isinstance(new, JoinTable):
        yield from _of_join(query, recorded, asked, old, new)
    elif delays[0] != delays[1]:
        reason = "The watermark never goes back: a longer delay holds once events are that far on"
        texts = duration_text(delays[0]), duration_text(delays[1])
        yield Difference(query, "watermark.delay", *texts, ChangeVerdict.SAFE, reason)
    yield from _settings(query, recorded.settings, asked.settings)


def _of_lookups(
    query: str, old: Mapping[str, Lookup], new: Mapping[str, Lookup]
) -> Iterator[Difference]:
    """What differs of the lookups that a table names columns of, before and after."""
    for name in old.keys() ^ new.keys():
        said, says = ("none", "a lookup") if name in new else ("a lookup", "none")
        reason = "What has its name is another column then"
        yield _refused(query, f"lookup.{name}", said, says, reason)
    for name in (name for name in old if name in new):
        one, other = old[name], new[name]
        if one.place != other.place:
            reason = "What it says otherwise is computed again by the next run"
            texts = one.place, other.place
            yield Difference(query, f"lookup.{name}", *texts, ChangeVerdict.SAFE, reason)
        pairs = {what: (getattr(one, what), getattr(other, what)) for what in _OF_LOOKUPS}
        pairs |= {
            f"columns.{column}": (one.columns[column], other.columns[column])
            for column in one.columns
            if column in other.columns
        }
        for what, (before, after) in pairs.items():
            if before != after:
                texts = str(before or "none"), str(after or "none")
                reason = "The table holds the rows as they were looked up so far"
                yield _refused(query, f"lookup.{name}.{what}", *texts, reason)


def _widened(query: str, old: Source, new: Source) -> Iterator[Difference]:
    for name, before in old.columns.items():
        after = new.columns.get(name)
        if after is not None and is_wider(after.type, before.type):
            yield _refused(query, f"source.columns.{name}", before.type, after.type, _WIDENED)


def _of_join(
    query: str, recorded: Contract, asked: Contract, old: JoinTable, new: JoinTable
) -> Iterator[Difference]:
    """What a join takes from both pipelines; the engine notices none of it."""
    before = recorded.pipeline.partners[old.join.other]
    after = asked.pipeline.partners[new.join.other]
    other = new.join.other
    waits = "What waits for a match in the state follows from both delays"
    delays = {
        "watermark.delay": (recorded.pipeline.watermark.delay, asked.pipeline.watermark.delay),
        f"watermark.delay of {other}": (before.watermark.delay, after.watermark.delay),
    }
    for what, (one, two) in delays.items():
        if one != two:
            yield _refused(query, what, duration_text(one), duration_text(two), waits)
    times = before.source.event_time.column, after.source.event_time.column
    if times[0] != times[1]:
        what = f"source.event_time.column of {other}"
        yield _refused(query, what, *times, "Rows matched by their former times")


def _keys(query: str, old: Sequence[KeyColumn], new: Sequence[KeyColumn]) -> Iterator[Difference]:
    before, after = [key.name for key in old], [key.name for key in new]
    if before != after:
        swapped = sorted(before) == sorted(after)
        reason = _BY_POSITION if swapped else _OTHER_STATE
        yield _refused(query, "group_by", _list(before), _list(after), reason.format("keys"))


def _measures(
    query: str,
    old: Sequence[MeasureColumn],
    new: Sequence[MeasureColumn],
    renamed_from: Mapping[str, str],
) -> Iterator[Difference]:
    before, after = {one.name: one for one in old}, {one.name: one for one in new}
    if list(before) != list(after):
        swapped = sorted(before) == sorted(after)
        reason = (_BY_POSITION if swapped else _OTHER_STATE).format("measures")
        renamed = _renamed(before, after)
        if unsaid := {name: was for name, was in renamed.items() if name not in renamed_from}:
            listed = ", ".join(f"{name}: {was}" for name, was in unsaid.items())
            reason += (
                f". If that is a new name alone, say `renamed_from: {{{listed}}}` in the table: a "
                "migration then takes the values over, with what is written below the old name"
            )
        yield _refused(query, "measures", _list(list(before)), _list(list(after)), reason)
    for name in (name for name in before if name in after):
        texts = before[name].expression, after[name].expression
        if not same_expression(*texts):
            reason = "Windows would hold a mixture of both"
            yield _refused(query, f"measures.{name}", *texts, reason)


def _renamed(
    before: Mapping[str, MeasureColumn], after: Mapping[str, MeasureColumn]
) -> dict[str, str]:
    """New names of measures that say what one did that is gone."""
    gone = [one for name, one in before.items() if name not in after]
    found: dict[str, str] = {}
    for name in (name for name in after if name not in before):
        alike = [one for one in gone if same_expression(one.expression, after[name].expression)]
        if alike:
            found[name] = alike[0].name
            gone.remove(alike[0])
    return found


def _settings(query: str, old: dict[str, str], new: dict[str, str]) -> Iterator[Difference]:
    for name in old | new:
        before, after = _asked(name, old), _asked(name, new)
        if before != after:
            what = _IN_THE_FILE.get(name, name)
            reason = "A checkpoint keeps what its first batch ran with"
            if name == PARTITIONS:
                reason = "A checkpoint keeps its number; `tidemark state repartition` changes it"
            yield Difference(query, what, before, after, ChangeVerdict.NO_EFFECT, reason)


def _asked(name: str, settings: dict[str, str]) -> str:
    if name == PROVIDER:
        return store_name(settings.get(name))
    return settings.get(name, "the default")


def _refused(query: str, what: str, before: str, after: str, reason: str) -> Difference:
    return Difference(query, what, before, after, ChangeVerdict.NEW_GENERATION, reason)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
