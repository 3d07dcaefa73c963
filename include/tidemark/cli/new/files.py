"""`--from FILES`: lines of files."""

from __future__ import annotations

from tidemark.cli.new.found import SourceSample
from tidemark.cli.new.places import find_files
from tidemark.cli.new.sample import read_sample
from tidemark.pipeline.settings.settings import Settings


def sampled_files(given: str, settings: Settings, pipeline: str) -> SourceSample:
    """The files that a path, a pattern or a URI names, with their first lines."""
    places = find_files(given, settings, pipeline)
    return SourceSample({"files": places.source}, read_sample(places.read, settings))
