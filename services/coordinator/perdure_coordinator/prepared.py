"""What tells of plain events, made before it is known that they are written.

So it is made while the database writes, and is sent only after that.
"""

from __future__ import annotations

from google.protobuf.message import Message
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ACQUIRE_STATUS_GRANTED,
    ITEM_STATUS_APPLIED,
    AcquireLeaseResult,
    ReportResultResult,
)
from perdure_machine.decide.first_step import TakeUp
from perdure_machine.decide.hand_over import HandOver
from perdure_machine.decide.last_report import LastReport
from perdure_store.apply.batch import Plain

from perdure_coordinator.messages import grant_message


def plain_message(plain: Plain) -> Message | None:
    """Return the item that answers who sent the event; None where the reply alone is told.

    The step of a plain event has no connection, so that the grant is whole without one.
    """
    match plain:
        case HandOver():
            return ReportResultResult(status=ITEM_STATUS_APPLIED, next=grant_message(plain.granted))
        case LastReport():
            return ReportResultResult(status=ITEM_STATUS_APPLIED)
        case TakeUp():
            return AcquireLeaseResult(
                status=ACQUIRE_STATUS_GRANTED, grant=grant_message(plain.granted)
            )
        case _:
            return None
