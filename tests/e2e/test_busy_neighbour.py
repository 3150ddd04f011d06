"""An org with 200,000 queued steps, and another's single step in the same queue."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from uuid import UUID

import pytest
import pytest_asyncio
from perdure_stack.services import process_names
from perdure_testkit.busy_neighbour import WORKFLOW, look, one_call, queue_up
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.place import Place, temporary_place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import Servers
from perdure_testkit.verdict import ended

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

ENGINE_NUMBER = 6
BACKLOG = 200_000
SAMPLES = 200
FLOOR_MS = 300.0
RUN_SECONDS = 60.0
WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Street:
    """An engine with one worker, and the provider that both orgs call."""

    engine: Engine
    provider: Provider

    @property
    def place(self) -> Place:
        return self.engine.place


@pytest_asyncio.fixture
async def street(servers: Servers, worker_number: int) -> AsyncIterator[Street]:
    async with temporary_place(servers, ENGINE_NUMBER + worker_number) as place:
        provider = Provider()
        await provider.start()
        async with Engine(place, Crew(process_names(1))) as engine:
            yield Street(engine, provider)
        await provider.stop()


async def one_step(street: Street) -> UUID:
    """Run the quiet org's step to its end."""
    client = street.engine.client
    run_id = (await client.start_run(WORKFLOW)).run_id
    await ended(client, street.place, run_id, within=RUN_SECONDS)
    return UUID(run_id)


async def test_f071_one_step_beside_200000_of_another_org_starts_within_the_floor(
    street: Street, record_property: Callable[[str, object], None]
) -> None:
    supervisor, document = street.engine.supervisor, one_call(street.provider)
    await street.engine.client.publish_workflow(document)
    await supervisor.stop(WORKER)
    await queue_up(street.place, street.engine.ports.address("coordinator"), document, BACKLOG)
    await supervisor.start(WORKER)
    await one_step(street)
    runs = [await one_step(street) for _ in range(SAMPLES)]

    seen = await look(street.place, runs)
    found = {
        "p50_ms": round(statistics.median(seen.waited), 1),
        "p99_ms": round(seen.p99, 1),
        "one_step_ms": round(seen.step, 1),
        "left": seen.left,
    }
    record_property("busy_neighbour", found)
    print(found)
    assert seen.left > BACKLOG / 2, "the backlog was there to the end"
    assert seen.p99 <= FLOOR_MS, found
