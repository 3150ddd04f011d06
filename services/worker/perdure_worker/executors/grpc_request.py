"""The call of a grpc step, read from the step's input without touching its message (R12).

The input is `{"target", "service", "method", "request"?, "metadata"?, "plaintext"?, "lookup"?}`,
where `lookup` is such a call too, without `target` and `plaintext`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from perdure_worker.executors.http_request import (
    RequestInvalid,
    lookup_of,
    members_of,
    read,
    text_of,
    texts_of,
)

TARGET = re.compile(
    r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:/\[\]@]{1,253})):(?P<port>\d{1,5})"
)
METADATA_NAME = re.compile(r"[0-9a-z_.-]{1,128}")
METADATA_VALUE = re.compile(r"[\x20-\x7e]*")

OWN_METADATA = frozenset({"content-type", "host", "te", "user-agent"})
"""Names that are gRPC's own, besides those that begin with `grpc-`."""

MAX_PORT = 65535

PLACE = ("target", "plaintext")
"""The members of a call that say where it goes."""


@dataclass(frozen=True, slots=True)
class GrpcRequest:
    """What to call at `host` and `port`; `message` is JSON text."""

    host: str
    port: int
    service: str
    method: str
    message: str
    metadata: Mapping[str, str]
    plaintext: bool

    @property
    def authority(self) -> str:
        """Host and port as one text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The method and where it is, for people."""
        return f"{self.service}/{self.method} at {self.authority}"


def read_call(data: bytes) -> GrpcRequest:
    """Read a step's input. Raises RequestInvalid."""
    return read(lambda: _to_call(members_of(data.decode())))


def read_lookup(data: bytes) -> GrpcRequest:
    """Read the look-up of a step's input, which goes where the call goes. Raises RequestInvalid."""

    def lookup() -> GrpcRequest:
        members = members_of(data.decode())
        place = {name: text for name, text in members.items() if name in PLACE}
        return _to_call({**lookup_of(members), **place})

    return read(lookup)


def digest_of(data: bytes) -> bytes:
    """Return a digest of what a step's input asks for: the same key with another request is
    refused. Raises RequestInvalid.
    """
    members = read(lambda: members_of(data.decode()))
    asked = (f"{json.dumps(name)}:{text}" for name, text in members.items() if name != "lookup")
    return hashlib.sha256(f"{{{','.join(asked)}}}".encode()).digest()


def _to_call(members: Mapping[str, str]) -> GrpcRequest:
    host, port = _target(text_of(members, "target"))
    return GrpcRequest(
        host=host,
        port=port,
        service=text_of(members, "service"),
        method=text_of(members, "method"),
        message=members.get("request", "{}"),
        metadata=_metadata(texts_of(members, "metadata")),
        plaintext=members.get("plaintext") == "true",
    )


def _target(text: str) -> tuple[str, int]:
    found = TARGET.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= MAX_PORT:
        raise RequestInvalid("the call's target is not a host and a port, such as shop.example:443")
    return found["six"] or found["host"], int(found["port"])


def _metadata(metadata: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in metadata.items():
        if not METADATA_NAME.fullmatch(name) or not METADATA_VALUE.fullmatch(value):
            raise RequestInvalid(f"the metadata {name!r} holds characters that none may hold")
        if name in OWN_METADATA or name.startswith("grpc-") or name.endswith("-bin"):
            raise RequestInvalid(f"the metadata {name!r} is not the definition's to set")
    return metadata
