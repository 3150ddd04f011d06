"""Accounts for a user's own tests of handlers, without an engine and without a provider.

crm = MemoryConnection("crm", lambda request: Answer(200, body=b'{"name": "Ada"}'))
ctx = testing.context(connections=[crm])
assert greet({"email": "ada@example.org"}, ctx) == "Ada"
assert crm.requests[0].url == "/contacts"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from perdure.connection_door import Account, Answer, CallRequest
from perdure.handler_errors import HandlerError, Permanent

T = TypeVar("T")


class MemoryConnection:
    """An account, and what stands for its provider.

    `answer` returns what is answered, or raises a HandlerError; `requests` are those that came.
    """

    def __init__(
        self,
        name: str,
        answer: Callable[[CallRequest], Answer],
        *,
        base_url: str = "",
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        self.account = Account(name=name, base_url=base_url, credentials=credentials or {})
        self.requests: list[CallRequest] = []
        self._answer = answer

    def call(self, request: CallRequest) -> Answer:
        """Note the request and answer it."""
        self.requests.append(request)
        return self._answer(request)


class MemoryDoor:
    """The accounts of one try; the first is the step's own."""

    def __init__(self, connections: Iterable[MemoryConnection]) -> None:
        self._connections = {one.account.name: one for one in connections}

    def open(self, name: str) -> Future[Account]:
        """Answer at once."""
        found = name or next(iter(self._connections), "")
        if found not in self._connections:
            text = f"there is no connection {found!r}" if found else "the step has no connection"
            return _settled(lambda: _refuse(Permanent("CONNECTION_NOT_FOUND", text)))
        return _settled(lambda: self._connections[found].account)

    def call(self, account: Account, request: CallRequest) -> Future[Answer]:
        """Answer at once."""
        return _settled(lambda: self._connections[account.name].call(request))


def _refuse(error: HandlerError) -> Account:
    raise error


def _settled(make: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(make())
    except HandlerError as error:
        future.set_exception(error)
    return future
