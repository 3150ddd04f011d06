"""Where runs, steps and effects stand. Each value says how it is entered and how it is left."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """Where a run stands; every value but RUNNING is final."""

    RUNNING = "running"  # start -> all nodes ended or none can run, finish, cancel, age limit
    COMPLETED = "completed"  # all nodes ended and none failed uncaught
    FAILED = "failed"  # a node failed and nothing caught it
    CANCELLED = "cancelled"  # somebody cancelled it
    TIMED_OUT = "timed_out"  # it passed its deadline or its age limit


class RunLimit(StrEnum):
    """A time that a run may have been given at its start; past it the run is closed."""

    DEADLINE = "deadline"  # of this run, as its document and its input have it
    AGE = "age"  # of every run of the definition


class StepStatus(StrEnum):
    """Where a step stands; `transitions.TABLE` says what leads from one to another."""

    QUEUED = "queued"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    WAITING = "waiting"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


ENDED = frozenset(
    {StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED}
)
"""The states that a step never leaves."""


class EffectStatus(StrEnum):
    """Where an effect stands."""

    IN_FLIGHT = "in_flight"  # a call was begun -> any other value
    SETTLED = "settled"  # the provider did it; final
    REFUSED = "refused"  # the provider certainly did not -> in_flight, same key
    OUTCOME_UNKNOWN = "outcome_unknown"  # nobody knows -> in_flight, same key; looked up; a person
    NEEDS_REVIEW = "needs_review"  # a person decides -> settled, refused, or given_up
    GIVEN_UP = "given_up"  # a person gave it up; calling again needs another decision


class EffectOutcome(StrEnum):
    """What an executor knows of its effect after a try, or after it looked it up."""

    PERFORMED = "performed"
    NOT_PERFORMED = "not_performed"
    UNKNOWN = "unknown"
    ANSWERED = "answered"  # a look-up was; the definition says what the answer means


class AttemptOutcome(StrEnum):
    """How an acquisition ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    RELEASED = "released"
    CANCELLED = "cancelled"


class ScopeStatus(StrEnum):
    """Where a scope stands."""

    PENDING = "pending"  # its row is made; it begins when there is room
    RUNNING = "running"  # -> any of the others, when all its nodes have ended
    COMPLETED = "completed"
    FAILED = "failed"


class BlockEnd(StrEnum):
    """How a step that holds a sub-graph ends if it stops before its time."""

    CANCEL = "cancel"
    FAIL = "fail"
    COMPLETE = "complete"


class ParentEnd(StrEnum):
    """What the end of a run does to a child of it."""

    CANCEL = "cancel"  # the child is cancelled
    ABANDON = "abandon"  # the child goes on
    WAIT = "wait"  # a run that completes or fails ends only after the child


class ChildStatus(StrEnum):
    """Where a child stands in its parent's eyes."""

    STARTING = "starting"  # its start is an internal event of the parent
    RUNNING = "running"  # started, and not known to have ended
    LEFT = "left"  # the parent has done with it: it was cancelled, or never started
    ENDED = "ended"  # it told its end, or could not be started


class DeadCause(StrEnum):
    """Why a dead letter's step was not tried once more."""

    RETRIES = "retries"  # they ran out
    POISON = "poison"  # its workers died of it
    PERMANENT = "permanent"  # the error is not one to retry


class TimerKind(StrEnum):
    """What a timer does when it is due; INTERNAL_TIMERS are events that runs send."""

    RETRY = "retry"  # a step's next try
    EFFECT_WAIT = "effect_wait"  # the end of the time that a step waits out another's call
    EFFECT_LEASE = "effect_lease"  # the end of an effect's lease: nobody knows what became of it
    WAIT = "wait"  # the end of a step's wait, or of the one between two passes
    TIMEOUT = "timeout"  # the most that a try of a whole sub-graph may take
    DEADLINE = "deadline"  # the end of the time that a node has
    END_STEPS = "end_steps"  # end the unfinished steps of a closed run, some at a time
    BEGIN = "begin"  # begin a run whose start was put off, or whose exclusive key is its own now
    HAND_OVER = "hand_over"  # give the exclusive key of a run that ended to the next
    ADVANCE = "advance"  # go on with inline nodes that were too many for one event
    FAN_OUT = "fan_out"  # make the rows of the next items of a `for_each`
    EMIT = "emit"  # send a signal to another run, or by a key
    STOP_INSIDE = "stop_inside"  # end what is unfinished inside of a sub-graph, some at a time
    START_CHILD = "start_child"  # start the child run of a step
    CHILD_ENDED = "child_ended"  # to a parent: the child of this step has ended
    LEAVE_CHILDREN = "leave_children"  # cancel the children of what has ended, some at a time
    CANCEL_RUN = "cancel_run"  # to any run of the org: end, because another run wants it
    PARK = "park"  # park the steps of a paused run, some at a time
    UNPARK = "unpark"  # bring back the steps of a run that was resumed, some at a time
    REPLAY = "replay"  # retry a run that is a dead letter
    COMPENSATE = "compensate"  # look for the next step to compensate
    REOPEN = "reopen"  # mark what a retry decides again, some at a time
    NEW_PERIOD = "new_period"  # bring back what is parked on a budget: its next period begins
    ERASE = "erase"  # erase the next rows of the run, or begin to in the next runs of an erasure
    CAUSE_GONE = "cause_gone"  # bring back the steps that were parked on a cause, some at a time
    MIGRATE = "migrate"  # move the run to another version, or the next runs of a migration


INTERNAL_TIMERS = frozenset(
    {
        TimerKind.END_STEPS,
        TimerKind.BEGIN,
        TimerKind.HAND_OVER,
        TimerKind.ADVANCE,
        TimerKind.FAN_OUT,
        TimerKind.STOP_INSIDE,
        TimerKind.START_CHILD,
        TimerKind.CHILD_ENDED,
        TimerKind.LEAVE_CHILDREN,
        TimerKind.CANCEL_RUN,
        TimerKind.EMIT,
        TimerKind.PARK,
        TimerKind.UNPARK,
        TimerKind.REPLAY,
        TimerKind.COMPENSATE,
        TimerKind.REOPEN,
        TimerKind.NEW_PERIOD,
        TimerKind.ERASE,
        TimerKind.CAUSE_GONE,
        TimerKind.MIGRATE,
    }
)


ABOUT_CHILDREN = frozenset({TimerKind.START_CHILD, TimerKind.CHILD_ENDED})
"""What is delivered even if its step has ended: there is a run that somebody must know of."""
