"""Asks the CRM how many contacts it has, under the account that the step's node names."""

from __future__ import annotations

from typing import Any

import perdure

handlers = perdure.Handlers()


@handlers.handler("crm.tell")
async def tell(_: Any, ctx: perdure.HandlerContext) -> dict[str, int]:
    """Count the contacts. What the CRM refuses parks the step, as it does an `http` node's."""
    crm = await ctx.connection()
    answer = await crm.request("GET", "/contacts")
    return {"known": len(answer.json())}
