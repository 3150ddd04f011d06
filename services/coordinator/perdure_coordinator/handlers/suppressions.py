"""ChangeSuppression and CheckSuppression: lists of whom work must not be about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
from perdure_contracts.internal.v1.consent_service_pb2 import (
    ChangeSuppressionRequest,
    ChangeSuppressionResponse,
    CheckSuppressionRequest,
    CheckSuppressionResponse,
    SuppressionEntry,
)
from perdure_machine.subjects import SubjectKey
from perdure_store.pool import acquire
from perdure_store.suppressions import (
    Suppression,
    add_suppression,
    remove_suppression,
    suppressions_of,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def change_suppression(
    spare: asyncpg.Pool, key: SubjectKey, request: ChangeSuppressionRequest
) -> ChangeSuppressionResponse:
    """Put the subject on the list, or take it off."""
    asked = Suppression(
        request.org,
        key.hash(request.org, request.subject),
        request.purpose,
        request.reason,
        request.asked_by,
    )
    change = remove_suppression if request.remove else add_suppression
    async with acquire(spare) as connection:
        return ChangeSuppressionResponse(changed=await change(connection, asked))


async def check_suppression(
    spare: asyncpg.Pool, key: SubjectKey, request: CheckSuppressionRequest
) -> CheckSuppressionResponse:
    """Tell the lists that the subject is on."""
    subject_hash = key.hash(request.org, request.subject)
    async with acquire(spare) as connection:
        found = await suppressions_of(connection, request.org, subject_hash)
    return CheckSuppressionResponse(entries=map(_entry, found))


def _entry(one: Suppression) -> SuppressionEntry:
    assert one.since is not None
    return SuppressionEntry(
        purpose=one.purpose,
        subject_hash=one.subject_hash,
        reason=one.reason,
        asked_by=one.asked_by,
        created_at_us=(one.since - _EPOCH) // timedelta(microseconds=1),
    )
