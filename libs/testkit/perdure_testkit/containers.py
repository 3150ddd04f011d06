"""PostgreSQL and Valkey in containers, where Docker answers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import cache

from docker.errors import DockerException  # type: ignore[import-untyped]
from testcontainers.community.postgres import PostgresContainer
from testcontainers.community.redis import RedisContainer
from testcontainers.core.docker_client import DockerClient

POSTGRES_IMAGE = "postgres:18"
VALKEY_IMAGE = "valkey/valkey:9"
PROBE_TIMEOUT = 2  # seconds
DATABASE = "postgres"


@cache
def docker_answers() -> bool:
    """Tell whether a Docker engine is there; asked once per process."""
    try:
        DockerClient(timeout=PROBE_TIMEOUT).client.ping()
    except DockerException:
        return False
    return True


def start_postgres(stack: AsyncExitStack) -> str:
    """Start a PostgreSQL that `stack` stops; return its superuser's URL."""
    container = PostgresContainer(POSTGRES_IMAGE, dbname=DATABASE, driver=None)
    container.with_command("postgres -c fsync=off -c max_connections=200")
    stack.callback(container.stop)
    container.start()
    return container.get_connection_url()


def start_valkey(stack: AsyncExitStack) -> str:
    """Start a Valkey that `stack` stops; return its URL."""
    container = RedisContainer(VALKEY_IMAGE)
    stack.callback(container.stop)
    container.start()
    return f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"
