"""Client, handlers and command line of Perdure."""

from perdure_contracts.v1.run_pb2 import (
    Attempt,
    Effect,
    HistoryEvent,
    Run,
    RunError,
    RunStatus,
    Step,
    StepStatus,
)
from perdure_contracts.v1.workflow_pb2 import DefinitionProblem, Workflow

from perdure.client import Client, has_ended
from perdure.errors import FieldProblem, PerdureApiError, PerdureUnavailable

__all__ = [
    "Attempt",
    "Client",
    "DefinitionProblem",
    "Effect",
    "FieldProblem",
    "HistoryEvent",
    "PerdureApiError",
    "PerdureUnavailable",
    "Run",
    "RunError",
    "RunStatus",
    "Step",
    "StepStatus",
    "Workflow",
    "has_ended",
]
