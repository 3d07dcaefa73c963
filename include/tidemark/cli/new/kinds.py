"""Which kind of source `--from` names: by its prefix, which no path and no store's URI has."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.cli.new.places import find_files
from tidemark.cli.new.sample import SourceSample, read_sample
from tidemark.cli.new.tables import sampled_table
from tidemark.cli.new.topics import sampled_topic
from tidemark.errors import TidemarkError
from tidemark.pipeline.settings.settings import Settings

KINDS: dict[str, Callable[[str, Settings, str], SourceSample]] = {
    "kafka:": sampled_topic,
    "delta:": sampled_table,
}


def find_sample(given: str, settings: Settings, pipeline: str) -> SourceSample:
    """What `--from` names, looked at. SampleUnusable where it is nothing, and the errors of a
    source that cannot be asked; each says that nothing was written."""
    prefix = next((one for one in KINDS if given.startswith(one)), None)
    if prefix is None:
        places = find_files(given, settings, pipeline)
        return SourceSample({"files": places.source}, read_sample(places.read, settings))
    try:
        return KINDS[prefix](given.removeprefix(prefix), settings, pipeline)
    except TidemarkError as error:
        raise type(error)(f"--from {given}: {error} Nothing was written.") from error
