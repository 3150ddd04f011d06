"""Outside calls by the thousand while services are killed at random: none twice, none lost (R8)."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import perdure
import pytest
import pytest_asyncio
from perdure_stack.services import process_names
from perdure_testkit.provider import (
    DROP_AFTER_WORK,
    DROP_BEFORE_WORK,
    FAIL_AFTER_WORK,
    IGNORED,
    WORK,
    Provider,
    too_many,
)
from perdure_testkit.verdict import assert_nothing_left, ended
from perdure_testkit.waiting import eventually

from tests.chaos.rig import RECOVERY_SECONDS, Rig

pytestmark = pytest.mark.asyncio(loop_scope="session")

ITEMS = 50
"""Calls of one run."""

SEED = 20261129
QUIET = [WORK] * 40
TROUBLE = [*QUIET, DROP_AFTER_WORK, DROP_BEFORE_WORK, FAIL_AFTER_WORK, too_many("0")]
DOUBT = [*QUIET, too_many("0")]
"""What becomes of calls that nobody can recognise: only a death leaves one to a person."""

LOOKUP = {"url": "${input.url}/lookup?key=${run.id}/each[${string(index)}]/call/request"}
_UNDECIDED = """
SELECT FROM runs WHERE workflow = 'storm_fax' AND status = 'running' LIMIT 1
"""

KINDS: dict[str, object] = {
    "pay": "provider",
    "book": {"kind": "reconcile", "lookup": LOOKUP},
    "fax": "none",
}


def workflow(name: str) -> str:
    call = {"method": "POST", "url": f"${{input.url}}/{name}", "effect": KINDS[name]}
    retry = {"max": 200, "base": "20ms", "cap": "500ms"}
    node = {"http": call, "timeout": "5s", "retry": retry}
    each = {"in": "${input.items}", "concurrency": 10, "nodes": {"call": node}}
    return json.dumps({"name": f"storm_{name}", "nodes": {"each": {"for_each": each}}})


@dataclass
class Storm:
    """The providers of the kinds, and the runs that call them."""

    rig: Rig
    keyed: Provider
    unkeyed: Provider
    chance: random.Random

    def of(self, name: str) -> Provider:
        return self.keyed if name == "pay" else self.unkeyed

    def script(self, name: str, calls: int) -> None:
        behaviours = DOUBT if name == "fax" else TROUBLE
        self.of(name).script(f"/{name}", *self.chance.choices(behaviours, k=calls))

    async def start(self, name: str) -> str:
        given = {"url": self.of(name).url(""), "items": list(range(ITEMS))}
        return (await self.rig.engine.client.start_run(f"storm_{name}", given)).run_id

    async def rage(self, kills: int) -> None:
        """Kill services at random, each after the last one has come back."""
        for _ in range(kills):
            name = self.chance.choice(process_names(2))
            await self.rig.engine.supervisor.kill(name)
            await self.rig.engine.supervisor.start(name)

    async def completed(self, run_id: str) -> None:
        """See a run completed."""
        client = self.rig.engine.client
        run = await ended(client, self.rig.place, run_id, within=10 * RECOVERY_SECONDS)
        assert run.status == perdure.RunStatus.RUN_STATUS_COMPLETED, run

    async def decide(self) -> None:
        """Let a person say of each call in doubt what its provider knows, until none is left."""

        async def is_done() -> bool:
            async for entry in self.rig.engine.client.effects.list(status="needs_review"):
                await self._decide(entry.effect.key)
            return not await self.rig.place.fetch(_UNDECIDED)

        await eventually(is_done, within=10 * RECOVERY_SECONDS, what="all is decided")

    async def _decide(self, key: str) -> None:
        effects = self.rig.engine.client.effects
        if self.unkeyed.times_worked(key):
            await effects.settle(key, {"status": 200}, asked_by="ada")
        else:
            await effects.repeat(key, asked_by="ada")


@pytest_asyncio.fixture(loop_scope="session")
async def storm(rig: Rig) -> AsyncIterator[Storm]:
    print(f"seed {SEED}")
    found = Storm(rig, Provider(), Provider(IGNORED), random.Random(SEED))
    for provider in (found.keyed, found.unkeyed):
        await provider.start()
    for name in KINDS:
        await rig.engine.client.publish_workflow(workflow(name))
    yield found
    for provider in (found.keyed, found.unkeyed):
        await provider.stop()


async def rage(storm: Storm, runs: dict[str, int], kills: int) -> None:
    for name, count in runs.items():
        storm.script(name, 2 * count * ITEMS)
    wanted = [name for name, count in runs.items() for _ in range(count)]
    storm.chance.shuffle(wanted)
    starting = asyncio.gather(*map(storm.start, wanted))
    await storm.rage(kills)
    run_ids = await starting
    await storm.decide()
    await asyncio.gather(*map(storm.completed, run_ids))
    keys = {f"{run}/each[{index}]/call/request" for run in run_ids for index in range(ITEMS)}
    done = Counter(storm.keyed.worked()) + Counter(storm.unkeyed.worked())
    assert {key: times for key, times in done.items() if times > 1} == {}, "done twice"
    assert keys - done.keys() == set(), "lost"
    assert done.keys() - keys == set()
    await assert_nothing_left(storm.rig.place)


@pytest.mark.timeout(240)
async def test_r8_of_three_hundred_effects_under_kills_none_is_done_twice_or_lost(
    storm: Storm,
) -> None:
    await rage(storm, {"pay": 3, "book": 2, "fax": 1}, kills=4)


@pytest.mark.long
@pytest.mark.timeout(3000)
async def test_r8_of_ten_thousand_effects_under_kills_none_is_done_twice_or_lost(
    storm: Storm,
) -> None:
    await rage(storm, {"pay": 120, "book": 60, "fax": 20}, kills=60)
