"""A bank with accounts, one in twenty-five of which is closed and has no balance."""

from __future__ import annotations

from typing import Any

import perdure

CLOSED = 25

handlers = perdure.Handlers()


@handlers.handler("statements.list")
def list_accounts(given: dict[str, int], _ctx: perdure.HandlerContext) -> list[int]:
    """Return the numbers of all accounts."""
    return list(range(1, given["accounts"] + 1))


@handlers.handler("statements.balance")
def balance(given: dict[str, int], ctx: perdure.HandlerContext) -> int:
    """Return an account's balance; the bank is too busy for the first try of every tenth."""
    if given["account"] % CLOSED == 0:
        raise perdure.Permanent("CLOSED", f"account {given['account']} is closed")
    if given["account"] % 10 == 0 and ctx.attempt == 1:
        raise perdure.Retryable("BUSY", "ask again")
    return given["account"] * 100


@handlers.handler("statements.write")
def write(given: dict[str, Any], _ctx: perdure.HandlerContext) -> str:
    """Write the statement and return where it is."""
    return f"{given['night']}/{given['account']}.txt"
