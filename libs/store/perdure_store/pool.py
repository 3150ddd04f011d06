"""Connections to PostgreSQL: pools, and single ones that are held for long.

Only `application_name` is sent as a setting, since a pooler in between refuses others; time-outs
belong to the role (R13). A peer that vanished without a word is noticed by the socket: the kernel
gives up on unacknowledged data after `TCP_USER_TIMEOUT_MS` and probes a silent peer.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias
from urllib.parse import urlsplit

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from perdure_runtime.errors import FailedPrecondition, Reason, Unavailable

from perdure_store.classify import BACK_OFF_SECONDS, classified

Connection: TypeAlias = "asyncpg.Connection | PoolConnectionProxy"
"""What queries are sent through, a pool's or one's own."""

CONNECT_TIMEOUT = 5.0
"""Longest time to make a connection, in seconds."""

ACQUIRE_TIMEOUT = 5.0
"""Longest wait for a pool's free connection, in seconds."""

COMMAND_TIMEOUT = 15.0
"""Longest wait for an answer, in seconds; the roles' `statement_timeout` comes first."""

TCP_USER_TIMEOUT_MS = 10_000
KEEPALIVE_IDLE = 10  # seconds of silence before the first probe
KEEPALIVE_INTERVAL = 5  # seconds
KEEPALIVE_PROBES = 3

_SOCKET_OPTIONS = (
    ("TCP_USER_TIMEOUT", TCP_USER_TIMEOUT_MS),
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
    ("TCP_KEEPCNT", KEEPALIVE_PROBES),
)


class _WatchedConnection(asyncpg.Connection):
    """A connection whose socket notices a peer that vanished."""

    def get_reset_query(self) -> str:
        """Return nothing to send when a pool gets it back, which saves a round trip.

        No service leaves anything in a session: what is set or locked is local to a transaction,
        and one that was left open is rolled back all the same.
        """
        return ""

    def watch_socket(self) -> None:
        """Set what this platform offers of the socket's own time-outs."""
        # The driver offers its socket by no public name.
        peer = self._transport.get_extra_info("socket")  # type: ignore[attr-defined]
        if peer is None or peer.family == socket.AF_UNIX:
            return
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS:
            if hasattr(socket, name):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _watch(connection: asyncpg.Connection) -> None:
    if isinstance(connection, _WatchedConnection):
        connection.watch_socket()


async def open_pool(
    url: str,
    *,
    size: int,
    application_name: str,
    min_size: int = 1,
    statement_cache_size: int = 200,
    command_timeout: float = COMMAND_TIMEOUT,
) -> asyncpg.Pool:
    """Return a pool of at most `size` connections, of which `min_size` are made now.

    Behind a pooler in transaction mode `statement_cache_size` must be 0. Raises Unavailable,
    STORE_UNAVAILABLE, when the server cannot be reached, and FailedPrecondition, CONFIG_INVALID,
    when it is reached but refuses this user or has no such database.
    """
    with classified(), _explained(url):
        return await asyncpg.create_pool(
            url,
            min_size=min(min_size, size),
            max_size=size,
            timeout=CONNECT_TIMEOUT,
            command_timeout=command_timeout,
            statement_cache_size=statement_cache_size,
            connection_class=_WatchedConnection,
            init=_watch,
            server_settings={"application_name": application_name},
        )


async def open_connection(
    url: str,
    *,
    application_name: str,
    command_timeout: float | None = COMMAND_TIMEOUT,
) -> asyncpg.Connection:
    """Return one connection, for LISTEN, migrations and tools; raises as `open_pool` does."""
    with classified(), _explained(url):
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_TIMEOUT,
            command_timeout=command_timeout,
            connection_class=_WatchedConnection,
            server_settings={"application_name": application_name},
        )
    await _watch(connection)
    return connection


@asynccontextmanager
async def acquire(pool: asyncpg.Pool) -> AsyncIterator[PoolConnectionProxy]:
    """Lend a connection of the pool.

    Raises Unavailable, STORE_UNAVAILABLE, when none is free within `ACQUIRE_TIMEOUT`; what the
    body raises of the driver's errors is raised as `classify` understands it.
    """
    with classified():
        async with pool.acquire(timeout=ACQUIRE_TIMEOUT) as connection:
            yield connection


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn a refusal that waiting does not cure into an error that says what to put right."""
    try:
        yield
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise _refused(url, error, "correct the user and password in the URL") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise _refused(url, error, "create the database, or correct its name in the URL") from error
    except asyncpg.ClientConfigurationError as error:
        raise _refused(url, error, "write it as postgresql://user@host:port/database") from error
    except OSError as error:
        raise Unavailable(
            f"what: no PostgreSQL can be reached: {error}\n"
            f"where: {shown(url)}\n"
            "do this: start the server, or correct host and port in the URL",
            reason=Reason.STORE_UNAVAILABLE,
            retry_after=BACK_OFF_SECONDS,
        ) from error


def _refused(url: str, error: Exception, do_this: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"what: the database refused the connection: {error}\n"
        f"where: {shown(url)}\n"
        f"do this: {do_this}",
        reason=Reason.CONFIG_INVALID,
    )


def shown(url: str) -> str:
    """Return the URL as it may be shown to people: without its password and parameters."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{host}{parts.path}"
