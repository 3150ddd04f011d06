"""Whom work must not be about, and whose data is to go: suppression lists and erasures."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence

from perdure_contracts.v1 import consent_service_pb2, consent_service_pb2_grpc

from perdure.client_transport import Transport

EVERY_PURPOSE = "*"


class Consent:
    """A client's calls about subjects. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = consent_service_pb2_grpc.ConsentServiceStub(transport.channel)

    async def suppress(
        self, subject: str, purpose: str = EVERY_PURPOSE, *, reason: str = ""
    ) -> bool:
        """Forbid work about a subject; return whether that is new."""
        request = consent_service_pb2.AddSuppressionRequest(
            subject=subject, purpose=purpose, reason=reason
        )
        return (await self._transport.call(self._stub.AddSuppression, request)).added

    async def allow(self, subject: str, purpose: str = EVERY_PURPOSE, *, reason: str = "") -> bool:
        """Take a subject off a list; return whether it was there."""
        request = consent_service_pb2.RemoveSuppressionRequest(
            subject=subject, purpose=purpose, reason=reason
        )
        return (await self._transport.call(self._stub.RemoveSuppression, request)).removed

    async def suppressions_of(self, subject: str) -> Sequence[consent_service_pb2.Suppression]:
        """Return the lists that a subject is on."""
        request = consent_service_pb2.CheckSuppressionRequest(subject=subject)
        return (await self._transport.call(self._stub.CheckSuppression, request)).suppressions

    async def suppressions(
        self, purpose: str = ""
    ) -> AsyncGenerator[consent_service_pb2.Suppression, None]:
        """Yield the entries of all lists, or of that for one purpose."""
        request = consent_service_pb2.ListSuppressionsRequest(purpose=purpose)
        while True:
            page = await self._transport.call(self._stub.ListSuppressions, request)
            for one in page.suppressions:
                yield one
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def erase(
        self, subject: str = "", *, subject_hash: str = "", reason: str = ""
    ) -> consent_service_pb2.Erasure:
        """Begin to erase every run about a subject, which is named or, by its hash, was before."""
        request = consent_service_pb2.EraseSubjectRequest(
            subject=subject,
            subject_hash=subject_hash,
            reason=reason,
            erasure_id=str(uuid.uuid4()),
        )
        return (await self._transport.call(self._stub.EraseSubject, request)).erasure

    async def preview_erasure(self, subject: str) -> consent_service_pb2.ErasurePreview:
        """Return what an erasure would come to now; nothing is changed."""
        request = consent_service_pb2.EraseSubjectRequest(subject=subject, dry_run=True)
        return (await self._transport.call(self._stub.EraseSubject, request)).preview

    async def erasure(self, erasure_id: str) -> consent_service_pb2.Erasure:
        """Read how far an erasure came."""
        request = consent_service_pb2.GetErasureRequest(erasure_id=erasure_id)
        return (await self._transport.call(self._stub.GetErasure, request)).erasure

    async def erasures(self) -> AsyncGenerator[consent_service_pb2.Erasure, None]:
        """Yield all erasures, the oldest first, without their counts."""
        request = consent_service_pb2.ListErasuresRequest()
        while True:
            page = await self._transport.call(self._stub.ListErasures, request)
            for one in page.erasures:
                yield one
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
