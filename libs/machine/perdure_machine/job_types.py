"""Job types: workflows of one node under names of their own, so that a job is a run like any other.

The document is all that is stored of a type: it is written here from what a type says, and read
back into that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.expressions.values import Json
from perdure_machine.payload import cut, object_bytes

PREFIX = "job:"
"""Begins the names of the workflows that are job types."""

NAME = r"[a-z][a-z0-9_.-]{0,127}"
"""What a job type may be called."""

NODE = "job"
"""The one node of such a workflow."""

_OUTPUT = f"${{nodes.{NODE}.output}}"
_NODE_PATH = f"nodes.{NODE}"

_FIELDS: Mapping[str, str] = {
    f"{_NODE_PATH}.task.handler": "handler",
    f"{_NODE_PATH}.task": "handler",
    "input": "payload_schema",
}
"""Places of a document, and what a type calls them; the others are called the same."""


@dataclass(frozen=True, slots=True)
class JobRetry:
    """A retry rule; what is None is the lane's. `base` and `cap` in seconds."""

    on: tuple[str, ...] = ()
    max: int | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """What the jobs of a type do.

    Either `handler` or `http`, the body of such a node as JSON. `payload_schema` is JSON, empty for
    none. `timeout` in seconds, of one try. What is empty or None is left out.
    """

    name: str
    handler: str = ""
    http: bytes = b""
    lane: str = ""
    connection: str = ""
    payload_schema: bytes = b""
    retry: tuple[JobRetry, ...] = ()
    timeout: float | None = None
    subject: str = ""
    purpose: str = ""


def is_job(workflow: str) -> bool:
    """Tell whether the runs of a workflow are jobs."""
    return workflow.startswith(PREFIX)


def workflow_of(name: str) -> str:
    """Return the workflow that is the job type of this name."""
    return f"{PREFIX}{name}"


def type_of(workflow: str) -> str:
    """Return the job type that a workflow is, by its name."""
    return workflow.removeprefix(PREFIX)


def to_document(job_type: JobType) -> bytes:
    """Write a type as the workflow that it is; its own JSON stays byte for byte."""
    members = {"name": _json(workflow_of(job_type.name))}
    if job_type.payload_schema:
        members["input"] = job_type.payload_schema
    if job_type.subject:
        members["subject"] = _json(job_type.subject)
    members["nodes"] = object_bytes({NODE: _node(job_type)})
    members["output"] = _json(_OUTPUT)
    return object_bytes(members)


def from_document(document: bytes) -> JobType:
    """Read a type back from what `to_document` wrote."""
    node = cut(document, ("nodes", NODE)) or b"{}"
    said: dict[str, Json] = json.loads(node)
    task, retry, timeout = said.get("task"), said.get("retry"), said.get("timeout")
    name: str = json.loads(cut(document, ("name",)) or b'""')
    return JobType(
        name=type_of(name),
        handler=_text(task.get("handler")) if isinstance(task, dict) else "",
        http=cut(node, ("http",)) or b"",
        lane=_text(said.get("lane")),
        connection=_text(said.get("connection")),
        payload_schema=cut(document, ("input",)) or b"",
        retry=tuple(_rule(one) for one in retry) if isinstance(retry, list) else (),
        timeout=_seconds(timeout),
        subject=_text(json.loads(cut(document, ("subject",)) or b'""')),
        purpose=_text(said.get("purpose")),
    )


def field_of(path: str) -> str:
    """Return what a type calls a place of its document: `retry[0].max` of its node's."""
    for place, field in _FIELDS.items():
        if path == place or path.startswith((f"{place}.", f"{place}[")):
            return field + path.removeprefix(place)
    return path.removeprefix(f"{_NODE_PATH}.")


def _node(job_type: JobType) -> bytes:
    members: dict[str, bytes] = {}
    if job_type.http:
        members["http"] = job_type.http
    else:
        members["task"] = _json({"handler": job_type.handler})
    for name in ("lane", "connection", "purpose"):
        if value := getattr(job_type, name):
            members[name] = _json(value)
    if job_type.retry:
        members["retry"] = _json([_written(rule) for rule in job_type.retry])
    if job_type.timeout is not None:
        members["timeout"] = _json(_number(job_type.timeout))
    return object_bytes(members)


def _written(rule: JobRetry) -> dict[str, Json]:
    members: dict[str, Json] = {"on": list(rule.on)} if rule.on else {}
    if rule.max is not None:
        members["max"] = rule.max
    for name in ("base", "factor", "cap"):
        value = getattr(rule, name)
        if value is not None:
            members[name] = _number(value)
    return members


def _rule(rule: Json) -> JobRetry:
    members = rule if isinstance(rule, dict) else {}
    on, most = members.get("on"), members.get("max")
    return JobRetry(
        on=tuple(map(str, on)) if isinstance(on, list) else (),
        max=most if isinstance(most, int) else None,
        base=_seconds(members.get("base")),
        factor=_seconds(members.get("factor")),
        cap=_seconds(members.get("cap")),
    )


def _number(value: float) -> int | float:
    """Return a number in the form in which it is always written: whole ones without a fraction."""
    return int(value) if value == int(value) else value


def _seconds(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
