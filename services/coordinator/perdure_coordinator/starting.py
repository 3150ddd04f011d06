"""Starts that came together are one transaction; one that breaks it is told alone (p1, step 5)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime.errors import Unavailable
from perdure_store.apply.starter import Starter, StartOutcome, StartRequest
from perdure_store.held import HeldConnection

from perdure_coordinator.refusals import refusal


async def start_together(
    starter: Starter, held: HeldConnection, batch: Sequence[StartRequest]
) -> list[StartOutcome]:
    """Start the batch, or one by one when together they fail. Raises Unavailable."""
    try:
        return await starter.start(await held.get(), batch)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - told to the sender by refusal
        if len(batch) == 1:
            return [refusal(error, "start")]
    return [(await start_together(starter, held, [one]))[0] for one in batch]
