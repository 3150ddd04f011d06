"""The account that a call is made under: where it leads, what proves it, and that nobody reads it.

The headers of a connection go where the connection leads and nowhere else: a definition that names
it together with a host of its own would carry the credentials out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import httpx
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant

from perdure_worker.executors.grpc_request import GrpcRequest
from perdure_worker.executors.http_redirects import origin_of
from perdure_worker.executors.http_request import HttpRequest, RequestInvalid
from perdure_worker.outcome import Failed, Outcome

HIDDEN = "***"
LEAST_SECRET = 4
"""Shorter values are no secrets, and hiding them would garble every text."""


def under(request: HttpRequest, connection: ConnectionGrant) -> HttpRequest:
    """Return the request with what proves the account, where the definition sets no such header.

    Raises RequestInvalid for a request that leads elsewhere.
    """
    if connection.base_url and origin_of(request.url) != origin_of(httpx.URL(connection.base_url)):
        raise RequestInvalid(f"the connection {connection.name!r} does not lead to {request.shown}")
    given = {name.lower() for name in request.headers}
    proof = {name: value for name, value in connection.headers.items() if name.lower() not in given}
    return replace(request, headers={**request.headers, **proof})


def method_under(request: GrpcRequest, connection: ConnectionGrant) -> GrpcRequest:
    """Return the request with what proves the account, where the definition says nothing.

    Raises RequestInvalid for a request that leads elsewhere, or that everybody could read.
    """
    if connection.base_url and not _leads_to(httpx.URL(connection.base_url), request):
        raise RequestInvalid(f"the connection {connection.name!r} does not lead to {request.shown}")
    proof = {name.lower(): value for name, value in connection.headers.items()}
    return replace(request, metadata={**proof, **request.metadata})


def hidden(outcome: Outcome, connection: ConnectionGrant) -> Outcome:
    """Return an outcome without the secrets of its connection, which the other side may repeat."""
    return hidden_of(outcome, connection) if isinstance(outcome, Failed) else outcome


def hidden_of(failure: Failed, connection: ConnectionGrant) -> Failed:
    """Return a failure without the secrets of a connection."""
    details = failure.details
    for secret in _secrets(connection):
        details = details.replace(secret.encode(), HIDDEN.encode())
    return replace(failure, message=hidden_in(failure.message, connection), details=details)


def hidden_in(text: str, connection: ConnectionGrant) -> str:
    """Return a text for people without the secrets of a connection."""
    for secret in _secrets(connection):
        text = text.replace(secret, HIDDEN)
    return text


def _leads_to(base: httpx.URL, request: GrpcRequest) -> bool:
    port = base.port or (443 if base.scheme == "https" else 80)
    return (base.host, port, base.scheme == "http") == (
        request.host,
        request.port,
        request.plaintext,
    )


def _secrets(connection: ConnectionGrant) -> Iterable[str]:
    """Yield what must not be read, the longest first: one may hold another."""
    values = [*connection.headers.values(), *connection.credentials.values()]
    words = [word for value in values for word in (value, value.rpartition(" ")[2])]
    return sorted({word for word in words if len(word) >= LEAST_SECRET}, key=len, reverse=True)
