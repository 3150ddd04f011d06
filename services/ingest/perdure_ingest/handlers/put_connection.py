"""ConnectionService.PutConnection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from perdure_contracts.internal.v1 import control_service_pb2
from perdure_contracts.v1.connection_service_pb2 import PutConnectionRequest, PutConnectionResponse
from perdure_machine.definition.model import CONNECTION_NAME
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.get_connection import read_connection
from perdure_ingest.validation import Check
from perdure_ingest.views.connections import SCHEMES, connection_message

_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "none": (),
        "bearer": ("token",),
        "basic": ("username", "password"),
        "header": ("name", "value"),
    }
)
"""The credentials that each scheme needs, no more and no less."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OPEN_SECONDS = 30.0


async def put_connection(
    doors: Doors, caller: Caller, request: PutConnectionRequest
) -> PutConnectionResponse:
    """Make or change a connection, and show it."""
    answer = await doors.coordinator.put_connection(_checked(caller, request))
    state = await read_connection(doors, caller, request.name)
    return PutConnectionResponse(connection=connection_message(state), created=answer.created)


def check_name(fields: Check, name: str) -> None:
    """Check the name of a connection."""
    if not re.fullmatch(CONNECTION_NAME, name):
        fields.add("name", "must be a small letter, then small letters, digits and . _ -")


def _checked(
    caller: Caller, request: PutConnectionRequest
) -> control_service_pb2.PutConnectionRequest:
    fields = Check()
    check_name(fields, request.name)
    _check_url(fields, request.base_url)
    if request.scheme not in SCHEMES:
        fields.add("scheme", "is no scheme that this version knows")
    scheme = SCHEMES.get(request.scheme, "none")
    _check_credentials(fields, scheme, request.credentials)
    fields.number("slots", request.slots, least=0, most=limits.MAX_SLOTS)
    if not 0 <= request.rate <= limits.MAX_RATE:
        fields.add("rate", f"must lie between 0 and {limits.MAX_RATE}")
    burst = request.burst or 1.0
    if not 1 <= burst <= limits.MAX_RATE:
        fields.add("burst", f"must lie between 1 and {limits.MAX_RATE}")
    failures = fields.number("max_failures", request.max_failures or 5, least=1, most=1000)
    asked = request.open_for if request.HasField("open_for") else None
    seconds = fields.duration("open_for", asked)
    if seconds is not None and not 1 <= seconds <= limits.MAX_OPEN_SECONDS:
        fields.add("open_for", f"must lie between 1 and {limits.MAX_OPEN_SECONDS:.0f} seconds")
    _check_probe(fields, request)
    fields.refuse()
    return control_service_pb2.PutConnectionRequest(
        org=caller.org,
        name=request.name,
        base_url=request.base_url,
        scheme=scheme,
        credentials=request.credentials,
        slots=request.slots,
        rate=request.rate,
        burst=burst,
        max_failures=failures,
        open_ms=int((seconds or _OPEN_SECONDS) * 1000),
        probe_path=request.probe_path,
        actor=caller.actor,
    )


def _check_url(fields: Check, url: str) -> None:
    fields.text("base_url", url, longest=limits.MAX_URL)
    if not url:
        return
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        known = False
    if not known:
        fields.add("base_url", "must be an absolute http or https address")
    elif parts.username or parts.password:
        fields.add("base_url", "must not hold credentials; give them as `credentials`")
    elif parts.query or parts.fragment:
        fields.add("base_url", "must have neither a query nor a fragment")


def _check_credentials(fields: Check, scheme: str, credentials: Mapping[str, str]) -> None:
    """Check the fields; no value of one is ever repeated in a refusal."""
    size = sum(len(name) + len(value.encode()) for name, value in credentials.items())
    if size > limits.MAX_CREDENTIAL_BYTES:
        fields.add("credentials", f"hold more than {limits.MAX_CREDENTIAL_BYTES} bytes")
    for name, value in sorted(credentials.items()):
        if any(character in value for character in "\r\n\0"):
            fields.add(f"credentials[{name[:100]!r}]", "holds a line break or NUL")
    needed = _FIELDS.get(scheme)
    if needed is None or not credentials:
        return
    for name in sorted(credentials.keys() - set(needed)):
        fields.add(f"credentials[{name[:100]!r}]", f"is no field of the scheme {scheme}")
    for name in needed:
        if not credentials.get(name):
            fields.add(f"credentials['{name}']", f"is required by the scheme {scheme}")
    if scheme == "header" and not _HEADER.fullmatch(credentials.get("name", "x")):
        fields.add("credentials['name']", "is not the name of a header")


def _check_probe(fields: Check, request: PutConnectionRequest) -> None:
    fields.text("probe_path", request.probe_path, longest=limits.MAX_URL)
    if request.probe_path and not request.base_url:
        fields.add("probe_path", "needs a base_url")
    if request.probe_path and not request.probe_path.startswith("/"):
        fields.add("probe_path", "must begin with a slash")
