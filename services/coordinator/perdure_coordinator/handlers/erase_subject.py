"""EraseSubject: begins to erase all that is about a subject, or counts what that would come to."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.consent_service_pb2 import (
    EraseSubjectRequest,
    EraseSubjectResponse,
)
from perdure_machine.subjects import SubjectKey
from perdure_store.erasures import Asked, create, preview
from perdure_store.pool import acquire

from perdure_coordinator.messages import parse_uuid


async def erase_subject(
    spare: asyncpg.Pool, key: SubjectKey, request: EraseSubjectRequest
) -> EraseSubjectResponse:
    """Store the erasure with the event that begins it, or count."""
    subject_hash = request.subject_hash or key.hash(request.org, request.subject)
    async with acquire(spare) as connection:
        if request.dry_run:
            found = await preview(connection, request.org, subject_hash)
            return EraseSubjectResponse(
                runs=found.runs,
                unfinished=found.unfinished,
                erased_before=found.erased_before,
                steps=found.steps,
            )
        asked = Asked(
            parse_uuid(request.erasure_id, "erasure_id"),
            request.org,
            subject_hash,
            request.reason,
            request.asked_by,
        )
        await create(connection, asked)
    return EraseSubjectResponse()
