"""What tracing costs: steps a second at 5 % and at 100 % against none, to an endpoint beside it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.chains import AT_ONCE, WARM_UP, chained, publish
from tests.bench.figures import Figure, ratio
from tests.bench.rig import Rig, Size, tracing

SHARES = (0.0, 0.05, 1.0)
ROUNDS = 5


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure the three interleaved."""
    await publish(rig)
    none: list[float] = []
    some: list[float] = []
    every: list[float] = []
    for _ in range(ROUNDS):
        for share, rounds in zip(SHARES, (none, some, every), strict=True):
            await rig.stop_services()
            await rig.start_services(tracing(rig.endpoint, share))
            await chained(rig, WARM_UP)
            rounds.append(await chained(rig, AT_ONCE))
    return {"tracing_5_ratio": ratio(some, none), "tracing_100_ratio": ratio(every, none)}
