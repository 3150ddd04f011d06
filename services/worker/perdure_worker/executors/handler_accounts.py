"""How a handler reaches accounts and their providers, from whatever thread or loop it runs in.

Credentials come under the step's lease and are kept for the try alone; of a failure of the try they
are taken out, as of an http step's.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from perdure import CallsLimited, CredentialsRefused
from perdure.connection_door import Account, Answer, CallRequest
from perdure.handler_errors import (
    HandlerError,
    NotPerformed,
    Permanent,
    RateLimited,
    Refused,
    Retryable,
    StepDropped,
    Unauthorised,
)
from perdure_contracts.internal.v1 import connections_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant, StepGrant
from perdure_runtime.errors import PerdureError

from perdure_worker.coordinator import Coordinator
from perdure_worker.executors import http_answer
from perdure_worker.executors.account import hidden_of, under
from perdure_worker.executors.http import HttpExecutor
from perdure_worker.executors.http_request import HttpRequest, RequestInvalid, compose_request
from perdure_worker.executors.verdicts import Break, CallFailed, failed, of_break
from perdure_worker.outcome import Effect, ErrorClass, Failed, Outcome, RefusedConnection

Make = Callable[..., HandlerError]

_NOTHING_DONE: Mapping[ErrorClass, Make] = MappingProxyType(
    {
        ErrorClass.RETRYABLE: NotPerformed,
        ErrorClass.RATE_LIMITED: CallsLimited,
        ErrorClass.AUTHORISATION: CredentialsRefused,
        ErrorClass.PERMANENT: Refused,
    }
)
_WHO_KNOWS: Mapping[ErrorClass, Make] = MappingProxyType(
    {
        ErrorClass.RETRYABLE: Retryable,
        ErrorClass.RATE_LIMITED: RateLimited,
        ErrorClass.AUTHORISATION: Unauthorised,
        ErrorClass.PERMANENT: Permanent,
    }
)


@dataclass(frozen=True, slots=True)
class Outside:
    """What accounts come from, and what calls go through."""

    coordinator: Coordinator
    http: HttpExecutor


class HandlerAccounts:
    """The door for the accounts of one try; made in the worker's loop, called from anywhere.

    `deadline` is the try's, an instant of the monotonic clock.
    """

    def __init__(self, outside: Outside, grant: StepGrant, deadline: float | None) -> None:
        self._outside = outside
        self._grant = grant
        self._deadline = deadline
        self._opened: dict[str, ConnectionGrant] = {}
        self._generations: dict[str, int] = {}
        self._home = asyncio.get_running_loop()

    def open(self, name: str) -> Future[Account]:
        """Open an account."""
        return asyncio.run_coroutine_threadsafe(self._open(name), self._home)

    def call(self, account: Account, request: CallRequest) -> Future[Answer]:
        """Ask its provider."""
        return asyncio.run_coroutine_threadsafe(self._call(account, request), self._home)

    def told(self, outcome: Outcome) -> Outcome:
        """Return an outcome as it may be told: a failure without the secrets of the accounts that
        were opened, and with the credentials that were refused.
        """
        if not isinstance(outcome, Failed):
            return outcome
        for connection in (self._grant.connection, *self._opened.values()):
            outcome = hidden_of(outcome, connection)
        if outcome.refused is None:
            return outcome
        name = outcome.refused.name
        is_own = name == self._grant.connection.name
        refused = None if is_own else RefusedConnection(name, self._generations.get(name, 0))
        return replace(outcome, refused=refused)

    async def _open(self, name: str) -> Account:
        own = self._grant.connection
        wanted = name or own.name
        if not wanted:
            raise Permanent("CONNECTION_NOT_FOUND", "the step's node names no connection")
        if wanted not in self._opened:
            self._opened[wanted] = own if wanted == own.name else await self._asked(wanted)
        found = self._opened[wanted]
        return Account(
            name=found.name,
            base_url=found.base_url,
            headers=dict(found.headers),
            credentials=dict(found.credentials),
        )

    async def _asked(self, name: str) -> ConnectionGrant:
        try:
            answer = await self._outside.coordinator.open_connection(self._grant.lease, name)
        except PerdureError as error:
            raise Retryable(error.reason, f"connection {name}: {error.message}") from error
        self._generations[name] = answer.connection.generation
        match answer.status:
            case pb.OPEN_CONNECTION_STATUS_OPENED:
                return answer.connection
            case pb.OPEN_CONNECTION_STATUS_MISSING:
                raise Permanent("CONNECTION_NOT_FOUND", f"there is no connection {name!r}")
            case pb.OPEN_CONNECTION_STATUS_UNUSABLE:
                what = f"connection {name}: {answer.why}"
                raise Unauthorised("CONNECTION_UNUSABLE", what, connection=name)
            case _:
                raise StepDropped("the lease of the step is over")

    async def _call(self, account: Account, asked: CallRequest) -> Answer:
        try:
            request = self._request(self._opened[account.name], asked)
            answer = await self._outside.http.send(request, self._grant, self._until(asked))
        except RequestInvalid as error:
            raise _error(failed(of_break(Break.UNSENDABLE), str(error)), account) from error
        except CallFailed as error:
            raise _error(error.failure, account) from error
        if not request.accepts(answer.status):
            refusal = http_answer.failure_of(request, answer, datetime.now(UTC))
            raise _error(refusal, account)
        return Answer(answer.status, dict(answer.headers), answer.body)

    def _request(self, connection: ConnectionGrant, asked: CallRequest) -> HttpRequest:
        request = compose_request(
            asked.method,
            asked.url,
            connection.base_url,
            headers=asked.headers,
            query=asked.query,
            body=asked.body,
        )
        return under(request, connection)

    def _until(self, asked: CallRequest) -> float | None:
        if asked.timeout is None:
            return self._deadline
        limit = math.inf if self._deadline is None else self._deadline
        return min(time.monotonic() + asked.timeout, limit)


def _error(failure: Failed, account: Account) -> HandlerError:
    """Return what a handler is raised, which tells `ctx.effect` whether anything was done, and by
    whose credentials it was not.
    """
    is_known = failure.effect is Effect.NOT_PERFORMED
    make = (_NOTHING_DONE if is_known else _WHO_KNOWS)[failure.error_class]
    details = json.loads(failure.details) if failure.details else None
    error = make(failure.code, failure.message, details=details)
    error.retry_after = failure.retry_after
    if isinstance(error, Unauthorised):
        error.connection = account.name
    return error
