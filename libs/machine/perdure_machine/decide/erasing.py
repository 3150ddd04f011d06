"""Erasure of a run: it ends at once, and its payloads go, some rows at a time (design section 12).

From the first event on the run is marked, and from then on no payload of it is written any more,
whoever still reports one: `redacted` sees to that for every action.
"""

from __future__ import annotations

from perdure_machine.actions import EndErasure, EraseRows, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import terminate_run
from perdure_machine.erasure import (
    ROWS_AT_ONCE,
    Part,
    Place,
    Portion,
    after_part,
    first_place,
    read_place,
)
from perdure_machine.events import TerminateRun
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.view import TimerState, ViewTooNarrow, Wanted


def erase(draft: Draft, timer: TimerState) -> None:
    """Erase the next rows of the run; a run that is being erased already is left to that.

    Raises `ViewTooNarrow`.
    """
    place = read_place(timer.details)
    if place == first_place(place.erasure_id):
        if draft.run.erased:
            draft.actions.append(EndErasure(place.erasure_id, found_erased=True))
            return
        _mark(draft)
    portion = _next_portion(draft, place)
    draft.actions.append(EraseRows(place, portion.upto))
    following = place.at(portion.upto) if portion.more else after_part(place)
    if following is None:
        draft.actions.append(EndErasure(place.erasure_id))
        return
    details = following.encoded()
    draft.actions.append(SetTimer(TimerKind.ERASE, None, 0.0, details=details))


def _mark(draft: Draft) -> None:
    terminate_run(draft, TerminateRun("its subject was erased"))
    draft.drop_dead_letter()
    draft.run = replace(draft.run, erased=True)
    draft.record("run_erased")


def _next_portion(draft: Draft, place: Place) -> Portion:
    match place.part:
        case Part.STEPS:
            return _numbers(place, draft.run.next_step - 1)
        case Part.HISTORY:
            return _numbers(place, draft.run.next_seq - 1)
        case Part.SCOPES | Part.CHILDREN:
            found = draft.view.erasing.get(place)
            if found is None:
                raise ViewTooNarrow(Wanted(erasing=frozenset({place})))
            return found
        case Part.REST:
            return Portion("", more=False)


def _numbers(place: Place, last: int) -> Portion:
    upto = int(place.after or 0) + ROWS_AT_ONCE
    return Portion(str(upto), more=upto < last)
