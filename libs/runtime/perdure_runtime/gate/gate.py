"""The one gate of all doors: who calls is found out, then how often, then whether they may."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from perdure_runtime.access import Permission
from perdure_runtime.errors import PermissionDenied
from perdure_runtime.gate.authorise import Principal, Rules, authorise
from perdure_runtime.gate.identity import Caller, Context, acting_as
from perdure_runtime.gate.rates import Rates

HEADER = "authorization"

Authenticate = Callable[[str | None], Awaitable[Principal]]
"""Tells whom the value of the header `authorization` stands for; raises Unauthenticated."""


class Gate:
    """Lets calls in; every door calls it, with the full name of the method that is asked for."""

    def __init__(self, authenticate: Authenticate, rates: Rates, rules: Rules) -> None:
        self._authenticate = authenticate
        self._rates = rates
        self._rules = rules

    @asynccontextmanager
    async def admitted(self, method: str, authorization: str | None) -> AsyncIterator[Caller]:
        """Have the call be the caller's while the context lasts.

        Raises Unauthenticated, ResourceExhausted, RATE_LIMITED, and PermissionDenied,
        PERMISSION_MISSING: before anything is looked up that the call names.
        """
        principal = await self._authenticate(authorization)
        with self._rates.counted(principal.key, principal.rate):
            verdict = authorise(principal, method, self._rules)
            if isinstance(verdict, PermissionDenied):
                raise verdict
            with acting_as(verdict):
                yield verdict

    def guard(self, method: str, context: Context) -> AbstractAsyncContextManager[Caller]:
        """Admit a gRPC call."""
        return self.admitted(method, _header(context))


def everybody_is(org: str) -> Authenticate:
    """Take every caller for an admin of `org`: the door is guarded by the network alone."""
    principal = Principal(org, org, frozenset(Permission), runs_installation=True, key=org)

    async def authenticate(authorization: str | None) -> Principal:
        return principal

    return authenticate


def _header(context: Context) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == HEADER:
            return value if isinstance(value, str) else None
    return None
