"""Steps a second beside a million runs that wait, against none."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from perdure_testkit.copies import copy_run

from tests.bench.chains import AT_ONCE, WARM_UP, chained, publish
from tests.bench.figures import Figure, ratio
from tests.bench.rig import Rig, Size
from tests.bench.workflows import reply

WAITING = "bench_waiting"
RUNS = 1_000_000


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure before and after a run that waits was copied a million times.

    Each of them waits for a signal with a deadline, so it has a wait and a timer.
    """
    await publish(rig)
    await rig.client.publish_workflow(reply(WAITING))
    await chained(rig, WARM_UP)
    none = [await chained(rig, AT_ONCE) for _ in range(size.rounds())]
    run_id = UUID((await rig.client.start_run(WAITING)).run_id)
    await copy_run(rig.place, run_id, RUNS)
    await rig.database.execute("CHECKPOINT")
    await chained(rig, WARM_UP)
    million = [await chained(rig, AT_ONCE) for _ in range(size.rounds())]
    return {"million_waiting_ratio": ratio(million, none)}
