"""The handlers that a worker of a test engine serves; what one does is told by its input.

What a test must hold is held by files: a handler makes one to say that it runs and waits for
another, so that it needs no connection to the test.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from perdure import HandlerContext, Handlers, NotPerformed, Performed, Permanent, RawJson

MODULE = "perdure_testkit.step_handlers"
"""What PERDURE_WORKER_HANDLERS names."""

POLL_SECONDS = 0.01
EFFECT_SECONDS = 1.0

handlers = Handlers()


@handlers.handler("test.echo")
def echo(_given: Any, ctx: HandlerContext) -> RawJson:
    """Return the input as it came, byte for byte."""
    return RawJson(ctx.input_bytes or b"null")


@handlers.handler("test.fail")
def fail(given: Any, ctx: HandlerContext) -> dict[str, int]:
    """Fail the first `times` attempts with `message`, then return the attempt's number."""
    if ctx.attempt <= given.get("times", 1):
        raise RuntimeError(given.get("message", "as asked"))
    return {"attempt": ctx.attempt}


@handlers.handler("test.refuse")
def refuse(given: Any, _ctx: HandlerContext) -> None:
    """Fail for good with `message`."""
    raise Permanent("REFUSED", given.get("message", "as asked"))


@handlers.handler("test.hold")
def hold(given: Any, ctx: HandlerContext) -> dict[str, int]:
    """Make `started`, with this process' id in it, then wait for `release` or for a cancel."""
    started, release = Path(given["started"]), Path(given["release"])
    _write(started, str(os.getpid()))
    while not release.exists():
        if ctx.cancelled.wait(POLL_SECONDS):
            _write(started.with_suffix(".cancelled"), str(os.getpid()))
            raise Permanent("CANCELLED", "told to stop")
    return {"pid": os.getpid()}


@handlers.handler("test.die")
def die(_given: Any, _ctx: HandlerContext) -> None:
    """Kill the worker."""
    os.kill(os.getpid(), signal.SIGKILL)


@handlers.handler("test.text")
def text(given: Any, _ctx: HandlerContext) -> str:
    """Return a text of `length` characters."""
    return "x" * int(given["length"])


@handlers.handler("test.effect")
def effect(given: Any, ctx: HandlerContext) -> str:
    """Add a line to the file `made`, as an effect that is looked up by the file; return its key."""
    made = Path(given["made"])

    def make(key: str) -> str:
        with made.open("a", encoding="utf-8") as file:
            file.write(f"{key}\n")
        return key

    def find(key: str) -> Performed | NotPerformed:
        return Performed(key) if made.exists() else NotPerformed()

    return str(ctx.effect("make", make, reconcile=find, timeout=EFFECT_SECONDS))


@handlers.handler("test.doubt")
def doubt(_given: Any, ctx: HandlerContext) -> Any:
    """Break in the middle of an effect of which only a person can find out what became."""

    def break_off(key: str) -> None:
        raise ConnectionResetError(key)

    return ctx.effect("doubt", break_off, timeout=EFFECT_SECONDS)


@handlers.handler("test.account")
def account(given: Any, ctx: HandlerContext) -> str:
    """Open a connection by its name; return where it leads."""
    return str(ctx.connection(given["connection"]).base_url)


def _write(path: Path, content: str) -> None:
    draft = path.with_name(path.name + ".new")
    draft.write_text(content, encoding="utf-8")
    draft.rename(path)
