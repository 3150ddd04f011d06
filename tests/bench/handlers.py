"""The work of a benchmark: none, so that the engine is what is measured."""

from __future__ import annotations

import time

import perdure

handlers = perdure.Handlers()


@handlers.handler("bench.nothing")
async def nothing(_given: object, _ctx: perdure.HandlerContext) -> None:
    """Do nothing."""


@handlers.handler("bench.when")
async def when(_given: object, _ctx: perdure.HandlerContext) -> float:
    """Tell when it runs, in seconds since the epoch by this machine's clock."""
    return time.time()
