"""The tokens of callbacks that a run's expressions hand out, made with the run's secret."""

from __future__ import annotations

from collections.abc import Iterable

from perdure_machine.actions import KeepSecret
from perdure_machine.callbacks import token_of
from perdure_machine.decide.draft import Draft
from perdure_machine.expressions.reads import CALLBACK, Read
from perdure_machine.places import At, Place
from perdure_machine.replacing import replace
from perdure_machine.view import ViewTooNarrow, Wanted


def tokens(draft: Draft, place: Place, reads: Iterable[Read]) -> dict[str, str]:
    """Return the token of each node that `reads` in a scope name. Raises `ViewTooNarrow`."""
    nodes = {str(read.path[0]) for read in reads if read.part == CALLBACK}
    if not nodes:
        return {}
    secret, run = _used_secret(draft), draft.run
    return {
        node: token_of(secret, run.org, run.run_id, At(*draft.place_of(node, place), node))
        for node in sorted(nodes)
    }


def _used_secret(draft: Draft) -> bytes:
    """Return the run's secret, which is kept once a token was made with it."""
    mail = draft.mail
    if mail.secret is None:
        raise ViewTooNarrow(Wanted(secret=True))
    if not mail.secret_kept:
        draft.mail = replace(mail, secret_kept=True)
        draft.actions.append(KeepSecret(mail.secret))
    return mail.secret
