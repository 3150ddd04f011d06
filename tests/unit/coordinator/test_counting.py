"""What is counted of a committed transaction (R2)."""

from __future__ import annotations

from uuid import UUID

from perdure_coordinator.counting import PlainCounts, count
from perdure_machine.changes import collapse
from perdure_machine.decide import decide_start
from perdure_machine.decide.last_report import LastReport
from perdure_machine.decide.last_wait import LastWait
from perdure_machine.definition.parse import parse
from perdure_machine.events import Start
from perdure_machine.memory import DEFAULT_LANES
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import RunState, StepState
from perdure_testkit.waiting import eventually
from prometheus_client import REGISTRY

DOCUMENT = b'{"name": "flow", "nodes": {"a": {"transform": 1}}}'


RUN = RunState(
    UUID(int=1), "default", 1, "flow", 1, RunStatus.COMPLETED, 3, 1, 0, 2, 1, 5, b"1", b"1", None,
    None, {}, None,
)  # fmt: skip
STEP = StepState(1, "", "a", StepStatus.COMPLETED)


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def counted() -> list[float]:
    started = sample("perdure_runs_started_total")
    return [started, sample("perdure_runs_ended_total", status="completed")]


def counted_plainly() -> list[float]:
    attempts = sample("perdure_attempts_total", outcome="completed")
    return [attempts, sample("perdure_runs_ended_total", status="completed")]


def test_r2_starts_and_ends_are_counted_from_what_was_written() -> None:
    definition = parse(DOCUMENT, known_lanes=frozenset(DEFAULT_LANES))
    event = Start(UUID(int=1), "default", 1, 1, b"{}")
    changes = collapse(None, decide_start(definition, DEFAULT_LANES, event).actions)
    assert changes is not None
    before = counted()
    count([changes])
    assert counted() == [value + 1 for value in before]


async def test_what_was_plainly_written_is_counted_together() -> None:
    counts, before = PlainCounts(), counted_plainly()
    assert counts.add([LastReport(RUN, STEP)]) == 1
    assert counts.add([LastReport(RUN, STEP), LastWait(RUN, STEP, 7)]) == 2
    assert counted_plainly() == before

    expected = [before[0] + 2, before[1] + 3]
    await eventually(lambda: counted_plainly() == expected, what="both were counted")
