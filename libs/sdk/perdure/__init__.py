"""Client, handlers and command line of Perdure."""

from perdure_contracts.v1.run_pb2 import (
    Attempt,
    Effect,
    HistoryEvent,
    Published,
    Run,
    RunError,
    RunStatus,
    SignalWait,
    Step,
    StepStatus,
)
from perdure_contracts.v1.workflow_pb2 import DefinitionProblem, Workflow

from perdure.client import Client, has_ended, published
from perdure.errors import FieldProblem, PerdureApiError, PerdureUnavailable
from perdure.handler_context import Cancellation, HandlerContext
from perdure.handler_errors import HandlerError, Permanent, RateLimited, Retryable, Unauthorised
from perdure.handlers import Handler, Handlers, RawJson
from perdure.signals import StartSignal

__all__ = [
    "Attempt",
    "Cancellation",
    "Client",
    "DefinitionProblem",
    "Effect",
    "FieldProblem",
    "Handler",
    "HandlerContext",
    "HandlerError",
    "Handlers",
    "HistoryEvent",
    "PerdureApiError",
    "PerdureUnavailable",
    "Permanent",
    "Published",
    "RateLimited",
    "RawJson",
    "Retryable",
    "Run",
    "RunError",
    "RunStatus",
    "SignalWait",
    "StartSignal",
    "Step",
    "StepStatus",
    "Unauthorised",
    "Workflow",
    "has_ended",
    "published",
]
