"""What the offer does outside: mail that is not really sent, and bookings that are not kept."""

from __future__ import annotations

from typing import Any

import perdure

handlers = perdure.Handlers()


@handlers.handler("offer.ask")
def ask(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Mail an offer; whoever gets it answers under its key."""
    return {"mailed_to": given["to"], "answer_with": f"offer-{given['offer']}"}


@handlers.handler("offer.book")
def book(given: dict[str, Any], _ctx: perdure.HandlerContext) -> str:
    """Book what was offered."""
    return f"booked for {given['by']}"


@handlers.handler("offer.withdraw")
def withdraw(_given: dict[str, Any], _ctx: perdure.HandlerContext) -> str:
    """Withdraw an offer that nobody answered."""
    return "withdrawn"
