"""Accounts at outside providers, as handlers use them.

    @handlers.handler("crm.greet")
    async def greet(contact, ctx):
        crm = await ctx.connection("crm")
        found = await crm.request("GET", "/contacts", query={"email": contact["email"]})
        return found.json()["name"]

In a plain function nothing is awaited. Calls lead where an `http` node may lead, under the same
limits; what the provider answers becomes the same class of error. How an account is shown tells
nothing secret; what a handler does with `credentials` is the handler's to answer for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.connection_door import Account, Answer, CallRequest, ConnectionDoor
from perdure.effect_calls import InLoop, InThread, is_in_loop, run_blocking
from perdure.handler_errors import NotPerformed, RateLimited, Unauthorised
from perdure.payload import to_payload

NOTHING: Any = object()
"""No JSON body; None is one."""


class CredentialsRefused(Unauthorised, NotPerformed):
    """The provider refused the credentials, so nothing was done; a person must repair them."""


class CallsLimited(RateLimited, NotPerformed):
    """The provider wants fewer calls, and did nothing."""


class Connection:
    """An account that was opened for this try."""

    def __init__(self, door: ConnectionDoor, account: Account) -> None:
        self._door = door
        self._account = account

    def __repr__(self) -> str:
        return f"Connection({self.name!r})"

    @property
    def name(self) -> str:
        """The connection's name."""
        return self._account.name

    @property
    def base_url(self) -> str:
        """What relative addresses are relative to, empty if that is nothing."""
        return self._account.base_url

    @property
    def credentials(self) -> Mapping[str, str]:
        """The fields that somebody gave the connection, for clients that ask for them."""
        return self._account.credentials

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that authorise a call."""
        return self._account.headers

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        json: Any = NOTHING,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Ask the provider and return its `Answer`: awaitable in an event loop, else at once.

        Credentials are added. `json` is any JSON value, `body` bytes; `timeout` seconds are the
        longest that it takes, None for as long as the try has, and never longer than that. GET and
        HEAD follow redirects.

        Raises CredentialsRefused, CallsLimited, Refused, NotPerformed: nothing was done, of which
        `ctx.effect` takes note; Retryable: nobody knows; Permanent: of no use, and done.
        """
        request = CallRequest(
            method=method,
            url=url,
            headers=_with_type(headers or {}, is_json=json is not NOTHING, body=body),
            query=query or {},
            body=body if json is NOTHING else to_payload(json),
            timeout=timeout,
        )
        if is_in_loop():
            return self._asked(InLoop(), request)
        return run_blocking(self._asked(InThread(), request))

    async def _asked(self, waiting: InLoop | InThread, request: CallRequest) -> Answer:
        return await waiting.answer(self._door.call(self._account, request))


class Connections:
    """The accounts of one try; handlers' threads and coroutines may share it."""

    def __init__(self, door: ConnectionDoor) -> None:
        self._door = door

    def open(self, name: str) -> Any:
        """Open an account: an awaitable in an event loop, elsewhere the `Connection`."""
        if is_in_loop():
            return self._opened(InLoop(), name)
        return run_blocking(self._opened(InThread(), name))

    async def _opened(self, waiting: InLoop | InThread, name: str) -> Connection:
        return Connection(self._door, await waiting.answer(self._door.open(name)))


def _with_type(
    headers: Mapping[str, str], *, is_json: bool, body: bytes | None
) -> Mapping[str, str]:
    if (not is_json and body is None) or "content-type" in {name.lower() for name in headers}:
        return headers
    return {
        **headers,
        "content-type": "application/json" if is_json else "application/octet-stream",
    }
