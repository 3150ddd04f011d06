"""What a handler is told beside its input: which step, how long it has, whether to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from perdure.cancellation import Cancellation
from perdure.connections import Connections
from perdure.effects import DEFAULT_SECONDS, Effect, Effects
from perdure.handler_costs import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """One try of one step.

    `attempt` counts as people do, failures plus one, from 1. `input_bytes` is the input as it was
    stored, byte for byte. `key_prefix` is the same for every try of the step. `deadline` is the
    instant on `time.monotonic()` at which the try is given up, None if the definition sets none.
    `logger` writes lines that name the run, the step and its fence. `traceparent` is the W3C trace
    context to send on, empty when the run is not traced. `costs` is told what the try has spent:
    `costs.add(0.03)`; without a word the node's estimate counts. `effects` and `connections` are
    what `effect` and `connection` go through, None where a context was made without.
    """

    run_id: str
    workflow: str
    workflow_version: int
    node: str
    scope: str
    step: int
    attempt: int
    key_prefix: str
    input_bytes: bytes
    deadline: float | None
    cancelled: Cancellation
    logger: logging.Logger
    traceparent: str = ""
    costs: Costs = field(default_factory=Costs)
    effects: Effects | None = None
    connections: Connections | None = None

    def remaining(self) -> float | None:
        """Seconds until the try is given up, 0 when they are over, None if there is no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def effect(
        self,
        name: str,
        perform: Callable[[str], Any],
        *,
        kind: str | None = None,
        reconcile: Callable[[str], Any] | None = None,
        keep: float | None = None,
        timeout: float = DEFAULT_SECONDS,
        request: Any = None,
        not_performed: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Have `perform(key)` done once, and return what it came to, in this try and in each later.

        In an event loop this returns an awaitable; elsewhere it blocks. `name` tells the step's
        effects apart. `key` is the same for every try: send it to the other side.

        `kind` is `provider` (the other side knows a key again, for `keep` seconds if given),
        `reconcile` (`reconcile(key)` finds out) or `none` (a person does). Without it, `keep`
        makes it `provider`, else `reconcile` makes it `reconcile`, else it is `none`.
        `reconcile` returns `Performed(result)`, `NotPerformed()` or `Unknown()`.

        `timeout` seconds are the longest that one call may take; a plain function cannot be cut,
        so give its client the same limit. `request` is what is asked for, any JSON value: another
        one under the same key is refused.

        That `perform` raises `NotPerformed`, `Refused` or one of `not_performed` says that nothing
        was done, and the error goes on to the handler. After any other error nobody knows.

        Raises EffectInvalid for wrong use, for a result that is not JSON or over 1 MiB, and for a
        refused request; Retryable where it stays unknown; StepDropped, which is no `Exception`,
        when the handler must end at once because the step goes on without it.
        """
        if self.effects is None:
            raise RuntimeError(
                "this context has no effects: a handler inside a worker has, and perdure.testing "
                "makes one that has"
            )
        return self.effects.run(
            Effect(name, perform, kind, reconcile, keep, timeout, request, not_performed)
        )

    def connection(self, name: str = "") -> Any:
        """Open the account `name`, or the one that the step's node names, and return it.

        In an event loop this returns an awaitable of the `perdure.Connection`; elsewhere it blocks.
        The step's own connection is the one that counts: its slots, rate and breaker bound the
        step, and what the provider refuses parks the step on it. One that the node does not name
        lends its credentials and nothing more.

        Raises Permanent where there is none of the name; Unauthorised where somebody disabled it,
        or its credentials were refused or cannot be opened; Retryable where nobody answers; and
        StepDropped when the step is no longer this handler's.
        """
        if self.connections is None:
            raise RuntimeError(
                "this context has no connections: a handler inside a worker has, and "
                "perdure.testing makes one that has"
            )
        return self.connections.open(name)
