"""Batches that fail together and are tried again one by one (protocol p1, step 5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure_runtime.errors import Internal, PerdureError, Reason, Unavailable
from perdure_runtime.logs import log_failure

_logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def together_or_apart(
    items: Sequence[Item],
    attempt: Callable[[Sequence[Item]], Awaitable[list[Answer]]],
    *,
    what: str,
) -> list[Answer | PerdureError]:
    """Return what `attempt` answers to all items, or, where it fails, to each by itself.

    `what` names an item, for the log and for who sent one that fails by itself. Raises Unavailable
    when the database cannot be used.
    """
    try:
        return [*await attempt(items)]
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - told to the sender by _refusal
        if len(items) == 1:
            return [_refusal(error, what)]
        return [(await together_or_apart([one], attempt, what=what))[0] for one in items]


def _refusal(error: Exception, what: str) -> PerdureError:
    if isinstance(error, PerdureError):
        return error
    log_failure(_logger, f"{what}.failed", error)
    return Internal(f"the {what} could not be done", reason=Reason.INTERNAL)
