"""Makes the one HTTP call of an http step and says what is known of it afterwards."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_runtime.lifecycle import Component
from perdure_runtime.tracing import current_traceparent

from perdure_worker.egress.egress import Egress
from perdure_worker.egress.network import GuardedNetwork
from perdure_worker.egress.transport import EgressTransport
from perdure_worker.egress.trust import tls_context
from perdure_worker.executors.http_answer import Answer, to_outcome
from perdure_worker.executors.http_calls import CallLimits, HttpCalls
from perdure_worker.executors.http_redirects import most_redirects
from perdure_worker.executors.http_request import HttpRequest, RequestInvalid, read_request
from perdure_worker.executors.port import TryContext
from perdure_worker.executors.verdicts import Break, CallFailed, failed, of_break
from perdure_worker.outcome import Outcome

BIG_BODY_BYTES = 64 * 1024
"""Bodies beyond this are read in a thread, so that their JSON does not hold the loop (P8)."""

IDEMPOTENCY_HEADER = "idempotency-key"


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

    def __init__(self, settings: HttpSettings, egress: Egress) -> None:
        super().__init__()
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
        try:
            request = _with_own_headers(read_request(grant.input), grant)
            redirects = most_redirects(request, has_effect=grant.HasField("effect"))
            answer = await self._pool(grant).call(request, self._deadline(context), redirects)
        except RequestInvalid as error:
            return failed(of_break(Break.UNSENDABLE), str(error))
        except CallFailed as error:
            return error.failure
        return await _read(request, answer)

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
        calls = self._shared if may_repeat else self._single
        if calls is None:
            raise RuntimeError("the executor was not started")
        return calls

    def _deadline(self, context: TryContext) -> float:
        if context.deadline is not None:
            return context.deadline
        return time.monotonic() + self._settings.total


async def _read(request: HttpRequest, answer: Answer) -> Outcome:
    now = datetime.now(UTC)
    if len(answer.body) > BIG_BODY_BYTES:
        return await asyncio.to_thread(to_outcome, request, answer, now)
    return to_outcome(request, answer, now)


def _with_own_headers(request: HttpRequest, grant: StepGrant) -> HttpRequest:
    """Return the request with what the engine adds where the definition says nothing."""
    added = {"content-type": "application/json"} if request.body is not None else {}
    if grant.HasField("effect"):
        added[IDEMPOTENCY_HEADER] = grant.effect.key
    if traceparent := current_traceparent() or grant.traceparent:
        added["traceparent"] = traceparent
    given = {name.lower() for name in request.headers}
    fresh = {name: value for name, value in added.items() if name not in given}
    return replace(request, headers={**request.headers, **fresh})
