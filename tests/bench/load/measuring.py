"""One stretch of load, and everything that was counted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tests.bench.load.counters import Counters, counted
from tests.bench.load.processes import used
from tests.bench.load.waits import Waits, watching
from tests.bench.rig import Rig


@dataclass(frozen=True, slots=True)
class Stretch:
    """What `steps` steps took: seconds, seconds of a core by process, counters, waits."""

    name: str
    steps: int
    seconds: float
    cpu: Mapping[str, float]
    counters: Counters
    waits: Waits


async def measured(rig: Rig, name: str, load: Callable[[], Awaitable[int]]) -> Stretch:
    """Run a load, which returns its number of steps, and measure all of it."""
    before = await counted(rig.database)
    async with watching(rig.stack.backends.database_url) as waits:
        cpu, began = used(rig.stack.directory), time.monotonic()
        steps = await load()
        seconds = time.monotonic() - began
        after = used(rig.stack.directory)
    spent = {kind: value - cpu.get(kind, 0.0) for kind, value in after.items()}
    return Stretch(name, steps, seconds, spent, (await counted(rig.database)).since(before), waits)


async def for_seconds(seconds: float, round_of: Callable[[], Awaitable[int]]) -> int:
    """Repeat a round until so many seconds are over; return the steps of all of them."""
    steps, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        steps += await round_of()
    return steps
