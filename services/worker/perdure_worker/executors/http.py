"""Makes the one HTTP call of an http step and says what is known of it afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar, TypeVar

from perdure_contracts.internal.v1.dispatch_pb2 import (
    EFFECT_OUTCOME_ANSWERED,
    StepGrant,
)
from perdure_runtime.lifecycle import Component
from perdure_runtime.tracing import current_traceparent

from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.egress import Egress
from perdure_worker.egress.network import GuardedNetwork
from perdure_worker.egress.transport import EgressTransport
from perdure_worker.egress.trust import tls_context
from perdure_worker.executors.account import hidden, under
from perdure_worker.executors.begun_calls import Finding, OutsideCall, nothing_told, run_call
from perdure_worker.executors.http_answer import Answer, failure_of, output_of, to_outcome
from perdure_worker.executors.http_calls import CallLimits, HttpCalls
from perdure_worker.executors.http_redirects import FOLLOWING, most_redirects
from perdure_worker.executors.http_request import (
    HttpRequest,
    RequestInvalid,
    digest_of,
    read_lookup,
    read_request,
)
from perdure_worker.executors.port import TryContext
from perdure_worker.executors.verdicts import Break, CallFailed, failed, of_break
from perdure_worker.outcome import Outcome

BIG_BODY_BYTES = 64 * 1024
"""Bodies beyond this are read in a thread, so that their JSON does not hold the loop (P8)."""

IDEMPOTENCY_HEADER = "idempotency-key"

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`total` is how many seconds a call may take when its node sets no timeout; at most
    `connections` are open.
    """

    limits: CallLimits
    total: float
    connections: int


class HttpExecutor(Component):
    """Sends requests; those that may be repeated share connections.

    A server may end an idle connection in the moment in which it is used again. Where a call may
    not be repeated, that would leave a person to find out what became of it: so such a call has a
    connection of its own.
    """

    keeps_deadline: ClassVar[bool] = True

    def __init__(self, settings: HttpSettings, egress: Egress, effects: EffectCalls) -> None:
        super().__init__()
        self._effects = effects
        self._settings = settings
        self._egress = egress
        self._shared: HttpCalls | None = None
        self._single: HttpCalls | None = None

    async def on_start(self) -> None:
        """Make the pools."""
        self._shared, self._single = self._calls(keeps=True), self._calls(keeps=False)

    async def on_stop(self) -> None:
        """Close the connections."""
        for calls in (self._shared, self._single):
            if calls is not None:
                await calls.close()

    async def run(self, grant: StepGrant, context: TryContext) -> Outcome:
        """Make the call that the step's input describes."""
        return hidden(await self._run(grant, context), grant.connection)

    async def send(self, request: HttpRequest, grant: StepGrant, deadline: float | None) -> Answer:
        """Make a call that the handler of a step asks for, by the same rules. Raises CallFailed."""
        request = _with_headers(request, grant, {})
        follows = request.method in FOLLOWING
        calls = self._opened(self._shared if follows else self._single)
        until = time.monotonic() + self._settings.total if deadline is None else deadline
        return await calls.call(request, until, most_redirects(request, has_effect=False))

    async def _run(self, grant: StepGrant, context: TryContext) -> Outcome:
        try:
            request = read_request(grant.input, grant.connection.base_url)
            request = _with_own_headers(under(request, grant.connection), grant)
            redirects = most_redirects(request, has_effect=grant.HasField("effect"))
        except RequestInvalid as error:
            return failed(of_break(Break.UNSENDABLE), str(error))

        async def call(deadline: float) -> Outcome:
            return await self._call(self._pool(grant), request, deadline, redirects)

        digest, look_up = partial(digest_of, request), partial(self._look_up, grant)
        made = OutsideCall(grant, context, self._settings.total, digest, call, look_up)
        return await run_call(self._effects, made)

    async def _call(
        self, calls: HttpCalls, request: HttpRequest, deadline: float, redirects: int
    ) -> Outcome:
        try:
            answer = await calls.call(request, deadline, redirects)
        except RequestInvalid as error:
            return failed(of_break(Break.UNSENDABLE), str(error))
        except CallFailed as error:
            return error.failure
        return await _read(request, answer)

    async def _look_up(self, grant: StepGrant, deadline: float) -> Finding:
        """Ask what became of an earlier call, by the request that the step's input has for it."""
        try:
            request = read_lookup(grant.input, grant.connection.base_url)
            request = _with_headers(under(request, grant.connection), grant, {})
            redirects = most_redirects(request, has_effect=False)
            answer = await self._opened(self._shared).call(request, deadline, redirects)
        except (RequestInvalid, CallFailed) as error:
            return nothing_told(str(error))
        if not request.accepts(answer.status):
            failure = failure_of(request, answer, datetime.now(UTC))
            return nothing_told(failure.message, failure)
        return Finding(EFFECT_OUTCOME_ANSWERED, await _in_thread_if_big(output_of, answer))

    def _calls(self, *, keeps: bool) -> HttpCalls:
        transport = EgressTransport(
            GuardedNetwork(self._egress.lookup),
            tls_context(self._egress.authorities),
            connections=self._settings.connections,
            keeps=keeps,
        )
        return HttpCalls(transport, self._settings.limits)

    def _pool(self, grant: StepGrant) -> HttpCalls:
        may_repeat = not grant.HasField("effect") or grant.effect.kind == "provider"
        return self._opened(self._shared if may_repeat else self._single)

    def _opened(self, calls: HttpCalls | None) -> HttpCalls:
        if calls is None:
            raise RuntimeError("the executor was not started")
        return calls


async def _read(request: HttpRequest, answer: Answer) -> Outcome:
    now = datetime.now(UTC)
    return await _in_thread_if_big(lambda each: to_outcome(request, each, now), answer)


async def _in_thread_if_big(read: Callable[[Answer], ReadT], answer: Answer) -> ReadT:
    if len(answer.body) > BIG_BODY_BYTES:
        return await asyncio.to_thread(read, answer)
    return read(answer)


def _with_own_headers(request: HttpRequest, grant: StepGrant) -> HttpRequest:
    """Return the request with what the engine adds where the definition says nothing."""
    key = {IDEMPOTENCY_HEADER: grant.effect.key} if grant.HasField("effect") else {}
    return _with_headers(request, grant, key)


def _with_headers(request: HttpRequest, grant: StepGrant, added: dict[str, str]) -> HttpRequest:
    if request.body is not None:
        added["content-type"] = "application/json"
    if traceparent := current_traceparent() or grant.traceparent:
        added["traceparent"] = traceparent
    given = {name.lower() for name in request.headers}
    fresh = {name: value for name, value in added.items() if name not in given}
    return replace(request, headers={**request.headers, **fresh})
