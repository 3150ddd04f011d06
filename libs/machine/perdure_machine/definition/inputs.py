"""The run's input at the door: checked against the definition's schema, defaults added as bytes."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache

import jsonschema_rs
from perdure_runtime.errors import FieldViolation, InvalidArgument

from perdure_machine.definition.model import Definition
from perdure_machine.definition.problems import Problems, place
from perdure_machine.definition.schema import compile_schema, violations
from perdure_machine.expressions.values import Json
from perdure_machine.payload import (
    Path,
    cut,
    deeper_than,
    with_member,
    with_members_added,
    without_lone_surrogates,
)

MAX_DEPTH = 128
"""Deepest input that is given to the schema; the library cannot bear any depth."""

_ROOT = "input"
_MAX_DIGITS = 4_000
_KEPT_DIGITS = 40
_EMPTY = b"{}"


def check_input_schema(schema: Json, problems: Problems) -> None:
    """Note what is wrong with the definition's `input` as a schema."""
    if not isinstance(schema, dict | bool):
        return
    try:
        compile_schema(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        problems.add((_ROOT,), f"not a JSON Schema: {error}")
        return
    _check_defaults(schema, schema, (_ROOT,), problems)


def _check_defaults(schema: Json, root: Json, path: Path, problems: Problems) -> None:
    """Note defaults that would refuse every run that they are filled in for."""
    members = schema.get("properties") if isinstance(schema, dict) else None
    for name, member in members.items() if isinstance(members, dict) else ():
        where = (*path, "properties", name)
        if isinstance(member, dict) and "default" in member:
            for reason in _misfits(member, root):
                problems.add((*where, "default"), f"does not fit its own schema: {reason}")
        _check_defaults(member, root, where, problems)


def _misfits(member: dict[str, Json], root: Json) -> list[str]:
    """Return what is wrong with a member's default, as far as its schema can stand alone."""
    shared = {"$defs": root["$defs"]} if isinstance(root, dict) and "$defs" in root else {}
    try:
        validator = compile_schema({**member, **shared})
    except (ValueError, jsonschema_rs.ReferencingError):
        return []
    return [reason for _, reason in violations(validator, member["default"])]


def input_with_defaults(definition: Definition, payload: bytes) -> bytes:
    """Return the run's input with the defaults of its workflow's schema: see `with_defaults`."""
    if definition.input_schema is None:
        return payload
    return with_defaults(definition.input_schema, payload)


def with_defaults(input_schema: bytes, payload: bytes) -> bytes:
    """Return a payload with the schema's defaults where members are absent.

    `payload` is a checked payload; empty bytes are no input. Without a default to fill in, it comes
    back as it is (R12); else all other bytes stay. Raises `InvalidArgument` with one violation for
    each field that does not fit.
    """
    given = payload or _EMPTY
    if deeper_than(given, MAX_DEPTH):
        problem = f"is nested deeper than {MAX_DEPTH} levels"
        raise InvalidArgument(f"input {problem}", violations=[FieldViolation(_ROOT, problem)])
    schema: Json = json.loads(input_schema)
    filled = _filled(given, schema)
    _check(input_schema, filled)
    return filled


def _check(schema: bytes, payload: bytes) -> None:
    value: Json = json.loads(
        without_lone_surrogates(payload), parse_float=Decimal, parse_int=_integer
    )
    found = [
        FieldViolation(place((_ROOT, *path)), reason)
        for path, reason in violations(_validator(schema), value)
    ]
    if found:
        raise InvalidArgument(
            f"the input does not fit the workflow: {found[0].field}: {found[0].description}",
            violations=found,
        )


def _integer(text: str) -> int | Decimal:
    """Read an integer; of one too long for the library the first digits and the size will do."""
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return Decimal(f"{text[:_KEPT_DIGITS]}e{len(text) - _KEPT_DIGITS}")


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return compile_schema(json.loads(schema))


def _filled(data: bytes, schema: Json) -> bytes:
    """Return the value with its absent members filled in from the schema's `properties`."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not data.lstrip().startswith(b"{"):
        return data
    absent: list[tuple[str, bytes]] = []
    for name, member in properties.items():
        value = cut(data, (name,))
        if value is not None:
            inner = _filled(value, member)
            data = data if inner is value else with_member(data, name, inner)
        elif isinstance(member, dict) and "default" in member:
            absent.append((name, json.dumps(member["default"], separators=(",", ":")).encode()))
    return with_members_added(data, absent) if absent else data
