"""Publishing: a document becomes the next version of its name, once per content (R11)."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import datetime

import asyncpg
from perdure_machine.definition.model import Definition
from perdure_machine.definition.parse import canonical, parse
from perdure_machine.subjects import no_subject_key
from perdure_runtime import fail_points

from perdure_store.audit import audit
from perdure_store.lanes import load_lanes
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_PUBLISH = fail_points.declare("store.commit_publish")


@dataclass(frozen=True, slots=True)
class Published:
    """The version that holds a document; `created` if this call made it."""

    name: str
    version: int
    digest: bytes
    published_at: datetime
    created: bool


async def publish_workflow(
    connection: Connection,
    org: str,
    document: bytes,
    *,
    hashes_subjects: bool = True,
    asked_by: str = "",
) -> Published:
    """Store `document` as the next version, unless the latest has the same content already.

    Raises `DefinitionInvalid` with all problems, and `FailedPrecondition` for one with subjects
    unless this installation `hashes_subjects`.
    """
    # Before the transaction and apart from the event loop: a large document takes long (R13, P8).
    lanes = frozenset(await load_lanes(connection))
    definition = await asyncio.to_thread(parse, document, known_lanes=lanes)
    if definition.is_about_subjects and not hashes_subjects:
        raise no_subject_key()
    digest = hashlib.sha256(canonical(document)).digest()
    async with transaction(connection, COMMIT_PUBLISH):
        await connection.execute(sql("catalogue.lock_name"), org, definition.name)
        latest = await connection.fetchrow(sql("catalogue.latest"), org, definition.name)
        if latest is not None and latest["digest"] == digest:
            return _published(definition.name, latest, created=False)
        version = latest["version"] + 1 if latest is not None else 1
        row = await connection.fetchrow(
            sql("catalogue.publish"), org, definition.name, version, digest, document
        )
        assert row is not None
        await _publish_nodes(connection, row["workflow_id"], definition)
        if asked_by:
            details = {"version": version, "digest": digest.hex()}
            await audit(
                connection,
                org=org,
                actor=asked_by,
                action="workflow.publish",
                target=definition.name,
                details=details,
            )
        return _published(definition.name, row, created=True)


def _published(name: str, row: asyncpg.Record, *, created: bool) -> Published:
    return Published(name, row["version"], row["digest"], row["published_at"], created)


async def _publish_nodes(connection: Connection, workflow_id: int, definition: Definition) -> None:
    nodes = list(definition.nodes.values())
    await connection.execute(
        sql("catalogue.publish_nodes"),
        workflow_id,
        [node.id for node in nodes],
        [" ".join(sorted(node.prefetch.steps)) for node in nodes],
        [" ".join(sorted(node.prefetch.outputs)) for node in nodes],
        [node.prefetch.input for node in nodes],
        [node.publish for node in nodes],
    )
    lanes = {node.lane for node in nodes if node.lane}
    await connection.execute(sql("catalogue.publish_lanes"), workflow_id, sorted(lanes))
