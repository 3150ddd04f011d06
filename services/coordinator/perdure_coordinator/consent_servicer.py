"""The service of what needs the key of subjects; each RPC has a function in `handlers`."""

from __future__ import annotations

from typing import Any

import asyncpg
import grpc
from perdure_contracts.internal.v1 import consent_service_pb2 as consent
from perdure_contracts.internal.v1.consent_service_pb2_grpc import ConsentServiceServicer
from perdure_machine.subjects import SubjectKey

from perdure_coordinator.handlers.erase_subject import erase_subject
from perdure_coordinator.handlers.suppressions import change_suppression, check_suppression

Context = grpc.aio.ServicerContext[Any, Any]


class Consent(ConsentServiceServicer):
    """Suppression lists and erasures."""

    def __init__(self, spare: asyncpg.Pool, key: SubjectKey) -> None:
        self._spare = spare
        self._key = key

    async def ChangeSuppression(
        self, request: consent.ChangeSuppressionRequest, context: Context
    ) -> consent.ChangeSuppressionResponse:
        """See `handlers/suppressions.py`."""
        return await change_suppression(self._spare, self._key, request)

    async def EraseSubject(
        self, request: consent.EraseSubjectRequest, context: Context
    ) -> consent.EraseSubjectResponse:
        """See `handlers/erase_subject.py`."""
        return await erase_subject(self._spare, self._key, request)

    async def CheckSuppression(
        self, request: consent.CheckSuppressionRequest, context: Context
    ) -> consent.CheckSuppressionResponse:
        """See `handlers/suppressions.py`."""
        return await check_suppression(self._spare, self._key, request)
