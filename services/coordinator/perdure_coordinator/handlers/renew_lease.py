"""RenewLease: more time; takes no lock on a run (R1)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    RENEW_STATUS_AGAIN,
    RENEW_STATUS_LOST,
    RENEW_STATUS_RENEWED,
    RenewLeaseRequest,
    RenewLeaseResponse,
    RenewLeaseResult,
)
from perdure_runtime.batching import Batcher
from perdure_store.leases import HeldLease, Renewal, RenewalAnswer

from perdure_coordinator.messages import held_lease

Renewals = Batcher[Sequence[HeldLease], Sequence[RenewalAnswer]]

_STATUS = {
    Renewal.RENEWED: RENEW_STATUS_RENEWED,
    Renewal.LOST: RENEW_STATUS_LOST,
    Renewal.AGAIN: RENEW_STATUS_AGAIN,
}


async def renew_lease(renewals: Renewals, request: RenewLeaseRequest) -> RenewLeaseResponse:
    """Renew the leases and answer in order."""
    held = [held_lease(lease, "leases") for lease in request.leases]
    answers = await renewals.submit(held) if held else ()
    return RenewLeaseResponse(results=map(_result, answers))


def _result(answer: RenewalAnswer) -> RenewLeaseResult:
    return RenewLeaseResult(
        status=_STATUS[answer.renewal],
        lease_ms=int(answer.lease_left * 1000),
        cancel_requested=answer.cancel_requested and answer.renewal is Renewal.RENEWED,
    )
