"""ReportResult: how tries ended; the answer may carry the run's next step (design P3)."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ReportResultItem,
    ReportResultRequest,
    ReportResultResponse,
    ReportResultResult,
)
from perdure_contracts.internal.v1.dispatch_pb2 import (
    EFFECT_OUTCOME_NOT_PERFORMED,
    EFFECT_OUTCOME_PERFORMED,
    EFFECT_OUTCOME_UNKNOWN,
    StepFailure,
    StepGrant,
    StepLease,
)
from perdure_machine.definition.model import CONNECTION_NAME
from perdure_machine.events import Failed, Offer, Queue, RefusedConnection, Report, Succeeded
from perdure_machine.money import MAX_MICROS
from perdure_machine.node_error import reported_error
from perdure_machine.replies import Applied, Reply
from perdure_machine.states import EffectOutcome
from perdure_runtime.errors import PerdureError
from perdure_runtime.tracing import Attribute, is_recorded, note_span, span

from perdure_coordinator.answers import item_status, once_applied
from perdure_coordinator.committers import Committers, Prepared, Submission
from perdure_coordinator.grants import Grants
from perdure_coordinator.messages import parse_uuid, parse_worker
from perdure_coordinator.telling import Telling


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a result, and the step that is handed to its reporter."""

    reply: Reply
    next: StepGrant | None


SPAN = "report"

_EFFECTS = {
    EFFECT_OUTCOME_PERFORMED: EffectOutcome.PERFORMED,
    EFFECT_OUTCOME_NOT_PERFORMED: EffectOutcome.NOT_PERFORMED,
    EFFECT_OUTCOME_UNKNOWN: EffectOutcome.UNKNOWN,
}


async def report_result(
    committers: Committers, grants: Grants, telling: Telling, request: ReportResultRequest
) -> ReportResultResponse:
    """Apply the results and answer in order."""
    worker = parse_worker(request.worker)
    queues = _queues(tuple(request.queues))
    reports = [_report(item, worker, queues) for item in request.items]
    began = time.time_ns()
    plain = await committers.submit_plain(reports)
    _note_spans(request.items, plain, began)
    answers: Sequence[Answered | Prepared | PerdureError | None] = await once_applied(
        plain,
        (
            partial(_submit, committers, grants, telling, item, report)
            for item, report in zip(request.items, reports, strict=True)
        ),
    )
    return ReportResultResponse(results=map(_result, answers))


def _report(item: ReportResultItem, worker: str, queues: frozenset[Queue]) -> Submission:
    lease = item.lease
    event = Report(
        step=lease.step,
        fence=lease.fence,
        lease_id=parse_uuid(lease.lease_id, "items.lease.lease_id"),
        outcome=_outcome(item),
        effect=_EFFECTS.get(item.effect_outcome),
        offer=_offer(item, worker, queues),
        jitter=random.random(),
        connection_generation=item.connection_generation,
        cost=_cost(item),
    )
    return parse_uuid(lease.run_id, "items.lease.run_id"), lease.org, event


def _cost(item: ReportResultItem) -> int | None:
    """Return what a try came to, within what can be counted."""
    if not item.HasField("cost_micros"):
        return None
    return min(max(0, item.cost_micros), MAX_MICROS)


async def _submit(
    committers: Committers,
    grants: Grants,
    telling: Telling,
    item: ReportResultItem,
    report: Submission,
    patience: float,
) -> Answered:
    reply = await _applied(committers, item, report, patience)
    telling.note(item.lease.org, reply)
    chained = reply.next if isinstance(reply, Applied) else None
    return Answered(reply, await grants.message(chained) if chained is not None else None)


async def _applied(
    committers: Committers, item: ReportResultItem, report: Submission, patience: float
) -> Reply:
    with span(SPAN, parent=item.traceparent or None, attributes=_facts(item.lease)):
        return await committers.submit(*report, patience=patience)


def _note_spans(
    items: Iterable[ReportResultItem],
    answers: Iterable[Prepared | PerdureError | None],
    began: int,
) -> None:
    """Make the spans of plain results whose traces are recorded: these were applied together."""
    for item, answer in zip(items, answers, strict=True):
        if answer is not None and is_recorded(item.traceparent):
            error = answer if isinstance(answer, PerdureError) else None
            facts = _facts(item.lease)
            note_span(SPAN, parent=item.traceparent, began=began, attributes=facts, error=error)


def _facts(lease: StepLease) -> Mapping[str, Attribute]:
    return {
        "perdure.run": lease.run_id,
        "perdure.step": lease.step,
        "perdure.fence": lease.fence,
    }


def _outcome(item: ReportResultItem) -> Succeeded | Failed:
    if item.WhichOneof("outcome") != "failure":
        return Succeeded(item.output or b"null")
    failure = item.failure
    error = reported_error(
        getattr(failure, "class"), failure.code, failure.message, failure.details or None
    )
    asked = failure.retry_after_ms / 1000 if failure.retry_after_ms > 0 else None
    return Failed(error, retry_after=asked, refused=_refused(failure))


def _refused(failure: StepFailure) -> RefusedConnection | None:
    """Return the other connection that was refused; what is no name of one is as if not said."""
    if not re.fullmatch(CONNECTION_NAME, failure.refused_connection):
        return None
    return RefusedConnection(failure.refused_connection, failure.refused_generation)


def _offer(item: ReportResultItem, worker: str, queues: frozenset[Queue]) -> Offer | None:
    served = _queues(tuple(item.next_queues)) or queues
    if not item.next_lease_id or not served:
        return None
    taker = parse_worker(item.next_worker) if item.next_worker else worker
    return Offer(parse_uuid(item.next_lease_id, "items.next_lease_id"), taker, served)


@lru_cache(maxsize=1024)
def _queues(texts: tuple[str, ...]) -> frozenset[Queue]:
    parts = (text.partition(":") for text in texts)
    return frozenset(Queue(lane, owner) for lane, _, owner in parts)


def _result(answer: Answered | Prepared | PerdureError | None) -> ReportResultResult:
    if isinstance(answer, Prepared):
        assert isinstance(answer.message, ReportResultResult)
        return answer.message
    if isinstance(answer, Answered):
        return ReportResultResult(status=item_status(answer.reply), next=answer.next)
    return ReportResultResult(status=item_status(answer))
