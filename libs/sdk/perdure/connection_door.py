"""How `ctx.connection` reaches accounts and providers: what a worker, or a test, provides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A connection that was opened for one try; how it is shown tells nothing secret.

    `headers` are those that authorise a call, `credentials` the fields that somebody gave it.
    """

    name: str
    base_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """What to ask a provider for; `timeout` seconds over all, None for as long as the try has."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider answered: a status that says it went well, headers by small name, a body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """Return the body as Python values, None for an empty one. Raises ValueError."""
        return json.loads(self.body) if self.body else None


class ConnectionDoor(Protocol):
    """The accounts of one try. Calls return at once, from any thread."""

    def open(self, name: str) -> Future[Account]:
        """Open an account, the step's own for an empty name. Fails with a HandlerError."""

    def call(self, account: Account, request: CallRequest) -> Future[Answer]:
        """Ask its provider. Fails with a HandlerError unless the answer's status is a 2xx."""
