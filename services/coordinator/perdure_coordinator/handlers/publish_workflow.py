"""PublishWorkflow: a document becomes a version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    PublishWorkflowRequest,
    PublishWorkflowResponse,
)
from perdure_machine.subjects import SubjectKey
from perdure_store.catalogue import publish_workflow as publish
from perdure_store.pool import acquire

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def publish_workflow(
    spare: asyncpg.Pool, subjects: SubjectKey, request: PublishWorkflowRequest
) -> PublishWorkflowResponse:
    """Publish the document."""
    async with acquire(spare) as connection:
        published = await publish(
            connection,
            request.org,
            request.document,
            hashes_subjects=bool(subjects.secret),
            asked_by=request.asked_by,
        )
    return PublishWorkflowResponse(
        name=published.name,
        version=published.version,
        created=published.created,
        digest=published.digest,
        published_at_us=(published.published_at - _EPOCH) // timedelta(microseconds=1),
    )
