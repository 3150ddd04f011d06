"""The store of a simulation: the engine in memory, and a place for a planted bug."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from perdure_machine.decide import Decision
from perdure_machine.definition.model import Definition
from perdure_machine.events import ChildRefused, ChildStarted, Event
from perdure_machine.memory import MemoryEngine
from perdure_machine.replies import ChildWanted
from perdure_machine.view import View


class Bug:
    """A fault planted into the engine from outside; this one changes nothing.

    `sees` is what a decision is given in place of the truth, `does` what is made of it.
    """

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Return what the decision is given; `now` is the store's clock."""
        return view, event

    def does(self, decision: Decision, event: Event) -> Decision:
        """Return what is written of the decision."""
        return decision

    def child_key(self, key: str) -> str:
        """Return the start key under which a child is started."""
        return key

    def start_key(self, key: str) -> str | None:
        """Return the start key that is claimed."""
        return key


class Store(MemoryEngine):
    """Rows survive whatever dies; what was decided and not written does not."""

    def __init__(self, bug: Bug) -> None:
        super().__init__()
        self.bug = bug

    def all_runs(self) -> list[UUID]:
        """Return every run, children among them."""
        return list(self._runs)

    def _start_child(self, wanted: ChildWanted) -> ChildStarted | ChildRefused:
        key = self.bug.child_key(wanted.start_key)
        return super()._start_child(replace(wanted, start_key=key))

    def _decide(self, definition: Definition, view: View, event: Event) -> Decision:
        seen, event = self.bug.sees(view, event, self.now)
        return self.bug.does(super()._decide(definition, seen, event), event)
