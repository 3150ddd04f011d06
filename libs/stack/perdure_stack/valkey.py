"""An embedded Valkey on loopback: the streams that hint at work, never the work itself."""

import asyncio
import contextlib
import shutil
import signal
from pathlib import Path
from typing import ClassVar

from perdure_stack.home import own_directory
from perdure_stack.occupants import wait_until_vacant
from perdure_stack.ports import LOOPBACK
from perdure_stack.programs import valkey_program
from perdure_stack.server import START_TIMEOUT, EmbeddedServer

PROBE_TIMEOUT = 2.0  # seconds


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
        try:
            reply = await asyncio.wait_for(_ask_directory(port), PROBE_TIMEOUT)
        except (OSError, TimeoutError, EOFError):
            return False
        return reply == str(home / "data").encode()


async def _ask_directory(port: int) -> bytes:
    """Ask by an inline command, which saves the import of a client library (0.6 s) at each start.

    A server that still reads its append-only file answers one line, an error.
    """
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(b"CONFIG GET dir\r\n")
        if not (await reader.readline()).startswith(b"*2"):
            return b""
        name_and_value = [await reader.readline() for _ in range(4)]
        return name_and_value[-1].rstrip(b"\r\n")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
