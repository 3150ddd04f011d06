"""Answers for kinds of steps that this release does not know, as during a rollout."""

from __future__ import annotations

from typing import ClassVar

from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant

from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import Effect, ErrorClass, Failed, Outcome


class UnknownKind:
    """Fails each try, so that a newer worker may take the next."""

    keeps_deadline: ClassVar[bool] = True

    async def run(self, grant: StepGrant, _: TryContext) -> Outcome:
        """Say that nothing was done."""
        return Failed(
            ErrorClass.RETRYABLE,
            "KIND_UNKNOWN",
            f"this worker does not know steps of kind {grant.kind}: update it",
            effect=Effect.NOT_PERFORMED,
        )
