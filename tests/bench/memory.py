"""What each service holds in memory after load."""

from __future__ import annotations

import time
from collections.abc import Mapping

import psutil

from tests.bench.chains import AT_ONCE, chained, publish
from tests.bench.figures import Figure
from tests.bench.jobs import TYPE, enqueue_batches
from tests.bench.rig import Rig, Size

MEGABYTE = 1 << 20
JOBS = 2000
SECONDS = 60.0
LONG_SECONDS = 600.0


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Load the services with chains and jobs, then look; long, ten minutes, printing each one.

    Briefly, what was measured before is the load.
    """
    if size.quick:
        return {"rss_mb": Figure(resident(rig))}
    await publish(rig)
    await rig.client.jobs.put_type(TYPE, handler="bench.nothing")
    shown = time.monotonic()
    ends = shown + (LONG_SECONDS if size.long else SECONDS)
    while True:
        await chained(rig, AT_ONCE)
        await rig.wait_ended(await enqueue_batches(rig, TYPE, JOBS))
        if time.monotonic() >= ends:
            return {"rss_mb": Figure(resident(rig))}
        if time.monotonic() > shown + SECONDS:
            shown = time.monotonic()
            print("  rss_mb", resident(rig), flush=True)


def resident(rig: Rig) -> Mapping[str, float]:
    """Return the resident megabytes of each service."""
    pids = {name: service.pid for name, service in rig.stack.record.services.items()}
    return {
        name: round(psutil.Process(pid).memory_info().rss / MEGABYTE, 1)
        for name, pid in pids.items()
        if pid is not None
    }
