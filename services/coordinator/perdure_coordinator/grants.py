"""Grants as they go to workers, with what their connections carry."""

from __future__ import annotations

import logging

from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_machine.events import Failed, Report
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Granted
from perdure_machine.states import EffectOutcome
from perdure_machine.view import NodeError
from perdure_runtime.errors import Internal
from perdure_runtime.logs import log_failure

from perdure_coordinator.committers import Committers
from perdure_coordinator.credentials import Credentials
from perdure_coordinator.messages import grant_message

_logger = logging.getLogger(__name__)


class Grants:
    """Turns what the machine granted into what a worker is sent."""

    def __init__(self, committers: Committers, credentials: Credentials) -> None:
        self._committers = committers
        self._credentials = credentials

    async def message(self, granted: Granted) -> StepGrant | None:
        """Return the grant; None where it was taken back, because its connection cannot be used.

        The step is parked then, until somebody gives the connection new credentials. Raises
        Unavailable where they cannot be read now: a repeat gets the same grant.
        """
        message = grant_message(granted)
        if granted.connection is None:
            return message
        try:
            carried = await self._credentials.grant(granted.run.org, granted.connection)
        except Internal as error:
            log_failure(_logger, "credentials.unreadable", error, connection=granted.connection)
            await self._take_back(granted, error.message)
            return None
        if carried is None:
            await self._take_back(granted, "the connection was removed just now")
            return None
        message.connection.CopyFrom(carried)
        return message

    async def _take_back(self, granted: Granted, why: str) -> None:
        """Say on the worker's behalf that the step cannot act under its connection."""
        step = granted.step
        assert step.lease_id is not None
        error = NodeError(ErrorClass.AUTHORISATION, "CREDENTIALS_UNUSABLE", why, node=step.node)
        refusal = Report(
            step.step,
            step.fence,
            step.lease_id,
            Failed(error),
            effect=EffectOutcome.NOT_PERFORMED,
        )
        await self._committers.submit(granted.run.run_id, granted.run.org, refusal)
