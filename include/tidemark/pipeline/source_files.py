"""Which files a pipeline reads: `FOLDER/NAME-PATTERN` or `FOLDER/**/NAME-PATTERN`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from tidemark.pipeline.names import PIPELINE_NAMES_IN_USE, find_control_character

# Ends of names that say how a file is packed.
PACKED = (".gz", ".bz2", ".deflate", ".zst", ".lz4")
_GLOB = re.compile(r"[*?\[\]{}]")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True)
class SourceFiles:
    """A pattern taken apart: files named `name` in `folder`, and below it when `recursive`.

    `folder` may hold patterns for whole folders (`landing/*/2024`), as Spark's paths may.
    """

    folder: str
    recursive: bool
    name: str


def split_files(pattern: str) -> SourceFiles:
    """Take a `source.files` apart; ValueError when it leaves the root or is not such a pattern."""
    folder, _, name = pattern.rpartition("/")
    recursive = folder.endswith("/**") or folder == "**"
    folder = folder.removesuffix("**").removesuffix("/") if recursive else folder
    check_place(pattern)
    for part in pattern.split("/"):
        _check_brackets(part)
    _check_stars(folder, name)
    _check_folder(pattern, folder)
    return SourceFiles(folder, recursive, name)


def plain_name(place: str) -> str:
    """The file's name without the ends that say how it is packed."""
    name = place.rpartition("/")[2]
    while name.lower().endswith(PACKED):
        name = name.rpartition(".")[0]
    return name or "lines"


def is_uri(place: str) -> bool:
    """Does `place` begin with a scheme, as in `s3://bucket/folder` or `file:/folder`?"""
    return bool(_SCHEME.match(place))


def has_pattern(text: str) -> bool:
    """Does `text` hold a character that globs know?"""
    return bool(_GLOB.search(text))


def check_no_login(uri: str) -> None:
    """ValueError, which does not tell it, for the URI of a store with a user or password in it.

    Places are shown everywhere. Azure's have a container before `@`; none has a port.
    """
    scheme, _, rest = uri.partition("://")
    authority = unquote(rest.partition("/")[0])
    if ":" in authority or ("@" in authority and not scheme.lower().startswith("abfs")):
        raise ValueError(
            "has a user, password or port in it; write SCHEME://BUCKET/FOLDER, and give keys in "
            "TIDEMARK_STORAGE_OPTIONS"
        )


def own_place(pattern: str, pipeline: str) -> str | None:
    """The folder below the root that the platform writes, where a pattern lies in one.

    Names are compared without their case, as some file systems do. What URIs reach depends on the
    root: `sources.files.handle` tells that when a run begins.
    """
    first = pattern.split("/")[0].lower()
    written = not is_uri(pattern) and first in (pipeline.lower(), *PIPELINE_NAMES_IN_USE)
    return first if written else None


def check_place(pattern: str) -> None:
    """ValueError for what names no place, or one that its own names lead out of."""
    if not pattern.strip() or pattern != pattern.strip() or "\\" in pattern:
        raise ValueError("is not a path; write it with `/`, as in `landing/clicks/*.json*`")
    if found := find_control_character(pattern):
        raise ValueError(f"is not a path; it has the character {found!r}")
    parts = pattern.split("/")
    for part in parts:
        for dots in {".", ".."} & {*part.split(":"), unquote(part)}:
            raise ValueError(
                f"has `{dots}`; a pipeline's files stay below the root, or are absolute URIs"
            )
    if is_uri(pattern):
        check_no_login(pattern)
        if re.search("%(2f|5c)", pattern, re.IGNORECASE):
            raise ValueError("has a percent-encoded slash, which readers take apart differently")
    if pattern.startswith(("/", "~")):
        raise ValueError(
            "is an absolute path; give a path below the root, or an absolute URI (file:///…)"
        )
    if not is_uri(pattern) and not all(parts[:-1]):
        raise ValueError("has an empty name between two `/`")


def _check_brackets(part: str) -> None:
    """Each name is a pattern by itself.

    Hadoop (class GlobExpander) takes a brace with a `/` in it apart before it looks at names, so
    that `.{./x,a}` would become `../x`. It does not see that such a brace stands in a set.
    """
    depth = lowest = 0
    for character in part:
        depth += {"{": 1, "}": -1}.get(character, 0)
        lowest = min(depth, lowest)
    in_no_set = re.sub(r"\[[^]]+\]", "", part)
    if depth or lowest or "[" in in_no_set or "]" in in_no_set:
        raise ValueError(
            "has a bracket that its name does not close; `{a,b}` and `[ab]` stand within one name, "
            "without `/`"
        )


def _check_stars(folder: str, name: str) -> None:
    if not name:
        raise ValueError("names a folder; end it with a name pattern, as in `FOLDER/*.json*`")
    if "**" in folder or "**" in name:
        raise ValueError("has `**` elsewhere than as the last folder: FOLDER/**/NAME-PATTERN")


def _check_folder(pattern: str, folder: str) -> None:
    """The first folder is named: with a pattern there, a pipeline could read its own tables."""
    below = re.sub(r"^[^:]+:/*[^/]*/?", "", folder) if is_uri(pattern) else folder
    if not below or has_pattern(below.split("/")[0]):
        raise ValueError("must begin with the name of a folder, as in `landing/clicks/*.json*`")
