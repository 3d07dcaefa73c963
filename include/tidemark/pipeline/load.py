"""Load pipeline files: all problems of a file at once, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tidemark.errors import PipelineInvalid, PipelineNotFound, SettingsInvalid
from tidemark.pipeline.expressions.sql import in_full
from tidemark.pipeline.fold_rules import fold_code_of, with_fold_code
from tidemark.pipeline.join_rules import FindPartner, NoPartner, joins_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid, Problem, nearest
from tidemark.pipeline.rules import find_broken_rules
from tidemark.pipeline.structure import structural_problems
from tidemark.pipeline.yaml_file import Document, parse_document, read_document

if TYPE_CHECKING:
    from tidemark.pipeline.settings.settings import Settings

ENDINGS = (".yaml", ".yml")


def load_pipeline(path: Path) -> Pipeline:
    """The pipeline of one file, named by the file; PipelineFileInvalid lists what is wrong.

    So is whatever else its content brings about, for one file must not keep others from loading.
    """
    try:
        return _load(path)
    except PipelineFileInvalid:
        raise
    except Exception as error:
        message = f"could not be checked: {type(error).__name__}: {str(error)[:200]}"
        problem = Problem(str(path), None, None, "", None, message)
        raise PipelineFileInvalid(str(path), (problem,)) from error


def pipeline_from_content(content: Mapping[str, Any], path: Path) -> Pipeline:
    """The pipeline that a file of these values would be there, beside the files that are; told as
    one that was not written."""
    if path.suffix not in ENDINGS or not path.parent.is_dir():
        raise PipelineInvalid(f"{path} is no NAME{ENDINGS[0]} in a folder: it was not written.")
    return _beside(path, Document(f"{path}, which was not written", dict(content)))


def _load(path: Path) -> Pipeline:
    if reason := _why_no_file(path):
        raise PipelineFileInvalid(str(path), (Problem(str(path), None, None, "", None, reason),))
    return _beside(path, read_document(path))


def _beside(path: Path, document: Document) -> Pipeline:
    for twin in (path.with_suffix(ending) for ending in ENDINGS if ending != path.suffix):
        if twin.is_file():
            message = f"shares its name, and so its tables, with {twin.name}: rename one of them"
            document.problems.append(document.problem((), message))
    find = partial(_partner_in, path.parent)
    return _checked(document, path.stem, find, path.parent)


def pipeline_from_mapping(
    name: str,
    content: Mapping[str, Any],
    file: str = "(no file)",
    *,
    partners: Mapping[str, Pipeline] | None = None,
    folder: Path | None = None,
) -> Pipeline:
    """A pipeline from values as a file would hold them, checked in the same way. `partners` are the
    other pipelines of its joins; the code of its folds lies below the folder."""
    find = partial(_partner_among, partners or {})
    return _checked(Document(file, dict(content)), name, find, folder)


def pipeline_from_text(name: str, text: str, file: str) -> Pipeline:
    """The pipeline that a file of this name and text would be; `file` is for messages."""
    find = partial(_partner_among, {})
    return _checked(parse_document(text, Document(file)), name, find, Path(file).parent)


def load_pipelines(folder: Path) -> tuple[list[Pipeline], list[PipelineFileInvalid]]:
    """All pipelines of a folder, in the order of their names, and the files that are invalid.

    A file that is broken never keeps another from being loaded.
    """
    pipelines: list[Pipeline] = []
    invalid: list[PipelineFileInvalid] = []
    for path in pipeline_files(folder):
        try:
            pipelines.append(load_pipeline(path))
        except PipelineFileInvalid as error:
            invalid.append(error)
    return pipelines, invalid


def find_pipeline(name_or_path: str, settings: Settings) -> Pipeline:
    """A pipeline by its name, looked for in the settings' folder, or by its file's path."""
    return load_pipeline(find_pipeline_file(name_or_path, settings))


def find_pipeline_file(name_or_path: str, settings: Settings) -> Path:
    """The file of a pipeline, found in the same way. Raises PipelineNotFound."""
    given = Path(name_or_path)
    if _has_ending(given) or len(given.parts) > 1:
        if given.is_file():
            return given
        raise PipelineNotFound(f"There is no pipeline file `{given.absolute()}`.")
    files = {path.stem: path for path in pipeline_files(settings.pipelines_folder)}
    if path := files.get(name_or_path):
        return path
    raise PipelineNotFound(_not_found(name_or_path, sorted(files), settings.pipelines_folder))


def pipeline_files(folder: Path) -> list[Path]:
    """The pipeline files of a folder (not of folders below), by name. What is named like one and is
    none is among them, to be told as invalid: its pipeline is not to be gone without a word.
    SettingsInvalid where the folder may not be read."""
    try:
        found = [path for path in folder.iterdir() if _has_ending(path)] if folder.is_dir() else []
    except OSError as error:
        raise SettingsInvalid(
            f"The pipelines' folder {folder} cannot be read: {error.strerror}. No pipeline "
            "was read. Let this user read it, or name another one (`pipelines` in the settings)."
        ) from error
    return sorted(path for path in found if not path.name.startswith("."))


def unread_below(folder: Path) -> str:
    """In words, the first files named like a pipeline's in the folders below; empty without any."""
    found = (path for path in folder.glob("[!.]*/*") if _has_ending(path) and path.is_file())
    names = [path.relative_to(folder).as_posix() for path in sorted(found)[:3]]
    return f"; the folders below are not read, and have {', '.join(names)}" if names else ""


def _has_ending(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _why_no_file(path: Path) -> str | None:
    """Why what is named like a pipeline's file is not read; None where it is, or is not there."""
    if path.exists() and not path.is_file():
        what = "is a folder" if path.is_dir() else "is a device or a pipe"
        return f"{what}, and only a file can be a pipeline: give it another name, or remove it"
    if _has_ending(path) and path.suffix not in ENDINGS:
        name = path.with_suffix(path.suffix.lower()).name
        return f"ends in {path.suffix}, which no pipeline's file does: rename it to {name}"
    return None


def _checked(document: Document, name: str, find: FindPartner, folder: Path | None) -> Pipeline:
    if document.problems and not document.content:
        raise PipelineFileInvalid(document.file, tuple(document.problems))
    structural, usable = structural_problems(document, name)
    partners = {other: _found(other, find) for other in joins_of(usable).values() if other != name}
    code, missing = fold_code_of(document, usable, folder)
    broken = find_broken_rules(document, name, usable, partners)
    problems = [*document.problems, *structural, *broken, *missing]
    if problems:
        by_place = sorted(problems, key=lambda found: (found.line or 0, found.column or 0))
        raise PipelineFileInvalid(document.file, tuple(by_place))
    try:
        pipeline = Pipeline.model_validate({**document.content, "name": name})
        known = {
            other: one.as_partner() for other, one in partners.items() if isinstance(one, Pipeline)
        }
        # Whatever comes after it has measures over columns alone.
        tables = {
            table_name: table.model_copy(update={"measures": in_full(table.measures)})
            if table.measures
            else table
            for table_name, table in pipeline.tables.items()
        }
        found = pipeline.model_copy(update={"partners": known, "tables": tables})
        return with_fold_code(found, code)
    except ValidationError as error:  # pragma: no cover - structural_problems saw none
        raise AssertionError(f"{document.file} changed between two checks") from error


def _found(other: str, find: FindPartner) -> Pipeline | NoPartner:
    try:
        return find(other)
    except NoPartner as error:
        return error


def _partner_among(partners: Mapping[str, Pipeline], name: str) -> Pipeline:
    if name not in partners:
        raise NoPartner("is no pipeline that is known here", tuple(partners))
    return partners[name]


def _partner_in(folder: Path, name: str) -> Pipeline:
    """The pipeline of this name in a folder, without its tables: these may join in turn, and
    nothing here depends on them."""
    files = {path.stem: path for path in pipeline_files(folder)}
    if name not in files:
        raise NoPartner(f"is no pipeline: {folder} has no file of it", tuple(sorted(files)))
    try:
        document = read_document(files[name])
        if document.content:
            document.content["tables"] = {"none": {"window": {"length": "1 hour"}}}
        return _checked(document, name, partial(_partner_among, {}), folder)
    except PipelineFileInvalid as error:
        first, count = error.problems[0], len(error.problems)
        place = files[name].name + (f", line {first.line}" if first.line else "")
        said = f"{first.text.rstrip('.')}" + (f" (and {count - 1} more)" if count > 1 else "")
        raise NoPartner(f"is a pipeline whose own file is not good ({place}): {said}") from error


def _not_found(name: str, known: list[str], folder: Path) -> str:
    if not known:
        return f"There is no pipeline `{name}`: the folder {folder} holds no pipeline file."
    near = nearest(name, known)
    hint = f" Did you mean `{near}`?" if near else ""
    shown = ", ".join(known[:10]) + (f", … ({len(known)} in all)" if len(known) > 10 else "")
    return f"There is no pipeline `{name}` in {folder}.{hint} It holds: {shown}."
