"""Which files below a folder the engine's file source takes, told by their names alone.

The engine finds paths by Hadoop's patterns (classes Globber, GlobPattern), lists what is below
folders that match, and passes over hidden names (class HadoopFSUtils, shouldFilterOutPathName).
Of a folder that matches the *name* pattern it takes the files, and those further down only where a
folder there is called `key=value` (class PartitioningAwareFileIndex, `allFiles`), whose rules for
that are many: where there is one, all further down is taken here, too much rather than too little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from tidemark.pipeline.source_files import SourceFiles, has_pattern

# A set, or one character.
_TOKEN = re.compile(r"\[[^]]*\]|.", re.DOTALL)
_REGEX = {"*": ".*", "?": ".", "{": "(?:", "}": ")", ",": "|"}
_NEVER_HIDDEN = ("_metadata", "_common_metadata")


@dataclass(frozen=True)
class FilePattern:
    """A source's pattern below `folder`, the deepest one that is named without a pattern.

    `folders` are patterns for the folders below it. `name` is the pattern of a file: right below
    those, or at any depth when `recursive`.
    """

    folder: str
    folders: tuple[re.Pattern[str], ...]
    name: re.Pattern[str]
    recursive: bool

    def enters(self, parts: Sequence[str]) -> bool:
        """May files below this folder be taken? `parts` are its names below `folder`."""
        depth = len(self.folders)
        if not _match(self.folders, parts):
            return False
        if self.recursive:
            return not any(map(is_hidden, parts[depth:]))
        below_name = len(parts) > depth
        return not below_name or (
            self.name.fullmatch(parts[depth]) is not None
            and not any(map(is_hidden, parts[depth + 1 :]))
        )

    def takes(self, parts: Sequence[str]) -> bool:
        """Is this file taken? `parts` are its names below `folder`."""
        depth = len(self.folders)
        if is_hidden(parts[-1]) or not self.enters(parts[:-1]):
            return False
        if self.recursive:
            return (
                len(parts) >= depth
                and _match(self.folders, parts)
                and self.name.fullmatch(parts[-1]) is not None
            )
        return len(parts) > depth + 1 or (
            len(parts) == depth + 1 and self.name.fullmatch(parts[depth]) is not None
        )

    def is_further_down(self, parts: Sequence[str]) -> bool:
        """Is a file that may be taken below the folders whose files are always taken?"""
        return not self.recursive and len(parts) > len(self.folders) + 2

    def names_a_partition(self, parts: Sequence[str]) -> bool:
        """Has a file's folder a name by which the engine takes what is further down?"""
        return any("=" in name for name in parts[len(self.folders) + 1 : -1])


def file_pattern(source: SourceFiles) -> FilePattern:
    """The pattern of a source whose folder is a place. ValueError where it is none of Hadoop's."""
    fixed = fixed_folder(source.folder)
    below = source.folder.removeprefix(fixed).split("/")
    folders = tuple(_compiled(part) for part in below if part)
    return FilePattern(fixed, folders, _compiled(source.name), source.recursive)


def fixed_folder(folder: str) -> str:
    """The folder above the first one that is a pattern."""
    return "/".join(takewhile(lambda part: not has_pattern(part), folder.split("/")))


def is_hidden(name: str) -> bool:
    """Does the engine pass over a file or folder of this name?"""
    hidden = name.startswith(".") or name.endswith("._COPYING_")
    hidden = hidden or (name.startswith("_") and "=" not in name)
    return hidden and not name.startswith(_NEVER_HIDDEN)


def _match(patterns: Sequence[re.Pattern[str]], parts: Sequence[str]) -> bool:
    """Does each name fit its pattern, as far as there are both?"""
    return all(
        pattern.fullmatch(part) is not None for pattern, part in zip(patterns, parts, strict=False)
    )


def _compiled(glob: str) -> re.Pattern[str]:
    regex, groups = "", 0
    for token in _TOKEN.findall(glob):
        groups += {"{": 1, "}": -1}.get(token, 0)
        if len(token) > 1:
            excludes = token[1] in "!^"
            members = re.escape(token[1 + excludes : -1]).replace(r"\-", "-")
            regex += f"[{'^' * excludes}{members}]"
        elif token == "," and not groups:
            regex += token
        else:
            regex += _REGEX.get(token, re.escape(token))
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise ValueError(f"`{glob}` is no pattern that Hadoop reads: {error}") from error
