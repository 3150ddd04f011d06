"""Writes the reference page of the definition language from the published schema.

`python -m perdure_machine.definition.reference > docs/reference/definition.md`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from perdure_machine.definition import later
from perdure_machine.definition.schema import schema_text

HEAD = """# The definition language

Generated from the schema by `python -m perdure_machine.definition.reference`; do not edit.

A workflow is one document in YAML or JSON, of at most 1 MiB. Publish checks it against the
[JSON Schema](../../libs/machine/perdure_machine/definition/schema.json) and for meaning, and tells
every problem at once, each with its path. A published version never changes.

Of YAML's plain scalars only `true`, `false`, `null`, `~` and decimal numbers are more than text, so
`on`, `no` and `2024-01-01` are text. A key never stands twice, tags are not read, aliases work
within bounds.

A **template** is any value whose texts may hold `${expression}`: a text that is wholly `${...}` is
the value itself, of whatever type; one that contains it is text. `$${` is a literal `${`. What an
expression may say is in [expressions](expressions.md). A **condition** is a bare expression.
"""


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    place: str


_SECTIONS = (
    _Section("The document", ""),
    _Section("Every node", "node"),
    _Section("Kind `task`", "task"),
    _Section("Kind `http`", "http"),
    _Section("Effects of `http`", "http_effect"),
    _Section("Look-ups by `http`", "http_lookup"),
    _Section("Kind `grpc`", "grpc"),
    _Section("Effects of `grpc`", "grpc_effect"),
    _Section("Look-ups by `grpc`", "grpc_lookup"),
    _Section("Kind `wait`", "wait"),
    _Section("Kind `transform`", "transform"),
    _Section("Kind `switch`", "switch"),
    _Section("Cases of a switch", "case"),
    _Section("Kind `fail`", "fail"),
    _Section("Kind `finish`", "finish"),
    _Section("Kind `signal`", "signal"),
    _Section("Kind `emit`", "emit"),
    _Section("Kind `for_each`", "for_each"),
    _Section("Kind `repeat`", "repeat"),
    _Section("Kind `group`", "group"),
    _Section("Kind `run`", "run"),
    _Section("Kind `cancel_run`", "cancel_run"),
    _Section("Exclusive keys", "exclusive"),
    _Section("Joins", "join"),
    _Section("Failures that are handled", "handler"),
    _Section("Compensations", "compensate"),
    _Section("Retry rules", "retry_rule"),
)
_KINDS = (
    "task",
    "http",
    "grpc",
    "wait",
    "transform",
    "switch",
    "fail",
    "finish",
    "signal",
    "emit",
    "for_each",
    "repeat",
    "group",
    "run",
    "cancel_run",
)

Schema = Mapping[str, Any]


def page() -> str:
    """Return the whole page."""
    schema: Schema = json.loads(schema_text())
    parts = [HEAD, "## A whole definition\n", _fenced(schema["examples"][0])]
    for section in _SECTIONS:
        described = schema["$defs"][section.place] if section.place else schema
        parts += [f"## {section.title}\n", *_section(section.place, described, schema)]
    return "\n".join([*parts, "## Durations\n", _durations(schema), *_later()]) + "\n"


def _section(place: str, described: Schema, schema: Schema) -> Iterator[str]:
    yield described["description"] + "\n"
    if place in _KINDS:
        yield from (_fenced({place: example}) for example in described["examples"])
    properties = described.get("properties", {})
    kinds = _KINDS if place == "node" else ()
    rows = {name: member for name, member in properties.items() if name not in kinds}
    if not rows:
        return
    yield "| name | value | meaning | example |\n|---|---|---|---|"
    required = described.get("required", ())
    for name, member in rows.items():
        mark = ", required" if name in required else ""
        examples = "<br>".join(f"`{_flow(name, e)}`" for e in member.get("examples", ()))
        cells = [f"`{name}`", _value(member, schema) + mark, member["description"], examples]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _value(member: Schema, schema: Schema) -> str:
    """Say in a few words what a member may be."""
    if "$ref" in member:
        name = member["$ref"].rsplit("/", 1)[1]
        return _NAMES.get(name) or _value(schema["$defs"][name], schema)
    if "enum" in member:
        return " or ".join(f"`{value}`" for value in member["enum"])
    choices = member.get("oneOf") or member.get("anyOf")
    if choices:
        return " or ".join(_value(choice, schema) for choice in choices)
    types = member.get("type", "template")
    return _typed(member, types if isinstance(types, list) else [types], schema)


def _typed(member: Schema, types: list[str], schema: Schema) -> str:
    words = " or ".join(_TYPES[name] for name in types)
    if "items" in member:
        words = f"list of {_value(member['items'], schema)}"
    low, high = member.get("minimum"), member.get("maximum")
    if low is not None and high is not None:
        words += f", {low} to {high}"
    elif low is not None:
        words += f", at least {low}"
    return words


_TYPES = {
    "template": "template",
    "string": "text",
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "number": "number",
    "object": "object",
    "array": "list",
}
_NAMES = {
    "duration": "duration",
    "positive_duration": "duration",
    "retry_rule": "rule",
    "node": "node",
    "nodes": "nodes",
    "exclusive": "exclusive key",
    "join": "join",
    "case": "case",
    "handler": "handler",
    "http_effect": "effect",
    "http_lookup": "look-up",
    "grpc_effect": "effect",
    "grpc_lookup": "look-up",
    "deadline": "duration or expression",
}


def _durations(schema: Schema) -> str:
    return str(schema["$defs"]["duration"]["description"]) + "\n"


def _later() -> Iterator[str]:
    yield "## Not in this version yet\n"
    yield "These are refused by name.\n"
    names = {
        "of the document": sorted(later.DOCUMENT),
        "kinds of nodes": sorted(later.KINDS),
        "on nodes": sorted(_on_nodes()),
    }
    for where, listed in names.items():
        yield f"- {where}: " + ", ".join(f"`{name}`" for name in listed)


def _on_nodes() -> frozenset[str]:
    return (later.NODE | later.WAIT) - later.KINDS


def _fenced(value: Any) -> str:
    written = _yaml(value, flow=False)
    if written.startswith("{"):
        written = written.strip().removeprefix("{").removesuffix("}") + "\n"
    return f"```yaml\n{written}```\n"


def _flow(name: str, value: Any) -> str:
    return _yaml({name: value}, flow=True).strip().removeprefix("{").removesuffix("}")


def _yaml(value: Any, *, flow: bool) -> str:
    """Return YAML; the writer quotes the key `on` for readers of YAML 1.1, which ours is not."""
    style = True if flow else None
    written = yaml.safe_dump(value, sort_keys=False, width=10_000, default_flow_style=style)
    return written.replace("'on':", "on:")


if __name__ == "__main__":
    sys.stdout.write(page())
