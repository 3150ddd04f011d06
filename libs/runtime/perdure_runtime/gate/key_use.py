"""When keys were last used: noted here at no cost, and told to the coordinator now and then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from perdure_runtime.loop import Loop, LoopSettings, Pass

INTERVAL = 60.0
"""Seconds between two tellings."""

MAX_PREFIXES = 1000
"""Secrets that one telling names, as its contract says."""

Tell = Callable[[Sequence[str]], Awaitable[None]]
"""Tells the coordinator that the secrets of these prefixes were used; raises PerdureError."""


class KeyUse(Loop):
    """Gathers the prefixes of secrets that were used."""

    def __init__(self, name: str, tell: Tell) -> None:
        self._tell = tell
        self._used: set[str] = set()
        super().__init__(name, self.tell, LoopSettings(INTERVAL))

    def note(self, prefix: str) -> None:
        """Remember that a secret was used."""
        self._used.add(prefix)

    async def tell(self) -> Pass:
        """Tell the coordinator what was used; what it was not told is told next time."""
        told = sorted(self._used)[:MAX_PREFIXES]
        if not told:
            return Pass()
        await self._tell(told)
        self._used.difference_update(told)
        return Pass({"keys": len(told)}, more=bool(self._used))
