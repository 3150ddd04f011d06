"""The only place that commits.

Each commit passes a fail point of its own, so that a test can stop the process on either side of
it. Effects outside the database (metrics, wake-ups, replies) are left to `Transaction.on_commit`
and happen only once the commit is known to have succeeded (R2).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
from perdure_runtime.fail_points import FailPoint
from perdure_runtime.logs import log_failure

from perdure_store.classify import DRIVER_ERRORS, classified
from perdure_store.pool import Connection

_logger = logging.getLogger(__name__)

ROLLBACK_TIMEOUT = 2.0
"""Longest wait, in seconds, for a transaction to end that is to leave nothing."""

Hook = Callable[[], object]
"""Called after the commit; when it returns an awaitable, that is awaited."""


class Transaction:
    """An open transaction: its connection, and what is to happen once it has committed."""

    __slots__ = ("_hooks", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._hooks: list[Hook] = []

    def on_commit(self, hook: Hook) -> None:
        """Call `hook` after the commit, after those given before it; never if it fails.

        An error in a hook is logged and hinders neither the other hooks nor the caller: the
        commit stands, so nobody may take it for failed.
        """
        self._hooks.append(hook)

    async def run_hooks(self) -> None:
        """Run the hooks in order."""
        for hook in self._hooks:
            try:
                result = hook()
                if inspect.isawaitable(result):
                    await result
            except Exception as error:  # noqa: BLE001 - classified and logged by log_failure
                log_failure(_logger, "store.commit_hook_failed", error)


@asynccontextmanager
async def transaction(connection: Connection, fail_point: FailPoint) -> AsyncIterator[Transaction]:
    """Commit what the body writes, or none of it when the body or the commit raises.

    Transactions do not nest. The driver's errors are raised as `classify` understands them. When
    the connection breaks during the commit, whether it took effect is unknown: the caller gets
    Unavailable and may send the same event again (R5).
    """
    _refuse_nesting(connection)
    current = Transaction(connection)
    with classified():
        await connection.execute("BEGIN")
        try:
            yield current
            async with fail_point.around():
                await connection.execute("COMMIT")
        except BaseException:
            await _roll_back(connection)
            raise
    await current.run_hooks()


async def write(
    connection: Connection, fail_point: FailPoint, query: str, *args: object
) -> list[asyncpg.Record]:
    """Run one writing statement that commits by itself, and return its rows.

    Errors are raised as by `transaction`. Two round trips cheaper than a transaction around one
    statement. RuntimeError inside a transaction, where it would not commit.
    """
    _refuse_nesting(connection)
    with classified():
        async with fail_point.around():
            return await connection.fetch(query, *args)


def _refuse_nesting(connection: Connection) -> None:
    if connection.is_in_transaction():
        raise RuntimeError("the connection is in a transaction already")


async def _roll_back(connection: Connection) -> None:
    """End the transaction; a connection that cannot do that soon is given up."""
    if connection.is_closed() or not connection.is_in_transaction():
        return
    try:
        # A cancelled statement may run on: the server ignores a cancellation that comes too early.
        await connection.execute("ROLLBACK", timeout=ROLLBACK_TIMEOUT)
    except DRIVER_ERRORS:
        connection.terminate()
    except BaseException:
        connection.terminate()
        raise
