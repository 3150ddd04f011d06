"""What a decision sees: the view as the decision has changed it so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_machine.definition.graph import reachable
from perdure_machine.definition.model import Definition, Graph, Node, OnError
from perdure_machine.lanes import Lane
from perdure_machine.places import TOP, At, Place, container_of
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import (
    BlockState,
    EffectState,
    Epoch,
    NodeError,
    ScopeState,
    StepState,
    View,
    ViewTooNarrow,
    Wanted,
    lacking_nodes,
)


class Sight:
    """A run in the middle of a decision, and the questions that decisions ask about it."""

    def __init__(self, definition: Definition, lanes: Mapping[str, Lane], view: View) -> None:
        self.definition = definition
        self.lanes = lanes
        self.view = view
        self.run = view.run
        self.steps = dict(view.steps)
        self.scopes = dict(view.scopes)
        self.blocks = dict(view.blocks)
        self.effects = dict(view.effects)
        self._by_node = {step.at: step.step for step in view.steps.values()}
        self._known_places = set(view.known_places)
        self._descendants: dict[Place, frozenset[str]] = {}

    @property
    def running(self) -> bool:
        """Whether the run still goes on, towards its end and not from it."""
        return self.open and self.run.ending is None

    @property
    def open(self) -> bool:
        """Whether the run has not ended; it may be compensating."""
        return self.run.status is RunStatus.RUNNING

    def works(self, step: StepState) -> bool:
        """Tell whether the step is still wanted: a compensation is while the run is open."""
        return self.running if step.compensates is None else self.open

    @property
    def paused(self) -> bool:
        """Whether nothing of the run may begin until somebody resumes it."""
        return self.open and self.run.paused

    def stops(self, at: At) -> bool:
        """Tell whether the node is stopped: its scope fails, and it does not descend from what did.

        The first failure that nothing caught is what counts, whatever fails after it.
        """
        error = self.error_in(at.place)
        if error is None or not self.running or self.definition.on_error is not OnError.STOP:
            return False
        found = self._descendants.get(at.place)
        if found is None:
            failed = self.definition.lifted(error.node, container_of(at.scope))
            nodes = self.definition.nodes
            dependents = {id_: one.dependents for id_, one in nodes.items()}
            found = self._descendants[at.place] = reachable([failed], dependents) | {failed}
        return at.node not in found

    def node(self, step: StepState) -> Node:
        """Return the vertex that the step activates."""
        return self.definition.nodes[step.node]

    def graph(self, place: Place) -> Graph:
        """Return the graph that a scope is an instance of."""
        return self.definition.graphs[container_of(place.scope)]

    def lane(self, step: StepState) -> Lane:
        """Return the settings of the lane that the step runs on."""
        assert step.lane is not None
        return self.lanes[step.lane]

    def step_of(self, at: At) -> StepState | None:
        """Return the step of a node, or None if it has none yet.

        Raises `ViewTooNarrow` where the view does not tell.
        """
        self.require({at})
        number = self._by_node.get(at)
        step = self.steps[number] if number is not None else None
        return None if step is None or step.undecided else step

    def earlier(self, at: At) -> StepState | None:
        """Return the step of a node that a retry has decided again; known once it was asked for."""
        number = self._by_node.get(at)
        step = self.steps[number] if number is not None else None
        return step if step is not None and step.undecided else None

    def require(self, states: Iterable[At], outputs: Iterable[At] = ()) -> None:
        """See that the view tells of these nodes' steps, and of the outputs of some of them.

        Raises `ViewTooNarrow` for all that is missing at once, because each request is a query.
        """
        outputs = frozenset(outputs)
        lacking = self.unknown(states, outputs)
        if lacking:
            raise lacking_nodes(lacking, lacking & outputs)

    def unknown(self, states: Iterable[At], outputs: Iterable[At] = ()) -> frozenset[At]:
        """Return the nodes whose step, or for `outputs` its output, the view does not tell."""
        lacking = {node for node in states if self._lacks(node)}
        return frozenset(lacking | {node for node in outputs if self._lacks(node, output=True)})

    def _lacks(self, at: At, *, output: bool = False) -> bool:
        number = self._by_node.get(at)
        if number is None:
            return at not in self.view.known_nodes and at.place not in self._known_places
        step = self.steps[number]
        return output and step.status is StepStatus.COMPLETED and step.output is None

    def scope(self, place: Place) -> ScopeState:
        """Return a scope below the top. Raises `ViewTooNarrow` where it was not loaded."""
        found = self.scopes.get(place)
        if found is None:
            raise ViewTooNarrow(Wanted(scopes=frozenset({place})))
        return found

    def require_scopes(self, places: Iterable[Place]) -> None:
        """See that the view has these scopes. Raises `ViewTooNarrow` for all it lacks at once."""
        lacking = {place for place in places if place != TOP and place not in self.scopes}
        if lacking:
            raise ViewTooNarrow(Wanted(scopes=frozenset(lacking)))

    def block(self, step: StepState) -> BlockState:
        """Return the counters of a step that holds a sub-graph. Raises `ViewTooNarrow`."""
        found = self.blocks.get(step.step)
        if found is None:
            raise ViewTooNarrow(Wanted(blocks=frozenset({step.step})))
        return found

    def error_in(self, place: Place) -> NodeError | None:
        """Return the first error of a scope that nothing in it caught."""
        return self.run.error if place == TOP else self.scope(place).error

    def owner(self, place: Place) -> StepState:
        """Return the step that a scope below the top belongs to. Raises `ViewTooNarrow`."""
        number = self.scope(place).owner
        if number not in self.steps:
            raise ViewTooNarrow(Wanted(scopes=frozenset({place})))
        return self.steps[number]

    def place_of(self, node: str, seen_from: Place) -> Place:
        """Return the scope around `seen_from`, or that itself, in whose graph the node stands."""
        container = self.definition.nodes[node].container
        place = seen_from
        while container_of(place.scope) != container:
            place = self.owner(place).place
        return place

    def whole_effect(self, key: str) -> EffectState | None:
        """Return an effect with its call, None if there is none. Raises `ViewTooNarrow`."""
        if self.view.known_effects is not None and key not in self.view.known_effects:
            raise ViewTooNarrow(Wanted(effects=frozenset({key})))
        return self.effects.get(key)

    def begun_effects(self, step: int) -> list[EffectState]:
        """Return what a step has begun that does not ride. Raises `ViewTooNarrow`."""
        if not self.run.has_effects:
            return []
        if self.view.known_ledgers is not None and step not in self.view.known_ledgers:
            raise ViewTooNarrow(Wanted(ledgers=frozenset({step})))
        return [one for one in self.effects.values() if one.step == step and one.call is not None]

    def step_numbered(self, number: int) -> StepState:
        """Return a step of the run. Raises `ViewTooNarrow`."""
        if number not in self.steps:
            raise ViewTooNarrow(Wanted(steps=frozenset({number})))
        return self.steps[number]

    def epoch(self) -> Epoch:
        """Return the epoch that calls begin in. Raises `ViewTooNarrow`."""
        if self.view.epoch is None:
            raise ViewTooNarrow(Wanted(epoch=True))
        return self.view.epoch
