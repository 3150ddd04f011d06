"""A hand-out as the message that a handler gets, with the token that names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken
from perdure_contracts.v1.worker_service_pb2 import Task
from perdure_runtime.clock import Clock

from perdure_worker.door.tokens import TaskTokens
from perdure_worker.hand_out import HandOut


@dataclass(frozen=True, slots=True)
class Chain:
    """How many tasks came one with the report of the other, and when the first was handed out,
    milliseconds since 1970."""

    followers: int
    began_ms: int


@dataclass(frozen=True, slots=True)
class Handing:
    """Makes messages; of what is left of a lease a handler is told `margin` seconds less, since
    the answer is on its way for a while. `now` gives seconds since 1970."""

    tokens: TaskTokens
    margin: float
    clock: Clock
    now: Callable[[], float]

    def task(self, hand_out: HandOut, chain: Chain | None = None) -> Task | None:
        """Return the message, None if too little is left of the lease to begin."""
        left = self._left(hand_out.expires_at)
        if left <= 0:
            return None
        grant = hand_out.grant
        task = Task(
            task_token=self._token(hand_out, chain or Chain(0, round(self.now() * 1000))),
            run_id=grant.lease.run_id,
            workflow=grant.workflow,
            workflow_version=grant.workflow_version,
            node=grant.node,
            scope=grant.scope,
            step=grant.lease.step,
            handler=grant.handler,
            lane=grant.queue.partition(":")[0],
            input=grant.input,
            attempt=grant.attempt,
            key_prefix="/".join(filter(None, (grant.lease.run_id, grant.scope, grant.node))),
            lease=duration(left),
            traceparent=grant.traceparent,
        )
        if hand_out.deadline is not None:
            task.timeout.CopyFrom(duration(max(0.0, self._left(hand_out.deadline))))
        return task

    def _left(self, until: float) -> float:
        return until - self.clock.monotonic() - self.margin

    def _token(self, hand_out: HandOut, chain: Chain) -> str:
        grant = hand_out.grant
        token = TaskToken(
            lease=grant.lease,
            traceparent=grant.traceparent,
            connection_generation=grant.connection.generation,
            followers=chain.followers,
            chain_began_ms=chain.began_ms,
        )
        return self.tokens.make(token, grant.timeout_ms / 1000 if grant.timeout_ms else None)


def duration(seconds: float) -> Duration:
    """Return a length of time as a message, to the millisecond."""
    made = Duration()
    made.FromMilliseconds(round(seconds * 1000))
    return made
