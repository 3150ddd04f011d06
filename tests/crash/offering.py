"""A death while a first step is handed to a worker that waits for one."""

from __future__ import annotations

import asyncio

from tests.crash.matrix import Entry
from tests.crash.stage import Stage

LOOK_SECONDS = 0.5
"""Time between two runs that may find a worker which waits."""


async def by_a_run_that_is_waited_for(stage: Stage, entry: Entry) -> None:
    """Runs start until the first step of one is handed to a worker that waits."""
    stage.arm(entry)
    crash = asyncio.create_task(stage.crash(entry))
    tours = []
    while not crash.done():
        tours.append(await stage.tours.start())
        await asyncio.wait({crash}, timeout=LOOK_SECONDS)
    await crash
    await stage.tours.assert_completed(tours)
