"""All that every outside call shares: who may be called, and who is believed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from perdure_runtime.lifecycle import Component

from perdure_worker.egress.addresses import AddressRule, Network
from perdure_worker.egress.lookup import Lookup, system_resolver
from perdure_worker.egress.trust import authorities


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """`allowed` networks may be called besides the public internet; the authorities in `ca_file`
    are believed besides the public ones; so many `lookups` are under way at once.
    """

    allowed: Sequence[Network]
    ca_file: str
    lookups: int


class Egress(Component):
    """Holds the threads in which names are resolved. Raises InvalidArgument for a bad `ca_file`."""

    def __init__(self, settings: EgressSettings) -> None:
        super().__init__()
        self.authorities = authorities(settings.ca_file)
        # Threads of their own: a name server that hangs must not hold other work.
        self._threads = ThreadPoolExecutor(settings.lookups, thread_name_prefix="lookup")
        self.lookup = Lookup(system_resolver(self._threads), AddressRule(settings.allowed))

    async def on_start(self) -> None:
        """Nothing to do: threads begin when they are needed."""

    async def on_stop(self) -> None:
        """Begin no look-up any more; one that hangs is left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)
