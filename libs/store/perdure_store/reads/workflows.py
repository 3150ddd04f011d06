"""Published workflows and the lanes they may name."""

from __future__ import annotations

from perdure_store.pool import Connection
from perdure_store.reads.rows import WorkflowRow
from perdure_store.sql import sql

MAX_VERSION = 2**31 - 1


async def read_workflow(
    connection: Connection, org: str, name: str, version: int
) -> WorkflowRow | None:
    """Read one version with its document; version 0 is the latest."""
    found = await connection.fetchrow(sql("reads.get_workflow"), org, name, version)
    return WorkflowRow(**found) if found else None


async def list_latest_workflows(
    connection: Connection, org: str, *, after: str, limit: int
) -> list[WorkflowRow]:
    """List the latest version of each name that sorts after `after`, by name."""
    found = await connection.fetch(sql("reads.list_latest_workflows"), org, after, limit)
    return [WorkflowRow(**record) for record in found]


async def list_workflow_versions(
    connection: Connection, org: str, name: str, *, below: int | None, limit: int
) -> list[WorkflowRow]:
    """List the versions of one name that are lower than `below`, newest first."""
    bound = MAX_VERSION if below is None else below
    found = await connection.fetch(sql("reads.list_workflow_versions"), org, name, bound, limit)
    return [WorkflowRow(**record) for record in found]


async def read_lanes(connection: Connection) -> frozenset[str]:
    """Read the names of all lanes."""
    return frozenset(record["lane"] for record in await connection.fetch(sql("reads.lanes")))
