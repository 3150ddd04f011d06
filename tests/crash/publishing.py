"""Fail points that a workflow of the test's own reaches."""

from __future__ import annotations

import asyncio
import json
import uuid

from tests.crash.matrix import Entry
from tests.crash.stage import Stage

_ROW: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
"""Nodes in a row, by what they need."""


async def by_handing_over(stage: Stage, entry: Entry) -> None:
    """A worker reports on one step of a row and is handed the next."""
    name = f"row_{uuid.uuid4().hex[:8]}"
    task = {"handler": "test.echo", "input": {"n": 1}}
    nodes = {node: {"task": task, "needs": needs} for node, needs in _ROW.items()}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    stage.arm(entry)
    starting = asyncio.create_task(stage.client.start_run(name))
    await stage.crash(entry)
    await stage.ends((await starting).run_id)


async def by_publishing(stage: Stage, entry: Entry) -> None:
    """A workflow is published; the version that comes of it runs."""
    name = f"published_{uuid.uuid4().hex[:8]}"
    document = {"name": name, "nodes": {"first": {"task": {"handler": "test.echo"}}}}
    stage.arm(entry)
    publishing = asyncio.create_task(stage.client.publish_workflow(json.dumps(document)))
    await stage.crash(entry)
    await publishing
    versions = await stage.place.fetch("SELECT version FROM workflows WHERE name = $1", name)
    assert [row["version"] for row in versions] == [1]
    await stage.ends((await stage.client.start_run(name)).run_id)
