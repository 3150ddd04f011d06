"""Servers that tests may harm, an engine on them, and runs that are caught in the middle."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.valkey import EmbeddedValkey
from perdure_testkit.engine import Engine
from perdure_testkit.place import Place
from perdure_testkit.tours import Tour, Tours

HELD_RUNS = 8
"""Runs whose outside call is open when the fault comes."""

OTHER_RUNS = 12
"""Runs that are anywhere then, or begin while the fault lasts."""

RECOVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Rig:
    """Everything here may be killed; a test leaves it running."""

    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    tours: Tours

    @property
    def engine(self) -> Engine:
        """The engine on these servers."""
        return self.tours.engine

    @property
    def place(self) -> Place:
        """Where the engine keeps its state."""
        return self.engine.place

    async def start_runs(self) -> list[Tour]:
        """Start runs and return when some of them hold their outside calls open."""
        held = asyncio.gather(*(self.tours.start_held_open() for _ in range(HELD_RUNS)))
        return [*await self.start_more(), *await held]

    async def start_more(self) -> list[Tour]:
        """Start runs that nothing holds."""
        return list(await asyncio.gather(*(self.tours.start() for _ in range(OTHER_RUNS))))

    async def all_complete(self, runs: list[Tour]) -> None:
        """Let every call be answered and see all runs complete."""
        self.tours.let_go()
        await self.tours.assert_completed(runs, within=RECOVERY_SECONDS)
