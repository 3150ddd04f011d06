"""An embedded Valkey on loopback: the streams that hint at work, never the work itself."""

import shutil
import signal
from pathlib import Path
from typing import ClassVar

import redis.asyncio as redis
from redis.exceptions import RedisError

from perdure_stack.home import own_directory
from perdure_stack.occupants import wait_until_vacant
from perdure_stack.ports import LOOPBACK
from perdure_stack.programs import valkey_program
from perdure_stack.server import START_TIMEOUT, EmbeddedServer

CONNECT_TIMEOUT = 2.0  # seconds


class EmbeddedValkey(EmbeddedServer):
    """Valkey with its append-only file under ``directory``.

    Without ``durable`` it keeps nothing over a restart. It refuses writes when memory runs out
    and evicts nothing: a stream that lost entries in silence would be a wrong hint.
    """

    name = "Valkey"
    stop_steps: ClassVar[tuple[tuple[signal.Signals, float], ...]] = ((signal.SIGTERM, 10.0),)

    def __init__(
        self,
        directory: Path = Path(".perdure/valkey"),
        *,
        port: int | None = None,
        durable: bool = True,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        super().__init__(directory, port=port, durable=durable, start_timeout=start_timeout)

    @property
    def url(self) -> str:
        """The URL of this server's first database."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    async def restart_empty(self) -> None:
        """Stop the server, drop its data and start it again on the same port."""
        await self.stop()
        shutil.rmtree(self._home() / "data", ignore_errors=True)
        await self.start()

    async def _prepare(self, home: Path) -> None:
        data = own_directory(home / "data", self._account)
        await wait_until_vacant(self.name, data)

    def _command(self, home: Path, port: int) -> list[str]:
        command = [str(valkey_program(self._account)), "--bind", LOOPBACK, "--port", str(port)]
        command += ["--dir", str(home / "data"), "--save", "", "--daemonize", "no"]
        command += ["--appendonly", "yes" if self.durable else "no"]
        return [*command, "--maxmemory-policy", "noeviction"]

    async def _answers(self, home: Path, port: int) -> bool:
        client = redis.Redis(host=LOOPBACK, port=port, socket_connect_timeout=CONNECT_TIMEOUT)
        try:
            # An append-only file that is still being read is answered by an error.
            await client.ping()
            served = await client.config_get("dir")
        except (OSError, RedisError):
            return False
        finally:
            await client.aclose()
        return served["dir"] == str(home / "data")
