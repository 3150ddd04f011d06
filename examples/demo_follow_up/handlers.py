"""The demo's own handler; workers find it by this module's import path."""

from __future__ import annotations

from typing import Any

import perdure

handlers = perdure.Handlers()


@handlers.handler("demo.write_draft")
def write_draft(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Write a draft from what the two look-ups found."""
    company = given["company"]["name"]
    greeting = "Hi" if given["tone"] == "friendly" else "Dear"
    return {
        "subject": f"Your question, {given['name']}",
        "text": f"{greeting} {given['name']}, thank you for writing from {company}.",
    }
