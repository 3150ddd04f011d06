"""The published JSON Schema of definitions, and the one way schemas are compiled here.

No schema ever fetches another document: the library would read files and the network by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NoReturn

import jsonschema_rs

from perdure_machine.definition.problems import Problems
from perdure_machine.expressions.durations import FORM
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path


class ReferenceRefused(ValueError):
    """A schema refers to a document of its own accord."""


def compile_schema(schema: dict[str, Json] | bool) -> jsonschema_rs.Draft202012Validator:
    """Return a validator that fetches nothing and whose patterns cannot run away.

    Raises ValueError when `schema` is no JSON Schema.
    """
    return jsonschema_rs.Draft202012Validator(
        schema, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions()
    )


@cache
def schema_text() -> str:
    """Return the text of the published schema."""
    return resources.files(__package__).joinpath("schema.json").read_text("utf-8")


def check_schema(document: Json, problems: Problems) -> None:
    """Note everything in which `document` differs from the published schema."""
    for path, reason in violations(_definition_schema(), document):
        problems.add(path, reason)


def violations(
    validator: jsonschema_rs.Draft202012Validator, value: Json
) -> Iterator[tuple[Path, str]]:
    """Yield place and reason of each violation; of alternatives the one that fits best is told."""
    for error in validator.iter_errors(value):
        yield from _told(error)


def _told(error: jsonschema_rs.ValidationError) -> Iterator[tuple[Path, str]]:
    path: Path = tuple(error.instance_path)
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
            for name in names:
                yield (*path, name), "nothing of this name belongs here"
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            yield (*path, str(name)), "it is required"
        case jsonschema_rs.ValidationErrorKind.PropertyNames(error=inner):
            yield path, f"a name is not allowed: {inner.message}"
        case (
            jsonschema_rs.ValidationErrorKind.AnyOf(context=branches)
            | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=branches)
        ):
            yield from _closest(error, branches)
        case jsonschema_rs.ValidationErrorKind.Pattern(pattern=pattern) if pattern == FORM:
            yield path, f"'{error.instance}' is no duration; write 500ms, 10s, 5m, 2h or 3d"
        case _:
            yield path, error.message


def _closest(
    error: jsonschema_rs.ValidationError, branches: list[list[jsonschema_rs.ValidationError]]
) -> Iterator[tuple[Path, str]]:
    """Tell what is wrong with the alternative whose type the value has; else that none fits."""
    for branch in branches:
        if not any(_is_type_error(inner, error.instance_path) for inner in branch):
            for inner in branch:
                yield from _told(inner)
            return
    yield tuple(error.instance_path), error.message


def _is_type_error(error: jsonschema_rs.ValidationError, place: list[str | int]) -> bool:
    return error.instance_path == place and error.kind.name in ("type", "enum")


@cache
def _definition_schema() -> jsonschema_rs.Draft202012Validator:
    return compile_schema(json.loads(schema_text()))


def _refuse(uri: str) -> NoReturn:
    raise ReferenceRefused(f"references to other documents are not followed: {uri}")
