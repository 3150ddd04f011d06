"""Which call an HTTP method and a path name, as the `google.api.http` options of the protos say.

A literal segment comes before a variable: `/v1/workflows/validate` is no workflow's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from google.api.annotations_pb2 import http  # type: ignore[import-untyped]
from google.api.http_pb2 import HttpRule  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FileDescriptor, MethodDescriptor

_SEGMENT = re.compile(r"\{(?P<field>\w+)(?P<rest>=\*\*)?\}|(?P<literal>[\w.-]+)")
_KINDS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a path: a literal, or a field that takes one part or, `rest`, all that follow."""

    literal: str = ""
    field: str = ""
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One way to a call; `body` is `*`, the field that the body is, or empty for no body."""

    verb: str
    path: str
    segments: tuple[Segment, ...]
    body: str
    method: str
    """As gRPC names it, `/perdure.v1.RunService/GetRun`."""
    request: Descriptor
    response: Descriptor
    streams: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """The fields that the path names."""
        return tuple(segment.field for segment in self.segments if segment.field)


class Routes:
    """The table of all routes; ValueError if two of them are the same or one cannot be read."""

    def __init__(self, files: Sequence[FileDescriptor]) -> None:
        routes = [
            route
            for file in files
            for service in file.services_by_name.values()
            for method in service.methods
            for route in routes_of(method)
        ]
        _refuse_twins(routes)
        self.all = tuple(sorted(routes, key=_rank))
        """Every route, such as have a literal before those with a variable in its place."""

    def find(self, verb: str, raw_path: str) -> tuple[Route, dict[str, bytes]] | frozenset[str]:
        """Return the route of a percent-encoded path with what its variables hold, decoded.

        Where there is none for the HTTP method, return the methods that the path has; may be none.
        """
        parts = [unquote_to_bytes(part) for part in raw_path.split("/")[1:]]
        others = set[str]()
        for route in self.all:
            values = _values(route.segments, parts)
            if values is None:
                continue
            if route.verb == verb:
                return route, dict(zip(route.variables, values, strict=True))
            others.add(route.verb)
        return frozenset(others)


def routes_of(method: MethodDescriptor) -> Iterator[Route]:
    """Yield the routes that a method's option names; none without the option."""
    options = method.GetOptions()
    if http not in options.Extensions:
        return
    rule = options.Extensions[http]
    for each in (rule, *rule.additional_bindings):
        yield _route(method, each)


def _route(method: MethodDescriptor, rule: HttpRule) -> Route:
    kind = rule.WhichOneof("pattern") or ""
    path = str(getattr(rule, kind, ""))
    if kind not in _KINDS or not path.startswith("/"):
        raise ValueError(f"{method.full_name}: no HTTP method that is served here")
    request = method.input_type
    segments = tuple(_segment(method, part) for part in path.split("/")[1:])
    fields = [segment.field for segment in segments if segment.field]
    if rule.body not in ("", "*"):
        fields.append(rule.body)
    for field in fields:
        if field not in request.fields_by_name:
            raise ValueError(f"{method.full_name}: {request.name} has no field {field}")
    return Route(
        verb=kind.upper(),
        path=path,
        segments=segments,
        body=rule.body,
        method=f"/{method.containing_service.full_name}/{method.name}",
        request=request,
        response=method.output_type,
        streams=method.server_streaming,
    )


def _segment(method: MethodDescriptor, part: str) -> Segment:
    found = _SEGMENT.fullmatch(part)
    if found is None:
        raise ValueError(f"{method.full_name}: `{part}` is no part of a path")
    return Segment(found["literal"] or "", found["field"] or "", bool(found["rest"]))


def _refuse_twins(routes: Sequence[Route]) -> None:
    seen = dict[tuple[object, ...], Route]()
    for route in routes:
        shape = (route.verb, *((s.literal, s.rest) for s in route.segments))
        if shape in seen:
            raise ValueError(f"{route.method} and {seen[shape].method} share {route.path}")
        seen[shape] = route


def _rank(route: Route) -> list[tuple[bool, bool]]:
    return [(segment.rest, not segment.literal) for segment in route.segments]


def _values(segments: Sequence[Segment], parts: Sequence[bytes]) -> list[bytes] | None:
    """Return what a path holds in the places of the variables, None if it is another path."""
    values = list[bytes]()
    for index, segment in enumerate(segments):
        part = b"/".join(parts[index:]) if segment.rest else b"".join(parts[index : index + 1])
        if segment.literal and part != segment.literal.encode():
            return None
        if not part:
            return None
        if segment.field:
            values.append(part)
    has_rest = bool(segments) and segments[-1].rest
    return values if has_rest or len(parts) == len(segments) else None
