"""A shop's stock, bank and carrier: what each does, and what takes it back."""

from __future__ import annotations

from typing import Any

import perdure

handlers = perdure.Handlers()


@handlers.handler("order.reserve")
def reserve(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Keep an item for the order."""
    return {"id": f"reservation-of-{given['item']}"}


@handlers.handler("order.release")
def release(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Give an item back to the stock."""
    return {"released": given["reservation"]}


@handlers.handler("order.charge")
def charge(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Take the money."""
    return {"id": f"charge-of-{given['amount']}"}


@handlers.handler("order.refund")
def refund(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Give the money back."""
    return {"refunded": given["charge"]}


@handlers.handler("order.ship")
def ship(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Hand the parcel to the carrier, who takes no pianos."""
    if given["item"] == "piano":
        raise perdure.Permanent("TOO_HEAVY", "the carrier takes no pianos")
    return {"parcel": f"parcel-with-{given['item']}"}
