"""Entries of suppression lists, as messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure_contracts.internal.v1.consent_service_pb2 import SuppressionEntry
from perdure_contracts.v1.consent_service_pb2 import Suppression
from perdure_store.suppressions import Suppression as Stored

from perdure_ingest.views.instants import timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def listed_suppression(one: Stored) -> Suppression:
    """Show an entry that was read."""
    return Suppression(
        purpose=one.purpose,
        subject_hash=one.subject_hash.hex(),
        reason=one.reason,
        asked_by=one.asked_by,
        created_at=timestamp(one.since),
    )


def checked_suppression(one: SuppressionEntry) -> Suppression:
    """Show an entry that the coordinator told."""
    return Suppression(
        purpose=one.purpose,
        subject_hash=one.subject_hash.hex(),
        reason=one.reason,
        asked_by=one.asked_by,
        created_at=timestamp(_EPOCH + timedelta(microseconds=one.created_at_us)),
    )
