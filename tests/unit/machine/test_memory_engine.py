"""The engine in memory as users meet it: its clock, its lists, its view of what is stuck."""

import json
from collections.abc import Callable
from uuid import UUID

import pytest
from perdure_machine.events import Acquire, ExpireRun, FireTimer, Report, Succeeded
from perdure_machine.memory import DEFAULT_LANES, MemoryEngine
from perdure_machine.replies import Granted
from perdure_machine.states import RunStatus
from perdure_runtime.errors import NotFound, Reason

DOCUMENT = json.dumps(
    {
        "name": "greet",
        "limits": {"age": "1h"},
        "nodes": {
            "a": {"task": {"handler": "x"}, "retry": {"base": "5s"}},
            "w": {"wait": "10s", "needs": ["a"]},
        },
    }
).encode()


@pytest.fixture
def engine() -> MemoryEngine:
    engine = MemoryEngine(now=1_000_000.5)
    engine.publish("acme", DOCUMENT)
    return engine


@pytest.fixture
def run(engine: MemoryEngine) -> UUID:
    return engine.start("acme", "greet").run_id


def acquire(engine: MemoryEngine, run: UUID) -> Granted:
    reply = engine.submit("acme", run, Acquire(1, UUID(int=9), "w"))
    assert isinstance(reply, Granted)
    return reply


def test_nothing_happens_until_the_caller_moves_the_clock(engine: MemoryEngine, run: UUID) -> None:
    acquire(engine, run)
    engine.submit("acme", run, Report(1, 1, UUID(int=9), Succeeded(b"1")))
    assert engine.due_timers() == []
    engine.advance(10)
    (timer,) = engine.due_timers()
    engine.submit("acme", run, FireTimer(timer.timer_id))
    assert engine.run(run).status is RunStatus.COMPLETED


def test_run_ids_are_uuids_of_version_7_at_the_engines_time(engine: MemoryEngine) -> None:
    first, second = (engine.start("acme", "greet").run_id for _ in range(2))
    assert first.version == second.version == 7
    assert first < second
    assert first.int >> 80 == 1_000_000_500


def test_two_engines_that_do_the_same_are_the_same() -> None:
    def history() -> list[object]:
        engine = MemoryEngine()
        engine.publish("acme", DOCUMENT)
        run = engine.start("acme", "greet").run_id
        acquire(engine, run)
        return [run, *engine.history(run), *engine.steps(run)]

    assert history() == history()


def test_the_lists_say_what_a_worker_a_timer_and_a_sweep_would_do(
    engine: MemoryEngine, run: UUID
) -> None:
    (queued,) = engine.queued_steps()
    assert (queued.run_id, queued.node, queued.lane, queued.owner) == (run, "a", "io", "acme")
    granted = acquire(engine, run)
    assert engine.queued_steps() == []
    engine.advance(DEFAULT_LANES["io"].hand_out)
    (lease,) = engine.expired_leases()
    assert (lease.step, lease.fence, lease.timed_out) == (1, granted.step.fence, False)
    assert engine.old_runs() == []
    engine.advance(3600)
    assert engine.old_runs() == [run]
    engine.submit("acme", run, ExpireRun())
    assert engine.old_runs() == []


def test_an_unknown_run_or_another_orgs_is_refused_alike(engine: MemoryEngine, run: UUID) -> None:
    for org, run_id in (("acme", UUID(int=1)), ("rival", run)):
        with pytest.raises(NotFound) as refused:
            engine.submit(org, run_id, ExpireRun())
        assert refused.value.reason == Reason.RUN_NOT_FOUND


def queued_without_row(engine: MemoryEngine, run: UUID) -> None:
    engine._runs[run].outbox.clear()


def expired_long_ago(engine: MemoryEngine, run: UUID) -> None:
    acquire(engine, run)
    engine.advance(10 + 30 + 30 + 1)


def waiting_without_timer(engine: MemoryEngine, run: UUID) -> None:
    acquire(engine, run)
    engine.submit("acme", run, Report(1, 1, UUID(int=9), Succeeded(b"1")))
    engine._runs[run].timers.clear()


def without_steps(engine: MemoryEngine, run: UUID) -> None:
    engine._runs[run].steps.clear()


@pytest.mark.parametrize(
    ("sabotage", "step", "missing"),
    [
        (queued_without_row, 1, "queued without an outbox row"),
        (expired_long_ago, 1, "running under a lease that ended long ago"),
        (waiting_without_timer, 2, "waiting for nothing that will come"),
        (without_steps, None, "running with no unfinished step and no internal event"),
    ],
)
def test_r10_what_is_sabotaged_is_found(
    engine: MemoryEngine,
    run: UUID,
    sabotage: Callable[[MemoryEngine, UUID], None],
    step: int | None,
    missing: str,
) -> None:
    assert engine.no_way_forward() == []
    sabotage(engine, run)
    (stuck,) = engine.no_way_forward()
    assert (stuck.run_id, stuck.step, stuck.missing) == (run, step, missing)
