"""What an item of a loop of 100,000 costs, against one of a loop of 100."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.figures import Figure, ratio
from tests.bench.rig import Rig, Size
from tests.bench.workflows import loop

NAME = "bench_loop"
FEW, MANY = 100, 100_000


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure microseconds an item: small loops, one at a time, before and after the great one."""
    await rig.client.publish_workflow(loop(NAME, MANY))
    await _an_item(rig, FEW)
    few = [await _an_item(rig, FEW) for _ in range(size.rounds())]
    many = [await _an_item(rig, MANY)]
    few += [await _an_item(rig, FEW) for _ in range(size.rounds())]
    return {"foreach_cost_ratio": ratio(many, few)}


async def _an_item(rig: Rig, items: int) -> float:
    given = {"items": [0] * items}
    return 1e6 * await rig.seconds_of(lambda: rig.start_many(NAME, 1, given)) / items
