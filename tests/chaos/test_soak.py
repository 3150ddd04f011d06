"""Services killed at random while many runs go on."""

from __future__ import annotations

import asyncio
import random

import pytest
from perdure_stack.services import process_names
from perdure_testkit.tours import Tour

from tests.chaos.rig import Rig

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.long,
    pytest.mark.timeout(600),
]

KILLS = 30
RUNS_A_KILL = 10
SEED = 20260401


async def test_hundreds_of_runs_end_while_services_are_killed_at_random(rig: Rig) -> None:
    chance = random.Random(SEED)
    starting: list[asyncio.Task[Tour]] = []

    for _ in range(KILLS):
        starting += [asyncio.create_task(rig.tours.start()) for _ in range(RUNS_A_KILL)]
        name = chance.choice(process_names(2))
        await rig.engine.supervisor.kill(name)
        await rig.engine.supervisor.start(name)

    await rig.all_complete(list(await asyncio.gather(*starting)))
