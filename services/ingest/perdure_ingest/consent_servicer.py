"""`perdure.v1.ConsentService`; each method names its caller and delegates to its handler."""

from __future__ import annotations

from perdure_contracts.v1 import consent_service_pb2, consent_service_pb2_grpc
from perdure_runtime.gate.identity import Context, Identify

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.erasures import erase_subject, get_erasure, list_erasures
from perdure_ingest.handlers.suppressions import (
    add_suppression,
    check_suppression,
    list_suppressions,
    remove_suppression,
)


class ConsentServicer(consent_service_pb2_grpc.ConsentServiceServicer):
    """Whom work must not be about, and whose data is to go."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def AddSuppression(
        self, request: consent_service_pb2.AddSuppressionRequest, context: Context
    ) -> consent_service_pb2.AddSuppressionResponse:
        """Delegate."""
        return await add_suppression(self._doors, self._identify(context), request)

    async def RemoveSuppression(
        self, request: consent_service_pb2.RemoveSuppressionRequest, context: Context
    ) -> consent_service_pb2.RemoveSuppressionResponse:
        """Delegate."""
        return await remove_suppression(self._doors, self._identify(context), request)

    async def CheckSuppression(
        self, request: consent_service_pb2.CheckSuppressionRequest, context: Context
    ) -> consent_service_pb2.CheckSuppressionResponse:
        """Delegate."""
        return await check_suppression(self._doors, self._identify(context), request)

    async def ListSuppressions(
        self, request: consent_service_pb2.ListSuppressionsRequest, context: Context
    ) -> consent_service_pb2.ListSuppressionsResponse:
        """Delegate."""
        return await list_suppressions(self._doors, self._identify(context), request)

    async def EraseSubject(
        self, request: consent_service_pb2.EraseSubjectRequest, context: Context
    ) -> consent_service_pb2.EraseSubjectResponse:
        """Delegate."""
        return await erase_subject(self._doors, self._identify(context), request)

    async def GetErasure(
        self, request: consent_service_pb2.GetErasureRequest, context: Context
    ) -> consent_service_pb2.GetErasureResponse:
        """Delegate."""
        return await get_erasure(self._doors, self._identify(context), request)

    async def ListErasures(
        self, request: consent_service_pb2.ListErasuresRequest, context: Context
    ) -> consent_service_pb2.ListErasuresResponse:
        """Delegate."""
        return await list_erasures(self._doors, self._identify(context), request)
