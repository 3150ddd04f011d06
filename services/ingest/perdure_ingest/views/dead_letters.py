"""Dead letters as messages."""

from __future__ import annotations

from perdure_contracts.v1.dead_letter_service_pb2 import DeadLetter
from perdure_store.dead_letters import DeadLetterRow

from perdure_ingest.views.instants import timestamp
from perdure_ingest.views.runs import error_message


def dead_letter(row: DeadLetterRow) -> DeadLetter:
    """Show a dead letter with the error that nothing caught."""
    return DeadLetter(
        run_id=str(row.run_id),
        workflow=row.workflow,
        workflow_version=row.workflow_version,
        node=row.node,
        cause=row.cause,
        error=error_message(row.error),
        ended_at=timestamp(row.created_at),
    )
