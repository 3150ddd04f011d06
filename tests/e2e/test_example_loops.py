"""The examples that loop, as a reader runs them: a nightly batch and a polling loop."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

EXAMPLES = Path(__file__).parents[2] / "examples"
ACCOUNTS = 100
CLOSED = 4


async def test_the_nightly_batch_makes_all_but_the_closed_accounts_once_a_night(
    scene: Scene,
) -> None:
    await scene.client.publish_workflow((EXAMPLES / "nightly_batch/workflow.yaml").read_bytes())
    given = {"night": "2026-05-31", "accounts": ACCOUNTS}
    key = "statements-2026-05-31"
    first, again = [
        (await scene.client.start_run("statements", given, start_key=key)).run_id for _ in range(2)
    ]
    assert first == again
    run = await scene.completed(first)
    assert json.loads(run.output) == {
        "night": "2026-05-31",
        "made": ACCOUNTS - CLOSED,
        "failed": CLOSED,
    }


async def test_the_polling_loop_looks_until_the_export_is_ready(scene: Scene) -> None:
    await scene.client.publish_workflow((EXAMPLES / "polling_loop/workflow.yaml").read_bytes())
    given = {"table": "orders", "every": "300ms"}
    run = await scene.completed((await scene.client.start_run("export", given)).run_id)
    output = json.loads(run.output)
    assert output["rows"] == len("exports/orders.csv")
    assert output["looks"] > 1
