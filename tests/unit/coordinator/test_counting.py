"""What is counted of a committed transaction (R2)."""

from __future__ import annotations

from uuid import UUID

from perdure_coordinator.counting import count
from perdure_machine.changes import collapse
from perdure_machine.decide import decide_start
from perdure_machine.definition.parse import parse
from perdure_machine.events import Start
from perdure_machine.memory import DEFAULT_LANES
from prometheus_client import REGISTRY

DOCUMENT = b'{"name": "flow", "nodes": {"a": {"transform": 1}}}'


def counted() -> list[float]:
    return [
        REGISTRY.get_sample_value("perdure_runs_started_total") or 0.0,
        REGISTRY.get_sample_value("perdure_runs_ended_total", {"status": "completed"}) or 0.0,
    ]


def test_r2_starts_and_ends_are_counted_from_what_was_written() -> None:
    definition = parse(DOCUMENT, known_lanes=frozenset(DEFAULT_LANES))
    event = Start(UUID(int=1), "default", 1, 1, b"{}")
    changes = collapse(None, decide_start(definition, DEFAULT_LANES, event).actions)
    assert changes is not None
    before = counted()
    count([changes])
    assert counted() == [value + 1 for value in before]
