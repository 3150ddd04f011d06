"""The one place where it is decided what an event does to a run: a function of values.

`decide` reads no clock, draws no random number and does no I/O (design section 4). It raises
`ViewTooNarrow` where the caller must load more of the run and ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.decide.advance import advance
from perdure_machine.decide.beginning_effects import begin
from perdure_machine.decide.callbacks import answer_callback
from perdure_machine.decide.children import tell_of_child
from perdure_machine.decide.dead_letters import discard
from perdure_machine.decide.draft import Decision, Draft
from perdure_machine.decide.emitting import end_emission
from perdure_machine.decide.ending import cancel_run, expire_run, terminate_run
from perdure_machine.decide.exclusive import rouse
from perdure_machine.decide.leasing import acquire, expire, release
from perdure_machine.decide.legality import Versions
from perdure_machine.decide.migrating import migrate
from perdure_machine.decide.parking import (
    park_changed,
    park_on_timer,
    pause_run,
    resume_run,
)
from perdure_machine.decide.reopening import retry_run
from perdure_machine.decide.reporting import report
from perdure_machine.decide.reviewing import decide_effect
from perdure_machine.decide.settling import settle
from perdure_machine.decide.signals import deliver, send
from perdure_machine.decide.start import check_start, decide_start
from perdure_machine.decide.timing import fire
from perdure_machine.definition.model import Definition
from perdure_machine.events import (
    Acquire,
    AnswerCallback,
    BeginEffect,
    BeginRun,
    CancelRun,
    DecideEffect,
    DeliverSignals,
    DiscardDeadLetter,
    Emitted,
    Event,
    ExpireLease,
    ExpireRun,
    FireTimer,
    ParkOnTimer,
    PauseRun,
    Release,
    Report,
    ResumeRun,
    RetryRun,
    SendSignal,
    SettleEffect,
    TellOfChild,
    TerminateRun,
)
from perdure_machine.lanes import Lane
from perdure_machine.migration_events import plan_of
from perdure_machine.replies import Reply
from perdure_machine.view import View

__all__ = ["Decision", "check_start", "decide", "decide_start"]


def decide(
    definition: Definition,
    lanes: Mapping[str, Lane],
    view: View,
    event: Event,
    others: Mapping[int, Definition] = MappingProxyType({}),
) -> Decision:
    """Return what `event` does to the run of `view`, which runs on `definition`.

    `others` holds the version, by its id, that a migration leads to.
    """
    plan = plan_of(view, event)
    if plan is not None and isinstance(event, FireTimer):
        return migrate(Versions(definition, others[plan.to_id], plan), lanes, view, event)
    draft = Draft(definition, lanes, view)
    reply = _reply(draft, event)
    advance(draft)
    park_changed(draft)
    return draft.decision(reply)


def _reply(draft: Draft, event: Event) -> Reply:
    match event:
        case Acquire():
            return acquire(draft, event)
        case Report():
            return report(draft, event)
        case Release():
            return release(draft, event)
        case ExpireLease():
            return expire(draft, event)
        case BeginEffect():
            return begin(draft, event)
        case SettleEffect():
            return settle(draft, event)
        case DecideEffect():
            return decide_effect(draft, event)
        case FireTimer():
            return fire(draft, event)
        case ParkOnTimer():
            return park_on_timer(draft, event)
        case TellOfChild():
            return tell_of_child(draft, event)
        case SendSignal():
            return send(draft, event)
        case AnswerCallback():
            return answer_callback(draft, event)
        case DeliverSignals():
            return deliver(draft, event)
        case Emitted():
            return end_emission(draft, event)
        case CancelRun():
            return cancel_run(draft, event)
        case TerminateRun():
            return terminate_run(draft, event)
        case PauseRun():
            return pause_run(draft, event)
        case ResumeRun():
            return resume_run(draft, event)
        case RetryRun():
            return retry_run(draft, event)
        case DiscardDeadLetter():
            return discard(draft, event)
        case BeginRun():
            return rouse(draft)
        case ExpireRun():
            return expire_run(draft)
