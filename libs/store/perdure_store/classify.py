"""What an error of the database driver means to a caller.

Trouble that passes (a lost connection, a time-out, too many connections, a server that starts or
stops) is `Unavailable` and carries the wait before the next try: a database that is short of
breath is not helped by callers that try again at once. Only a real deadlock or a lost
serialisation is `Aborted`, to be decided again at once (F048).
"""

from __future__ import annotations

import re

import asyncpg
from perdure_runtime.errors import Aborted, PerdureError, Reason, Unavailable

from perdure_store.constraints import violation

BACK_OFF_SECONDS = 1.0
"""Least wait before a request that met an overloaded or absent database is sent again."""

DRIVER_ERRORS = (
    OSError,  # TimeoutError is one
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What a statement can raise."""

_PASSING_TROUBLE: tuple[type[BaseException], ...] = (
    OSError,
    EOFError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,  # a primary that became a standby
)
_TIME_OUTS = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)
_LOST_RACES = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
_CLOSED = "closed"
_NO_PARTITION = "no partition of relation"
_NO_MONTH = re.compile(r'relation "[a-z_]+_\d{6}" does not exist')


def classify(error: BaseException) -> PerdureError | None:
    """Return what `error` means, or None when it is no error of the database."""
    if isinstance(error, _TIME_OUTS):
        return _unavailable("the database took too long", error)
    if isinstance(error, _LOST_RACES):
        return Aborted("another change came first", reason=Reason.RETRY)
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return _refused_row(error)
    if isinstance(error, asyncpg.UndefinedTableError) and _NO_MONTH.search(str(error)):
        return _unavailable("a month has no tables yet", error)
    if isinstance(error, _PASSING_TROUBLE) or _is_closed(error):
        return _unavailable("the database cannot be used just now", error)
    return None


def _is_closed(error: BaseException) -> bool:
    """Tell whether a connection or pool was used after its end, which has no class of its own."""
    return isinstance(error, asyncpg.InterfaceError) and (
        _CLOSED in str(error) or "closing" in str(error)
    )


def _refused_row(error: asyncpg.IntegrityConstraintViolationError) -> PerdureError:
    if error.constraint_name is None and _NO_PARTITION in str(error):
        return _unavailable("a month has no partitions yet", error)
    return violation(error.constraint_name or str(error.column_name))


def _unavailable(what: str, error: BaseException) -> Unavailable:
    detail = str(error) or type(error).__name__
    return Unavailable(
        f"{what}: {detail}", reason=Reason.STORE_UNAVAILABLE, retry_after=BACK_OFF_SECONDS
    )


class classified:
    """Within, what `classify` makes of a driver's error is raised in place of that error."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Nothing to do: a class costs each statement less than a generator does."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        meaning = None if error is None else classify(error)
        if meaning is not None:
            raise meaning from error
