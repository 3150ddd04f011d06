"""How soon another org's single step starts behind 200,000 of one org in the same queue."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from perdure_testkit.busy_neighbour import WORKFLOW, look, one_call, queue_up
from perdure_testkit.provider import Provider

from tests.bench.figures import Figure, short
from tests.bench.rig import Rig, Size

BACKLOG = 200_000
SAMPLES = 200
WORKER = "worker"
RUN_SECONDS = 60.0


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure 200 steps to a provider that answers at once."""
    provider = Provider()
    await provider.start()
    try:
        return {"fair_other_org_p99_ms": await _beside_the_backlog(rig, provider)}
    finally:
        await provider.stop()


async def _beside_the_backlog(rig: Rig, provider: Provider) -> Figure:
    document, supervisor = one_call(provider), rig.stack.supervisor
    await rig.client.publish_workflow(document)
    await supervisor.stop(WORKER)
    await queue_up(rig.place, rig.stack.ports.address("coordinator"), document, BACKLOG)
    await supervisor.start(WORKER)
    await _one_step(rig)
    seen = await look(rig.place, [await _one_step(rig) for _ in range(SAMPLES)])
    return Figure(seen.p99, f"one step {short(seen.step)} ms, {seen.left} left in the queue")


async def _one_step(rig: Rig) -> UUID:
    run_id = (await rig.client.start_run(WORKFLOW)).run_id
    await rig.client.wait_run(run_id, RUN_SECONDS)
    return UUID(run_id)
