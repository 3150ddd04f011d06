"""What sends mail, as the workers see it: one server is busy at first, one refuses for good."""

from __future__ import annotations

from typing import Any

import perdure

handlers = perdure.Handlers()


@handlers.handler("mail.send")
def send(mail: dict[str, Any], ctx: perdure.HandlerContext) -> dict[str, Any]:
    """Send a mail; what is returned names it."""
    to = str(mail["to"])
    if to.endswith("@busy.example") and ctx.attempt == 1:
        raise perdure.Retryable("BUSY", "come back in a moment")
    if to.endswith("@nowhere.example"):
        raise perdure.Permanent("NO_SUCH_ADDRESS", f"nobody is called {to}")
    return {"mail": f"{mail['letter']} for {to}", "language": mail["language"]}
