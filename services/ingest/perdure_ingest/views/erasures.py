"""Erasures, as messages."""

from __future__ import annotations

from perdure_contracts.v1 import consent_service_pb2
from perdure_store.erasures import Erasure

from perdure_ingest.views.instants import timestamp


def erasure_message(erasure: Erasure) -> consent_service_pb2.Erasure:
    """Show an erasure with its counts."""
    return consent_service_pb2.Erasure(
        erasure_id=str(erasure.erasure_id),
        subject_hash=erasure.subject_hash.hex(),
        reason=erasure.reason,
        asked_by=erasure.asked_by,
        created_at=timestamp(erasure.created_at),
        all_sent_at=timestamp(erasure.all_sent_at),
        pending=erasure.pending,
        erased=erasure.erased,
        removed=erasure.counts,
    )
