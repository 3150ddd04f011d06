"""What a worker reports of its try."""

from __future__ import annotations

from random import Random
from uuid import UUID

from perdure_machine.events import BeginEffect, Failed, Offer, Queue, Report, Succeeded
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Granted
from perdure_machine.states import EffectOutcome
from perdure_machine.view import NodeError

from perdure_testkit.simulation.behaviour import Conduct
from perdure_testkit.simulation.scene import ORG, Scene

BROKE_OFF = "BROKE_OFF"
"""The code of a try whose call outside may or may not have been performed."""

QUEUES = frozenset(Queue(lane, owner) for lane in ("io", "slow") for owner in (ORG, "shared"))


def offer(scene: Scene, name: str, random: Random) -> Offer | None:
    """Return a reporter's wish for a next step; it may have none."""
    return Offer(scene.new_lease(), name, QUEUES) if random.random() < 0.5 else None


def report_of(
    granted: Granted,
    conduct: Conduct,
    told: EffectOutcome | None,
    wish: Offer | None,
    jitter: float,
) -> Report:
    """Return the report of a try that went as `conduct` says; `told` is what its call came to."""
    step = granted.step
    assert step.lease_id is not None
    fails = conduct.fails(step.failures) or told not in (None, EffectOutcome.PERFORMED)
    outcome = Failed(_error(conduct, told)) if fails else Succeeded(conduct.output)
    return Report(step.step, step.fence, step.lease_id, outcome, told, wish, jitter)


def begin_of(granted: Granted, token: UUID) -> BeginEffect:
    """Return the wish of a step's holder to make its call."""
    step, plan = granted.step, granted.begins
    assert step.lease_id is not None
    assert plan is not None
    return BeginEffect(
        step.step,
        step.fence,
        step.lease_id,
        plan.name,
        plan.kind,
        token,
        call_for=5.0,
        keep=plan.keep,
        can_look_up=plan.can_look_up,
    )


def _error(conduct: Conduct, told: EffectOutcome | None) -> NodeError:
    if told is EffectOutcome.UNKNOWN:
        return NodeError(ErrorClass.RETRYABLE, BROKE_OFF, "the answer was lost")
    category = ErrorClass.PERMANENT if conduct.permanent else ErrorClass.RETRYABLE
    return NodeError(category, "BROKEN", "it broke")
