"""Client, handlers and command line of Perdure."""

from perdure_contracts.v1.job_pb2 import Job, JobRetry, JobSpec, JobStatus, JobType
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

from perdure.cancellation import Cancellation
from perdure.client import Client, has_ended, published
from perdure.client_jobs import NewJob
from perdure.connection_door import Answer
from perdure.connections import CallsLimited, Connection, CredentialsRefused
from perdure.effect_outcomes import Performed, Unknown
from perdure.errors import FieldProblem, PerdureApiError, PerdureUnavailable
from perdure.handler_context import HandlerContext
from perdure.handler_errors import (
    EffectInvalid,
    HandlerError,
    NotPerformed,
    Permanent,
    RateLimited,
    Refused,
    Retryable,
    StepDropped,
    Unauthorised,
)
from perdure.handlers import Handler, Handlers, RawJson
from perdure.polling import PollingWorker
from perdure.signals import StartSignal

__all__ = [
    "Answer",
    "Attempt",
    "CallsLimited",
    "Cancellation",
    "Client",
    "Connection",
    "CredentialsRefused",
    "DefinitionProblem",
    "Effect",
    "EffectInvalid",
    "FieldProblem",
    "Handler",
    "HandlerContext",
    "HandlerError",
    "Handlers",
    "HistoryEvent",
    "Job",
    "JobRetry",
    "JobSpec",
    "JobStatus",
    "JobType",
    "NewJob",
    "NotPerformed",
    "PerdureApiError",
    "PerdureUnavailable",
    "Performed",
    "Permanent",
    "PollingWorker",
    "Published",
    "RateLimited",
    "RawJson",
    "Refused",
    "Retryable",
    "Run",
    "RunError",
    "RunStatus",
    "SignalWait",
    "StartSignal",
    "Step",
    "StepDropped",
    "StepStatus",
    "Unauthorised",
    "Unknown",
    "Workflow",
    "has_ended",
    "published",
]
