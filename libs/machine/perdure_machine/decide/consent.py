"""Whom the work of a step is about, and whether it may be done (design section 12).

A list that forbids it is looked up when the step is about to be handed out, and again when an
effect of it is about to begin, in the transaction that lets it (protocols p1 and p4).
"""

from __future__ import annotations

import json

from perdure_machine.actions import WHOLE_RUN, PutSubject
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import refuse_uncalled
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionCode, ExpressionFailed, Scope, Template, render
from perdure_machine.node_error import ErrorClass
from perdure_machine.places import TOP
from perdure_machine.subjects import MAX_SUBJECT, normal
from perdure_machine.view import NodeError, StepState, ViewTooNarrow, Wanted

SUPPRESSED = "SUPPRESSED"
"""The code of a node whose work a list forbids."""


def run_subject(draft: Draft) -> str | None:
    """Return whom the whole run is about, None where it does not say.

    Raises `ExpressionFailed`.
    """
    template = draft.definition.subject
    return None if template is None else _text(template, scope_for(draft, TOP, [template]))


def node_subject(node: Node, scope: Scope) -> str | None:
    """Return whom the node's work is about, None where it does not say.

    Raises `ExpressionFailed`.
    """
    return None if node.subject is None else _text(node.subject, scope)


def about_run(draft: Draft) -> None:
    """Record whom a new run is about. Raises `ExpressionFailed`."""
    subject = run_subject(draft)
    if subject is not None:
        draft.actions.append(PutSubject(WHOLE_RUN, subject))


def about_step(draft: Draft, step: StepState, subject: str | None) -> None:
    """Record whom a step that begins is about."""
    if subject is not None:
        purpose = draft.node(step).purpose
        draft.actions.append(PutSubject(step.step, subject, purpose))


def is_suppressed(draft: Draft, step: StepState) -> bool:
    """Tell whether a list forbids the step's work now.

    Raises `ViewTooNarrow` where that was not looked up, for a step with a subject only.
    """
    node = draft.definition.nodes.get(step.node)
    if node is None or node.subject is None:
        return False
    if step.step not in draft.view.suppressed:
        raise ViewTooNarrow(Wanted(consents=frozenset({step.step})))
    return draft.view.suppressed[step.step]


def suppressed_error(step: StepState) -> NodeError:
    """Return why a step ends whose work a list forbids."""
    message = "a suppression list forbids this work about its subject"
    return NodeError(ErrorClass.PERMANENT, SUPPRESSED, message, node=step.node)


def refuse_suppressed(draft: Draft, step: StepState) -> bool:
    """Fail a queued step whose work a list forbids; return whether one does.

    Raises `ViewTooNarrow`.
    """
    if not is_suppressed(draft, step):
        return False
    refuse_uncalled(draft, step)
    end_failed(draft, step, suppressed_error(step))
    return True


def _text(template: Template, scope: Scope) -> str:
    value = json.loads(render(template, scope))
    is_name = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value) if is_name else ""
    if not normal(text) or len(text) > MAX_SUBJECT:
        raise ExpressionFailed(
            ExpressionCode.TYPE,
            f"a subject is a text of 1 to {MAX_SUBJECT} characters, or a whole number",
            template.source,
        )
    return text
