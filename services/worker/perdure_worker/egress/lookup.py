"""Turns a host into addresses that may be called.

A name is resolved once for each connection, and that connection is made to the address that was
checked: a name that answers otherwise a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from perdure_worker.egress.addresses import AddressRule

MAX_ADDRESSES = 8
"""Most addresses of a host that are tried."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host, most wanted first. Raises OSError or UnicodeError."""


class NameUnresolved(Exception):
    """The host has no address that could be found."""


class AddressRefused(Exception):
    """Nothing that the host stands for may be called."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finds addresses and lets only the allowed ones through."""

    resolve: Resolve
    rule: AddressRule

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses to try, at least one. Raises NameUnresolved, AddressRefused."""
        try:
            found = await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise NameUnresolved(f"{host} cannot be resolved: {error}") from error
        if not found:
            raise NameUnresolved(f"{host} has no address")
        allowed = [address for address in found if self.rule.allows(address)]
        if not allowed:
            # The address stays out: where names of the inside point to is nobody's business here.
            raise AddressRefused(
                f"{host} is not on the public internet: an operator may allow it with "
                "PERDURE_WORKER_EGRESS_ALLOW"
            )
        return allowed[:MAX_ADDRESSES]


def system_resolver(threads: Executor) -> Resolve:
    """Return the resolver of the system, which blocks and so runs in `threads`."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(threads, _getaddrinfo, host, port)
        return list(dict.fromkeys(found))

    return resolve


def _getaddrinfo(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
