"""The work of a benchmark: none, so that the engine is what is measured."""

from __future__ import annotations

import perdure

handlers = perdure.Handlers()


@handlers.handler("bench.nothing")
async def nothing(_given: object, _ctx: perdure.HandlerContext) -> None:
    """Do nothing."""
