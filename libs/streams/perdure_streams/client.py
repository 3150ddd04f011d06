"""The connection to Redis or Valkey, checked before anything relies on it."""

from __future__ import annotations

from urllib.parse import urlsplit

from perdure_runtime.errors import FailedPrecondition, Reason
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from perdure_streams.errors import classified

SOCKET_TIMEOUT = 5.0
"""Longest wait for an answer, in seconds."""

MAX_BLOCK_MS = 2000
"""Longest blocking read; well below `SOCKET_TIMEOUT`, so that waiting is not taken for a fault."""

OLDEST_VERSION = (6, 2)
SAFE_POLICY = "noeviction"


async def open_streams(url: str, *, client_name: str, allow_eviction: bool = False) -> Redis:
    """Return a client of a server that can carry streams; the caller closes it with `aclose`.

    It repeats nothing on its own: a blocking read that is sent twice would take entries that
    nobody sees, and every other repeat is decided by whoever asked. TLS and ACL users come in the
    URL. Raises Unavailable, STREAMS_UNAVAILABLE, when the server does not answer, and
    FailedPrecondition, CONFIG_INVALID, when it is too old, refuses the user, or may evict streams
    while `allow_eviction` is not set.
    """
    client = _client(url, client_name)
    try:
        await check_server(client, url, allow_eviction=allow_eviction)
    except BaseException:
        await client.aclose()
        raise
    return client


async def check_server(client: Redis, url: str, *, allow_eviction: bool) -> None:
    """Refuse a server that cannot carry streams, as `open_streams` says."""
    with classified():
        info = await client.info()
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < OLDEST_VERSION:
        found = ".".join(map(str, version))
        raise _refusal(f"the server speaks Redis {found}", url, "use Redis 6.2 or newer, or Valkey")
    # INFO tells it where managed servers forbid CONFIG GET.
    policy = info.get("maxmemory_policy", "unknown")
    if policy != SAFE_POLICY and not allow_eviction:
        raise _refusal(
            f"the eviction policy is {policy}, so that the server may drop streams in silence",
            url,
            f"set maxmemory-policy to {SAFE_POLICY}, or PERDURE_REDIS_ALLOW_EVICTION to true",
        )


def _client(url: str, client_name: str) -> Redis:
    try:
        return Redis.from_url(
            url,
            protocol=2,
            client_name=client_name,
            socket_timeout=SOCKET_TIMEOUT,
            socket_connect_timeout=SOCKET_TIMEOUT,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise _refusal(f"the URL cannot be read: {error}", url, "correct the URL") from error


def _refusal(what: str, url: str, do_this: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"what: {what}\nwhere: {_shown(url)}\ndo this: {do_this}", reason=Reason.CONFIG_INVALID
    )


def _shown(url: str) -> str:
    """The URL without user, password and parameters."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
