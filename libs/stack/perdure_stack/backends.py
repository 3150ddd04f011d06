"""The PostgreSQL and the Valkey of a stack: embedded, or the ones that the environment names."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from perdure_stack.errors import StackError
from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.services import Backends
from perdure_stack.valkey import EmbeddedValkey

DATABASE_URL = "PERDURE_DATABASE_URL"
DIRECT_URL = "PERDURE_DATABASE_DIRECT_URL"
REDIS_URL = "PERDURE_REDIS_URL"
DATABASE = "perdure"
CONNECT_TIMEOUT = 5.0  # seconds


class StackBackends:
    """Starts what the environment does not name and checks that the rest can be reached.

    Services connect to an embedded PostgreSQL each as a role of its own, ``perdure_<service>``;
    a given URL is used by all as it is, because only its owner knows the passwords.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str], *, durable: bool) -> None:
        self._database_url = environ.get(DATABASE_URL)
        self._direct_url = environ.get(DIRECT_URL) or self._database_url
        self._redis_url = environ.get(REDIS_URL)
        self.postgres: EmbeddedPostgres | None = None
        self.valkey: EmbeddedValkey | None = None
        if self._database_url is None:
            self.postgres = EmbeddedPostgres(directory / "postgres", durable=durable)
        if self._redis_url is None:
            self.valkey = EmbeddedValkey(directory / "valkey", durable=durable)

    async def start(self) -> None:
        """Reach the given servers, then start the embedded ones. Raises StackError."""
        if self._database_url is not None:
            await _reach_database(DATABASE_URL, self._database_url)
            await _reach_database(DIRECT_URL, self._direct_url or self._database_url)
        if self._redis_url is not None:
            await _reach_redis(self._redis_url)
        if self.postgres is not None:
            await self.postgres.start()
            await self.postgres.create_database(DATABASE)
        if self.valkey is not None:
            await self.valkey.start()

    async def stop(self) -> None:
        """Stop the embedded servers."""
        for server in (self.valkey, self.postgres):
            if server is not None:
                await server.stop()

    async def destroy(self) -> None:
        """Stop the embedded servers and remove their data, wherever it is."""
        for server in (self.valkey, self.postgres):
            if server is not None:
                await server.destroy()

    @property
    def database_url(self) -> str:
        """The URL for migrations and for people: the superuser's, or the one that was given."""
        return self._url_for(None, self._direct_url)

    @property
    def redis_url(self) -> str:
        """The URL of Valkey."""
        return self._redis_url or (self.valkey.url if self.valkey is not None else "")

    def for_services(self) -> Backends:
        """Return what services are told."""
        return Backends(
            database_url=lambda service: self._url_for(service, self._database_url),
            direct_url=lambda service: self._url_for(service, self._direct_url),
            redis_url=self.redis_url,
        )

    def _url_for(self, service: str | None, given: str | None) -> str:
        if self.postgres is None:
            return given or ""
        if service is None:
            return self.postgres.dsn(DATABASE)
        return self.postgres.dsn(DATABASE, f"perdure_{service}")


def without_secret(url: str) -> str:
    """Return ``url`` without the password, and without the query, which may hold one too."""
    parts = urlsplit(url)
    place = parts.hostname or ""
    try:
        port = parts.port
    except ValueError:
        port = None
    if port is not None:
        place += f":{port}"
    if parts.username:
        place = f"{parts.username}@{place}"
    return f"{parts.scheme}://{place}{parts.path}"


async def _reach_database(setting: str, url: str) -> None:
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as e:
        raise _unreachable("PostgreSQL", setting, url, "postgresql://", e) from None
    await connection.close()


async def _reach_redis(url: str) -> None:
    # Imported here: it takes 0.6 s, which a stack with an embedded Valkey need not wait.
    import redis.asyncio as redis
    from redis.exceptions import RedisError

    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=CONNECT_TIMEOUT)
        try:
            await client.ping()
        finally:
            await client.aclose()
    except (OSError, ValueError, RedisError) as e:
        raise _unreachable("Redis or Valkey", REDIS_URL, url, "redis://", e) from None


def _unreachable(
    server: str, setting: str, url: str, form: str, error: BaseException
) -> StackError:
    reason = str(error) or type(error).__name__
    return StackError(
        f"{server} cannot be reached: {reason}",
        f"{setting}, {without_secret(url)}",
        f"start that server, correct the URL ({form}USER:PASSWORD@HOST:PORT/NAME), or unset "
        f"{setting} to use an embedded server",
    )
