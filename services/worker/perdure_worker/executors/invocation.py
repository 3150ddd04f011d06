"""One call of a handler by this worker: what came of it, as the outcome of a try."""

from __future__ import annotations

from dataclasses import dataclass

from perdure import Handler, HandlerContext
from perdure.invocation import Came, Left, Returned, invoke, invoke_async

from perdure_worker.outcome import (
    Completed,
    Dropped,
    ErrorClass,
    Failed,
    Outcome,
    RefusedConnection,
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A handler with the try that it is called for."""

    handler: Handler
    context: HandlerContext

    def run(self) -> Outcome:
        """Call a plain function; never raises."""
        return self._outcome(invoke(self.handler, self.context))

    async def run_async(self) -> Outcome:
        """Call a coroutine function; raises nothing but the CancelledError of its being stopped."""
        return self._outcome(await invoke_async(self.handler, self.context))

    def _outcome(self, came: Came) -> Outcome:
        cost = self.context.costs.micros
        match came:
            case Left():
                return Dropped(came.why)
            case Returned():
                return Completed(came.output, cost=cost)
            case _:
                return Failed(
                    ErrorClass(came.error_class),
                    came.code,
                    came.message,
                    details=came.details,
                    retry_after=came.retry_after,
                    cost=cost,
                    refused=RefusedConnection(came.connection) if came.connection else None,
                )
