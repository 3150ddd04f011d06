"""The states of a step as data: a move has sources and one target; the rest is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from perdure_runtime.errors import FailedPrecondition, Reason

from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, StepStatus
from perdure_machine.view import StepState


class Move(StrEnum):
    """What can happen to a step."""

    ACQUIRE = "acquire"  # a worker takes it
    RELEASE = "release"  # the worker hands it back
    LOSE = "lose"  # the lease ran out
    COMPLETE = "complete"  # the try ended well
    STAND = "stand"  # a call that was made before stands, as a try of its whole or a person says
    BACK_OFF = "back_off"  # the try failed and there will be another
    WAIT_OUT = "wait_out"  # another's call under its key may be open
    CALL_AGAIN = "call_again"  # that call is over
    REVIEW = "review"  # a person finds out what became of its call
    CATCH = "catch"  # it failed, and an output of its `on_failure` stands in
    FAIL = "fail"  # it failed and is not tried again, has no result, or passed its deadline
    RETRY = "retry"  # the time for the next try has come
    RESTART = "restart"  # the time for the next try of a whole has come
    END_WAIT = "end_wait"  # what it waited for has come
    CANCEL = "cancel"  # its run closed, or stops
    PARK = "park"  # it is stopped for a cause that a person can act on
    REFUSE = "refuse"  # what it acts under was refused: it is stopped until a person repairs that
    QUEUE_AGAIN = "queue_again"  # the cause is gone: it waits for a worker, as before
    BACK_OFF_AGAIN = "back_off_again"  # the cause is gone: it backs off, as before
    WAIT_AGAIN = "wait_again"  # the cause is gone: it waits, as before


@dataclass(frozen=True, slots=True)
class Transition:
    """From any of `sources` to `target`."""

    sources: frozenset[StepStatus]
    target: StepStatus


_UNFINISHED = frozenset(StepStatus) - ENDED
_PARKED = frozenset({StepStatus.PARKED})

TABLE = MappingProxyType(
    {
        Move.ACQUIRE: Transition(frozenset({StepStatus.QUEUED}), StepStatus.RUNNING),
        Move.RELEASE: Transition(frozenset({StepStatus.RUNNING}), StepStatus.QUEUED),
        Move.LOSE: Transition(frozenset({StepStatus.RUNNING}), StepStatus.QUEUED),
        Move.COMPLETE: Transition(frozenset({StepStatus.RUNNING}), StepStatus.COMPLETED),
        Move.STAND: Transition(
            frozenset({StepStatus.QUEUED, StepStatus.PARKED}), StepStatus.COMPLETED
        ),
        Move.BACK_OFF: Transition(
            frozenset({StepStatus.RUNNING, StepStatus.WAITING}), StepStatus.BACKING_OFF
        ),
        Move.WAIT_OUT: Transition(frozenset({StepStatus.RUNNING}), StepStatus.WAITING),
        Move.CALL_AGAIN: Transition(frozenset({StepStatus.WAITING}), StepStatus.QUEUED),
        Move.REVIEW: Transition(
            frozenset({StepStatus.QUEUED, StepStatus.RUNNING}), StepStatus.PARKED
        ),
        Move.FAIL: Transition(_UNFINISHED, StepStatus.FAILED),
        Move.CATCH: Transition(_UNFINISHED, StepStatus.COMPLETED),
        Move.RETRY: Transition(frozenset({StepStatus.BACKING_OFF}), StepStatus.QUEUED),
        Move.RESTART: Transition(frozenset({StepStatus.BACKING_OFF}), StepStatus.WAITING),
        Move.END_WAIT: Transition(frozenset({StepStatus.WAITING}), StepStatus.COMPLETED),
        Move.CANCEL: Transition(_UNFINISHED, StepStatus.CANCELLED),
        Move.PARK: Transition(
            frozenset({StepStatus.QUEUED, StepStatus.BACKING_OFF, StepStatus.WAITING}),
            StepStatus.PARKED,
        ),
        Move.REFUSE: Transition(frozenset({StepStatus.RUNNING}), StepStatus.PARKED),
        Move.QUEUE_AGAIN: Transition(_PARKED, StepStatus.QUEUED),
        Move.BACK_OFF_AGAIN: Transition(_PARKED, StepStatus.BACKING_OFF),
        Move.WAIT_AGAIN: Transition(_PARKED, StepStatus.WAITING),
    }
)
"""Every move of a step. A step is created QUEUED, WAITING, or already ended (inline nodes)."""


class IllegalMove(FailedPrecondition):
    """The step is in no state from which the move leads anywhere."""

    def __init__(self, step: StepState, move: Move) -> None:
        super().__init__(
            f"step {step.step} is {step.status} and cannot {move.replace('_', ' ')}",
            reason=Reason.TRANSITION_REFUSED,
        )
        self.step = step
        self.move = move


def moved(step: StepState, move: Move) -> StepState:
    """Return `step` in the state that `move` leads to. Raises `IllegalMove`."""
    transition = TABLE[move]
    if step.status not in transition.sources:
        raise IllegalMove(step, move)
    return replace(step, status=transition.target)
