"""What ingest asks the coordinator about subjects."""

from __future__ import annotations

from perdure_contracts.internal.v1 import consent_service_pb2, consent_service_pb2_grpc
from perdure_runtime.fail_points import declare
from perdure_runtime.rpc.client import RpcClient

CHANGE_SUPPRESSION = declare("ingest.change_suppression")
CHECK_SUPPRESSION = declare("ingest.check_suppression")
ERASE_SUBJECT = declare("ingest.erase_subject")

CALL_TIMEOUT = 15.0
"""Longest time that one internal call may take with its repeats, seconds."""


class ConsentCalls:
    """The coordinator's ConsentService behind plain methods; a repeat of each is harmless."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._stub = consent_service_pb2_grpc.ConsentServiceStub(client.channel)

    async def change_suppression(
        self, request: consent_service_pb2.ChangeSuppressionRequest
    ) -> consent_service_pb2.ChangeSuppressionResponse:
        """Put a subject on a list or take it off."""
        return await self._client.call(
            self._stub.ChangeSuppression,
            request,
            timeout=CALL_TIMEOUT,
            fail_point=CHANGE_SUPPRESSION,
        )

    async def check_suppression(
        self, request: consent_service_pb2.CheckSuppressionRequest
    ) -> consent_service_pb2.CheckSuppressionResponse:
        """Tell the lists that a subject is on."""
        return await self._client.call(
            self._stub.CheckSuppression,
            request,
            timeout=CALL_TIMEOUT,
            fail_point=CHECK_SUPPRESSION,
        )

    async def erase_subject(
        self, request: consent_service_pb2.EraseSubjectRequest
    ) -> consent_service_pb2.EraseSubjectResponse:
        """Begin an erasure, once for each id, or count what it would come to."""
        return await self._client.call(
            self._stub.EraseSubject, request, timeout=CALL_TIMEOUT, fail_point=ERASE_SUBJECT
        )
