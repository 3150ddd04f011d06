"""A system that makes exports in its own time; it is asked, and never calls back."""

from __future__ import annotations

import time
from typing import Any

import perdure

MAKING_SECONDS = 1.0

handlers = perdure.Handlers()


@handlers.handler("export.begin")
def begin(given: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, Any]:
    """Begin an export; what is returned names it."""
    return {"table": given["table"], "ready_at": time.time() + MAKING_SECONDS}


@handlers.handler("export.look")
def look(export: dict[str, Any], _ctx: perdure.HandlerContext) -> dict[str, str]:
    """Tell how far an export is."""
    if time.time() < export["ready_at"]:
        return {"state": "making"}
    return {"state": "ready", "url": f"exports/{export['table']}.csv"}


@handlers.handler("export.take")
def take(given: dict[str, str], _ctx: perdure.HandlerContext) -> dict[str, int]:
    """Fetch an export that is ready."""
    return {"rows": len(given["url"])}
