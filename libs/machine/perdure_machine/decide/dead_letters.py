"""Dead letters: runs that ended failed because a step of theirs failed for good."""

from __future__ import annotations

from perdure_runtime.errors import NotFound, Reason

from perdure_machine.actions import PutDeadLetter
from perdure_machine.decide.draft import Draft
from perdure_machine.events import DiscardDeadLetter
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.replies import Done, Reply
from perdure_machine.states import DeadCause
from perdure_machine.view import NodeError

_CAUSES = {
    ErrorClass.RETRYABLE: DeadCause.RETRIES,
    ErrorClass.RATE_LIMITED: DeadCause.RETRIES,
    ErrorClass.POISON: DeadCause.POISON,
}


def put_dead_letter(draft: Draft, error: NodeError) -> None:
    """Make the failed run a dead letter, unless its own document failed it."""
    node = draft.definition.nodes.get(error.node)
    if node is None or node.kind.inline:
        return
    cause = _CAUSES.get(ErrorClass(error.category), DeadCause.PERMANENT)
    draft.run = replace(draft.run, dead_lettered=True)
    draft.actions.append(PutDeadLetter(error.node, cause, error))


def discard(draft: Draft, event: DiscardDeadLetter) -> Reply:
    """Give a dead letter up; the run stays as it ended. Raises `NotFound` where it is none."""
    if not draft.run.dead_lettered:
        raise NotFound(
            f"the run {draft.run.run_id} is no dead letter", reason=Reason.DEAD_LETTER_NOT_FOUND
        )
    draft.drop_dead_letter()
    draft.record_order("dead_letter_discarded", event.reason, event.actor)
    return Done(changed=True)
