"""An embedded PostgreSQL: one cluster in a directory, on loopback, trusted by the machine's users.

Started by a launcher of our own from the programs inside a wheel. Whether a server lives is
judged by connecting to it: the pid file of a killed server names a number that may be anybody's.
"""

import asyncio
import contextlib
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import asyncpg
import psutil

from perdure_stack import cluster
from perdure_stack.account import open_temporary_root
from perdure_stack.errors import StackError
from perdure_stack.home import own_directory
from perdure_stack.occupants import wait_until_vacant
from perdure_stack.ports import LOOPBACK
from perdure_stack.programs import postgres_major, postgres_programs
from perdure_stack.server import START_TIMEOUT, EmbeddedServer

CONNECT_TIMEOUT = 5.0  # seconds
KILL_INTERVAL = 0.005  # seconds
# Socket paths are limited to 103 bytes on macOS and 107 on Linux, file name included.
LONGEST_SOCKET_DIRECTORY = 80

BASE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": LOOPBACK,
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %u@%d ",
    }
)
# Commits stay synchronous: a killed process then still loses nothing that was acknowledged.
FAST_SETTINGS: Mapping[str, str] = MappingProxyType({"fsync": "off", "full_page_writes": "off"})


class EmbeddedPostgres(EmbeddedServer):
    """PostgreSQL with its cluster under ``directory``.

    ``settings`` are written to postgresql.conf at each start, over the defaults here. The
    superuser is ``postgres``; every local connection is trusted.
    """

    name = "PostgreSQL"
    stop_steps: ClassVar[tuple[tuple[signal.Signals, float], ...]] = (
        (signal.SIGINT, 15.0),
        (signal.SIGQUIT, 5.0),
    )

    def __init__(
        self,
        directory: Path = Path(".perdure/postgres"),
        *,
        port: int | None = None,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        super().__init__(directory, port=port, durable=durable, start_timeout=start_timeout)
        self._settings = dict(settings or {})
        self._borrowed_sockets: Path | None = None

    def dsn(self, database: str = "postgres", user: str = cluster.SUPERUSER) -> str:
        """Return the URL of a database of this server for a role."""
        return f"postgresql://{user}@{LOOPBACK}:{self.port}/{database}"

    @property
    def socket_directory(self) -> Path:
        """Where the Unix socket is: a host that drivers take in place of a name."""
        return self._sockets(self._home())

    async def create_database(self, name: str) -> None:
        """Create a database; one that exists is left as it is."""
        connection = await self._connect(self.port)
        try:
            exists = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name)
            if not exists:
                quoted = name.replace('"', '""')
                await connection.execute(f'CREATE DATABASE "{quoted}"')
        finally:
            await connection.close()

    async def kill(self) -> None:
        """End the server and all its backends with SIGKILL, and wait until they are gone."""
        pid = self.pid
        # Backends outlive their parent for a moment, and a start in that moment is refused.
        backends = psutil.Process(pid).children() if pid is not None else []
        await super().kill()
        while alive := [backend for backend in backends if _lives(backend)]:
            for backend in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    backend.kill()
            await asyncio.sleep(KILL_INTERVAL)

    async def _prepare(self, home: Path) -> None:
        programs = postgres_programs(self._account)
        data = home / "data"
        if not data.exists():
            await cluster.initialise(programs, home, self._account, self._log, durable=self.durable)
            return
        cluster.refuse_foreign(data, self._account)
        cluster.refuse_other_major(data, postgres_major())
        await self._refuse_live_server(home)
        await wait_until_vacant(self.name, data)
        cluster.remove_stale_pid(data)

    async def _refuse_live_server(self, home: Path) -> None:
        port = cluster.recorded_port(home / "data")
        if port is not None and await self._answers(home, port):
            raise StackError(
                "a PostgreSQL already runs on this data directory",
                f"{home / 'data'}, port {port}",
                "stop the stack that started it, or use another directory",
            )

    def _command(self, home: Path, port: int) -> list[str]:
        settings = {
            **BASE_SETTINGS,
            **({} if self.durable else FAST_SETTINGS),
            "port": str(port),
            "unix_socket_directories": str(self._sockets(home)),
            **self._settings,
        }
        file = cluster.write_settings(home, settings)
        program = postgres_programs(self._account) / "postgres"
        return [str(program), "-D", str(home / "data"), "-c", f"config_file={file}"]

    def _sockets(self, home: Path) -> Path:
        place = home / "sockets"
        if len(bytes(place)) <= LONGEST_SOCKET_DIRECTORY:
            return own_directory(place, self._account)
        if self._borrowed_sockets is None:
            root = open_temporary_root(self._account)
            borrowed = Path(tempfile.mkdtemp(prefix="perdure-", dir=root))
            self._borrowed_sockets = own_directory(borrowed, self._account)
        return self._borrowed_sockets

    def _clean_up(self) -> None:
        if self._borrowed_sockets is not None:
            shutil.rmtree(self._borrowed_sockets, ignore_errors=True)
            self._borrowed_sockets = None

    async def _answers(self, home: Path, port: int) -> bool:
        try:
            connection = await self._connect(port)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        try:
            served = await connection.fetchval("SHOW data_directory")
            return Path(served) == home / "data"
        finally:
            await connection.close()

    async def _connect(self, port: int) -> asyncpg.Connection:
        return await asyncpg.connect(
            host=LOOPBACK,
            port=port,
            user=cluster.SUPERUSER,
            database="postgres",
            ssl=False,
            timeout=CONNECT_TIMEOUT,
        )


def _lives(backend: psutil.Process) -> bool:
    """Whoever inherits a killed backend may leave it a zombie for seconds; that holds nothing."""
    try:
        return backend.is_running() and backend.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
