"""CommandRun: what people ask of runs besides a cancel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    RUN_COMMAND_DISCARD_DEAD_LETTER,
    RUN_COMMAND_PAUSE,
    RUN_COMMAND_RESUME,
    RUN_COMMAND_RETRY,
    RUN_COMMAND_TERMINATE,
    CommandRunItem,
    CommandRunRequest,
    CommandRunResponse,
    CommandRunResult,
    RunCommand,
)
from perdure_machine.events import (
    DiscardDeadLetter,
    Event,
    PauseRun,
    ResumeRun,
    RetryRun,
    TerminateRun,
)
from perdure_machine.replies import Cancelled, Done, Reply
from perdure_runtime.errors import InvalidArgument, PerdureError, Reason

from perdure_coordinator.answers import in_time
from perdure_coordinator.committers import Committers
from perdure_coordinator.messages import command_refusal, error_message, parse_uuid

_EVENTS: Mapping[RunCommand.ValueType, Callable[[str, str], Event]] = MappingProxyType(
    {
        RUN_COMMAND_TERMINATE: TerminateRun,
        RUN_COMMAND_PAUSE: PauseRun,
        RUN_COMMAND_RESUME: ResumeRun,
        RUN_COMMAND_RETRY: RetryRun,
        RUN_COMMAND_DISCARD_DEAD_LETTER: DiscardDeadLetter,
    }
)


async def command_run(committers: Committers, request: CommandRunRequest) -> CommandRunResponse:
    """Do what is asked of each run and answer in order."""
    answers = await in_time(_submit(committers, item) for item in request.items)
    return CommandRunResponse(results=map(_result, answers))


async def _submit(committers: Committers, item: CommandRunItem) -> Reply:
    run_id = parse_uuid(item.run_id, "run_id")
    make = _EVENTS.get(item.command)
    if make is None:
        raise InvalidArgument("command is not said", reason=Reason.FIELD_INVALID)
    return await committers.submit(run_id, item.org, make(item.reason, item.actor))


def _result(answer: Reply | PerdureError | None) -> CommandRunResult:
    match answer:
        case Cancelled(changed) | Done(changed):
            return CommandRunResult(changed=changed)
        case _:
            return CommandRunResult(error=error_message(command_refusal(answer)))
