"""An operator's lane, from the first workflow that names it too early to the last change of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest
from perdure import PerdureApiError
from perdure_contracts.v1.lane_service_pb2 import PutLaneRequest

from tests.e2e.scene import SHARED_ENGINE, Document, Scene

pytestmark = SHARED_ENGINE

MAIL: Document = {"only": {"lane": "mail", "task": {"handler": "test.echo"}}}


async def perdure(scene: Scene, *arguments: str) -> str:
    """Run a command as an operator does, and return what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure", *arguments,
        env={**os.environ, **scene.environment},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_a_lane_is_made_used_changed_and_kept_without_restarts(scene: Scene) -> None:
    with pytest.raises(PerdureApiError) as refused:
        await scene.start(MAIL)
    assert [(one.field, one.description) for one in refused.value.fields] == [
        ("nodes.only.lane", "there is no lane 'mail' (known: io, slow)")
    ]
    printed = await perdure(
        scene, "lane", "put", "mail", "--shards", "2", "--retry-max", "1", "--json"
    )
    assert json.loads(printed)["shards"] == 2
    await scene.completed(await scene.start(MAIL))
    for shards in (3, 1):
        await scene.client.lanes.put(PutLaneRequest(lane="mail", shards=shards))
        runs = [await scene.start(MAIL) for _ in range(6)]
        for run_id in runs:
            await scene.completed(run_id)
    with pytest.raises(PerdureApiError) as refused:
        await scene.client.lanes.delete("mail")
    assert refused.value.reason == "LANE_IN_USE"


async def test_a_lane_that_cannot_be_so_is_refused_by_its_fields(scene: Scene) -> None:
    with pytest.raises(PerdureApiError) as refused:
        await scene.client.lanes.put(PutLaneRequest(lane="Mail", shards=0, poison_limit=0))
    assert refused.value.reason == "FIELD_INVALID"
    assert [one.field for one in refused.value.fields] == ["lane", "shards", "poison_limit"]
    with pytest.raises(PerdureApiError) as refused:
        await scene.client.lanes.get("Mail")
    assert refused.value.reason == "LANE_NOT_FOUND"


async def test_operators_see_lanes_and_set_weights(scene: Scene) -> None:
    assert "io" in await perdure(scene, "lane", "list")
    assert "2 from 30.0 s, times 2, at most 10 min" in await perdure(scene, "lane", "show", "slow")
    assert await perdure(scene, "lane", "weigh", "default", "4") == "default weighs 4\n"
    assert "default  4" in await perdure(scene, "lane", "weights")
    with pytest.raises(PerdureApiError) as refused:
        await scene.client.lanes.put_weight("nobody", 2)
    assert refused.value.reason == "ORG_NOT_FOUND"
