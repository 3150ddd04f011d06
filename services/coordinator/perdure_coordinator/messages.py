"""Between the wire and the machine: ids in, grants and errors out."""

from __future__ import annotations

from uuid import UUID

from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_contracts.internal.v1.dispatch_pb2 import (
    STEP_KIND_GRPC,
    STEP_KIND_HTTP,
    STEP_KIND_TASK,
    EffectGrant,
    StepGrant,
    StepLease,
)
from perdure_contracts.internal.v1.signals_pb2 import SignalContent
from perdure_machine.decide.effects import REQUEST
from perdure_machine.mailbox import SignalState
from perdure_machine.replies import Closed, Granted, Reply
from perdure_runtime.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    PerdureError,
    Reason,
    Unavailable,
)
from perdure_runtime.rpc.errors import to_status
from perdure_store.ids import id_from_text
from perdure_store.leases import HeldLease

MAX_WORKER = 200
"""Characters of a worker's name."""

_KINDS = {"task": STEP_KIND_TASK, "http": STEP_KIND_HTTP, "grpc": STEP_KIND_GRPC}


def parse_uuid(text: str, field: str) -> UUID:
    """Return the id. Raises `InvalidArgument` naming the field."""
    try:
        return id_from_text(text)
    except ValueError:
        raise _invalid(field, "is not a UUID") from None


def parse_worker(text: str) -> str:
    """Return a worker's name. Raises `InvalidArgument`."""
    if not 1 <= len(text) <= MAX_WORKER or "\0" in text:
        raise _invalid("worker", f"must have 1 to {MAX_WORKER} characters, without NUL")
    return text


def held_lease(lease: StepLease, place: str) -> HeldLease:
    """Read an acquisition as its holder names it, in the field `place`. Raises InvalidArgument."""
    return HeldLease(
        org=lease.org,
        run_id=parse_uuid(lease.run_id, f"{place}.run_id"),
        step=lease.step,
        fence=lease.fence,
        lease_id=parse_uuid(lease.lease_id, f"{place}.lease_id"),
    )


def _invalid(field: str, problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"{field} {problem}",
        reason=Reason.FIELD_INVALID,
        violations=[FieldViolation(field, problem)],
    )


def signal_state(content: SignalContent, *, key: str | None = None) -> SignalState:
    """Return a signal as the machine takes it."""
    return SignalState(content.signal_id, content.name, content.data or b"null", key)


def grant_message(granted: Granted) -> StepGrant:
    """Return a grant as it goes to the worker."""
    run, step = granted.run, granted.step
    return StepGrant(
        lease=StepLease(
            org=run.org,
            run_id=str(run.run_id),
            step=step.step,
            fence=step.fence,
            lease_id=str(step.lease_id),
        ),
        lease_ms=int(granted.lease_for * 1000),
        node=step.node,
        scope=step.scope,
        workflow=run.workflow,
        workflow_version=run.workflow_version,
        kind=_KINDS[step.kind],
        handler=granted.handler,
        queue=f"{step.lane}:{step.owner}",
        input=step.input or b"",
        attempt=step.failures + 1,
        timeout_ms=int((granted.timeout or 0) * 1000),
        traceparent=step.traceparent or "",
        effect=_effect_message(granted),
    )


def _effect_message(granted: Granted) -> EffectGrant | None:
    effect, plan = granted.effect, granted.begins
    if effect is not None:
        return EffectGrant(key=effect.key, kind=effect.kind, calls=effect.calls, name=REQUEST)
    if plan is None:
        return None
    return EffectGrant(
        key=plan.key,
        kind=plan.kind,
        name=plan.name,
        begin_first=True,
        keep_ms=int((plan.keep or 0) * 1000),
        can_look_up=plan.can_look_up,
    )


def error_message(error: PerdureError) -> Status:
    """Return an item's error as it goes to the caller."""
    return to_status(error)


def command_refusal(answer: Reply | PerdureError | None) -> PerdureError:
    """Return why a person's command was not done; a run that was busy may be asked again."""
    match answer:
        case Closed(status):
            return FailedPrecondition(
                f"the run is {status} already",
                reason=Reason.RUN_CLOSED,
                metadata={"status": status},
            )
        case PerdureError():
            return answer
        case _:
            return Unavailable("the run is busy", reason=Reason.RUN_BUSY)
