"""A failed run is retried from what failed in it; dead letters are replayed and discarded."""

from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, DiscardDeadLetter, ExpireRun, FireTimer, RetryRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Closed, Done, Suspended
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus, TimerKind
from perdure_runtime.errors import Aborted, FailedPrecondition, NotFound, Reason
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Dead, Engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
NO_RETRY = {"retry": {"max": 0}}
DAY = 86_400


def call(effect: str) -> dict[str, object]:
    return {"http": {"url": "https://x.example", "method": "PUT", "effect": effect}, **NO_RETRY}


async def failed(driver: Driver, nodes: dict[str, object], node: str, **members: object) -> UUID:
    """Return a run that ended failed because `node` did, once everything of it has ended."""
    await driver.publish(nodes, **members)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, node), ErrorClass.PERMANENT, "WRONG")
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    return run


async def test_p11_a_retry_goes_on_from_the_failed_node_in_the_same_step(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": {**TASK, "needs": ["a"]}, "c": {**TASK, "needs": ["b"]}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), b"1")
    first = await driver.acquire(run, "b")
    await driver.fail(first, ErrorClass.PERMANENT)
    await driver.settle()
    assert await driver.submit(run, RetryRun("fixed")) == Done(changed=True)
    assert await driver.submit(run, RetryRun()) == Done(changed=False)
    await driver.settle()
    step = await driver.step(run, "b")
    assert (step.step, step.status, step.failures, step.error) == (2, StepStatus.QUEUED, 0, None)
    again = await driver.acquire(run, "b")
    assert (again.step.fence, again.step.input) == (2, first.step.input)
    await driver.succeed(again, b"2")
    await driver.succeed(await driver.acquire(run, "c"), b"3")
    state = await driver.engine.run(run)
    assert (state.status, state.error, state.output) == (RunStatus.COMPLETED, None, b'{"c":3}')
    assert [step.node for step in await driver.engine.steps(run)] == ["a", "b", "c"]
    assert "run_retried" in await driver.kinds(run)


async def test_nodes_that_were_cancelled_or_skipped_because_of_a_failure_are_decided_again(
    driver: Driver,
) -> None:
    run = await failed(
        driver,
        {
            "a": TASK,
            "b": {**TASK, "needs": ["a"]},
            "any": {**TASK, "needs": ["a", "b"], "join": "any"},
            "end": {"needs": ["a"], "join": "settled", "transform": "${nodes.a.status}"},
            "other": {"wait": "1h"},
            "off": {"when": "false", "transform": 1},
        },
        "a",
    )
    assert await driver.statuses(run) == {
        "a": "failed", "b": "cancelled", "any": "skipped", "end": "completed",
        "other": "cancelled", "off": "skipped",
    }  # fmt: skip
    await driver.submit(run, RetryRun())
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.statuses(run) == {
        "a": "completed", "b": "queued", "any": "queued", "end": "completed",
        "other": "waiting", "off": "skipped",
    }  # fmt: skip
    await driver.drain()
    state = await driver.engine.run(run)
    assert (state.status, state.ended_nodes) == (RunStatus.COMPLETED, 6)


async def test_p11_a_run_whose_parent_was_told_is_not_retried_but_its_parent_is(
    driver: Driver, engine: Engine
) -> None:
    child = Driver(engine)
    await child.publish({"work": TASK})
    await driver.publish({"call": {"run": {"workflow": child.workflow}}})
    run = await driver.start()
    await driver.settle()
    (first,) = await engine.children(run)
    assert first.run_id is not None
    await child.fail(await child.acquire(first.run_id, "work"), ErrorClass.PERMANENT)
    await driver.settle()
    with pytest.raises(FailedPrecondition) as refused:
        await child.submit(first.run_id, RetryRun())
    assert refused.value.reason is Reason.PARENT_TOLD
    await driver.submit(run, RetryRun())
    await driver.settle()
    (second,) = await engine.children(run)
    assert second.run_id not in (None, first.run_id)
    await driver.drain()
    assert (await engine.run(run)).status is RunStatus.COMPLETED


async def test_a_retried_run_may_fail_and_be_retried_again(driver: Driver) -> None:
    run = await failed(driver, {"a": TASK, "b": {**TASK, "needs": ["a"]}}, "a")
    for _ in range(2):
        await driver.submit(run, RetryRun())
        await driver.settle()
        await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
        await driver.settle()
        assert (await driver.engine.run(run)).status is RunStatus.FAILED
        assert len(await driver.engine.dead_letters(driver.org)) == 1
    await driver.submit(run, RetryRun())
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert list(await driver.engine.dead_letters(driver.org)) == []


async def test_inline_nodes_that_failed_are_computed_again(driver: Driver) -> None:
    nodes = {"a": {"transform": "${input.missing}"}, "b": {"needs": ["a"], "transform": 1}}
    await driver.publish(nodes)
    run = await driver.start()
    await driver.submit(run, RetryRun())
    await driver.settle()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert (await driver.step(run, "a")).status is StepStatus.FAILED
    assert list(await driver.engine.dead_letters(driver.org)) == []


async def test_r8_settled_effects_stand_and_keep_their_key(driver: Driver) -> None:
    await driver.publish({"a": {**call("provider"), "result": "${input.missing}"}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), effect=EffectOutcome.PERFORMED)
    await driver.settle()
    await driver.submit(run, RetryRun())
    await driver.settle()
    granted = await driver.acquire(run, "a")
    assert granted.effect is not None
    assert (granted.effect.status, granted.effect.calls) == (EffectStatus.SETTLED, 2)
    (effect,) = await driver.engine.effects(run)
    assert effect.key == granted.effect.key
    await driver.fail(granted, ErrorClass.PERMANENT)
    await driver.settle()


async def test_r8_a_call_that_was_performed_is_not_repeated_by_a_retry(driver: Driver) -> None:
    await driver.publish({"a": call("none")})
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.PERFORMED)
    with pytest.raises(FailedPrecondition) as refused:
        await driver.submit(run, RetryRun())
    assert refused.value.reason is Reason.EFFECT_UNRESOLVED
    assert await driver.engine.replay(driver.org) == 1
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.kinds(run))[-1] == "replay_refused"


async def test_a_retry_waits_until_the_last_steps_of_the_run_have_ended(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": TASK})
    run = await driver.start()
    other = await driver.acquire(run, "b")
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    await driver.settle()
    with pytest.raises(Aborted):
        await driver.submit(run, RetryRun())
    await driver.succeed(other, b"7")
    assert await driver.submit(run, RetryRun()) == Done(changed=True)
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a"), b"8")
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"a":8,"b":7}')


@pytest.mark.parametrize("how", ["cancelled", "timed out", "completed"])
async def test_a_run_that_ended_otherwise_is_not_retried(driver: Driver, how: str) -> None:
    await driver.publish({"a": TASK}, limits={"age": "1h"})
    run = await driver.start()
    if how == "completed":
        await driver.drain()
    else:
        await driver.engine.advance(3601)
        await driver.submit(run, CancelRun() if how == "cancelled" else ExpireRun())
        await driver.settle()
    assert await driver.submit(run, RetryRun()) == Closed(RunStatus(how.replace(" ", "_")))


async def test_the_age_of_a_retried_run_is_counted_anew_and_its_key_lasts(driver: Driver) -> None:
    await driver.publish({"a": TASK}, limits={"age": "10d"})
    run = await driver.start(start_key="k")
    await driver.engine.advance(6 * DAY)
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    await driver.submit(run, RetryRun())
    await driver.settle()
    await driver.engine.advance(8 * DAY)
    assert await driver.start(start_key="k") == run
    await driver.drain()


async def test_501_steps_are_marked_500_at_a_time_and_decided_after_that(driver: Driver) -> None:
    nodes = {f"t{i}": {**TASK, "needs": ["a"]} for i in range(500)}
    run = await failed(driver, {"a": TASK, **nodes}, "a", on_error="finish_others")
    await driver.submit(run, RetryRun())
    marked = []
    while timers := [t for t in await driver.engine.timers() if t.kind is TimerKind.REOPEN]:
        await driver.submit(run, FireTimer(timers[0].timer_id))
        steps = await driver.engine.steps(run)
        marked.append(sum(step.undecided for step in steps))
    assert marked[0] == 500
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.settle()
    assert len(await driver.engine.queued()) == 500


@pytest.mark.parametrize(
    ("category", "cause"),
    [(ErrorClass.RETRYABLE, "retries"), (ErrorClass.PERMANENT, "permanent")],
)
async def test_a_run_that_failed_by_a_step_is_a_dead_letter_with_its_cause(
    driver: Driver, category: ErrorClass, cause: str
) -> None:
    await driver.publish({"a": {**TASK, **NO_RETRY}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), category, "WRONG")
    assert await driver.engine.dead_letters(driver.org) == [Dead(run, "a", cause, "WRONG")]


async def test_a_poisoned_run_is_a_dead_letter(driver: Driver) -> None:
    await driver.publish({"a": {**TASK, **NO_RETRY}})
    run = await driver.start()
    for _ in range(3):
        await driver.acquire(run, "a")
        await driver.engine.advance(11)
        await driver.expire_due()
    assert await driver.engine.dead_letters(driver.org) == [Dead(run, "a", "poison", "POISON")]


async def lose(driver: Driver, run: UUID, node: str, times: int) -> None:
    """Let so many workers die of a step."""
    for _ in range(times):
        await driver.acquire(run, node)
        await driver.engine.advance(11)
        await driver.expire_due()


async def test_a_poisoned_step_is_tried_again_only_where_a_rule_names_poison(
    driver: Driver,
) -> None:
    rules = [{"on": ["retryable"], "max": 9}, {"on": ["poison"], "max": 1, "base": "1s"}]
    await driver.publish({"a": {**TASK, "retry": rules}})
    run = await driver.start()
    await lose(driver, run, "a", 3)
    step = await driver.step(run, "a")
    assert (step.status, step.failures, step.losses) == (StepStatus.BACKING_OFF, 1, 3)
    await driver.engine.advance(2)
    await driver.settle()
    await lose(driver, run, "a", 1)
    assert await driver.engine.dead_letters(driver.org) == [Dead(run, "a", "poison", "POISON")]


async def test_a_replayed_poisoned_step_may_lose_as_many_workers_again(driver: Driver) -> None:
    await driver.publish({"a": TASK})
    run = await driver.start()
    await lose(driver, run, "a", 3)
    await driver.engine.replay(driver.org)
    await driver.settle()
    await lose(driver, run, "a", 2)
    assert (await driver.step(run, "a")).losses == 2
    await driver.succeed(await driver.acquire(run, "a"), b"1")
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_run_that_fails_again_while_others_are_replayed_is_not_replayed_again(
    driver: Driver,
) -> None:
    await driver.publish({"a": TASK})
    runs = [await driver.start() for _ in range(3)]
    for run in runs:
        await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    assert await driver.engine.replay(driver.org) == 3
    first = runs[0]
    while due := [timer for timer in await driver.engine.timers() if timer.run_id == first]:
        await driver.engine.fire(due[0])
    await driver.fail(await driver.acquire(first, "a"), ErrorClass.PERMANENT)
    assert len(await driver.engine.dead_letters(driver.org)) == 3
    await driver.settle()
    assert [one.run_id for one in await driver.engine.dead_letters(driver.org)] == [first]
    assert (await driver.kinds(first)).count("run_retried") == 1
    await driver.drain()


async def test_a_run_that_its_own_document_failed_is_no_dead_letter(driver: Driver) -> None:
    await driver.publish({"a": {"fail": {"code": "NO"}}})
    run = await driver.start()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert list(await driver.engine.dead_letters(driver.org)) == []


async def test_dead_letters_are_replayed_by_filter_as_they_are_at_the_call(
    driver: Driver, rival: Driver
) -> None:
    await driver.publish({"a": TASK})
    runs = [await driver.start() for _ in range(4)]
    for run, code in zip(runs, ("X", "X", "Y", "X"), strict=True):
        await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT, code)
    assert await rival.engine.replay(rival.org) == 0
    assert await driver.engine.replay(driver.org, "X", limit=2) == 2
    assert len(await driver.engine.dead_letters(driver.org)) == 4
    await driver.settle()
    assert [one.run_id for one in await driver.engine.dead_letters(driver.org)] == [
        runs[3], runs[2],
    ]  # fmt: skip
    assert await driver.statuses(runs[0]) == {"a": "queued"}
    await driver.drain()


async def test_a_replay_that_was_asked_for_twice_retries_once(driver: Driver) -> None:
    run = await failed(driver, {"a": TASK}, "a")
    await driver.engine.replay(driver.org)
    await driver.engine.replay(driver.org)
    await driver.settle()
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.kinds(run)).count("run_retried") == 1


async def test_a_discarded_dead_letter_is_gone_and_its_run_stays_failed(driver: Driver) -> None:
    run = await failed(driver, {"a": TASK}, "a")
    assert await driver.submit(run, DiscardDeadLetter("old")) == Done(changed=True)
    with pytest.raises(NotFound) as refused:
        await driver.submit(run, DiscardDeadLetter("old"))
    assert refused.value.reason is Reason.DEAD_LETTER_NOT_FOUND
    assert list(await driver.engine.dead_letters(driver.org)) == []
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.kinds(run))[-1] == "dead_letter_discarded"


async def test_a_whole_that_failed_is_begun_again_in_new_scopes(driver: Driver) -> None:
    batch = {"for_each": {"in": "${input.items}", "nodes": {"work": TASK}}}
    await driver.publish({"batch": batch, "after": {**TASK, "needs": ["batch"]}})
    run = await driver.start(b'{"items": [1, 2]}')
    granted = await driver.acquire(run, "batch[0].work")
    await driver.fail(granted, ErrorClass.PERMANENT)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    await driver.submit(run, RetryRun())
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r8_a_retry_of_a_call_of_unknown_outcome_is_left_to_a_person(driver: Driver) -> None:
    await driver.publish({"a": {**call("none"), "deadline": "60s"}})
    run = await driver.start()
    await driver.call(run, "a")
    await driver.engine.advance(61)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    await driver.submit(run, RetryRun())
    await driver.settle()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("review")


async def test_a_wait_for_a_signal_that_ended_with_the_run_is_opened_again(driver: Driver) -> None:
    run = await failed(driver, {"go": {"signal": {"name": "go"}}, "a": {**TASK, **NO_RETRY}}, "a")
    await driver.submit(run, RetryRun("once more"))
    await driver.settle()
    assert (await driver.step(run, "go")).status is StepStatus.WAITING
    assert await driver.engine.no_way_forward() == []
    await driver.send(run, "go", b'{"n": 1}')
    assert (await driver.step(run, "go")).output == b'{"n": 1}'


async def test_r10_what_failed_at_the_end_does_not_hold_up_the_end_after_a_retry(
    driver: Driver,
) -> None:
    last = {"at_end": [{"on": "any", "then": ["tell"]}]}
    await driver.publish({"a": {**TASK, **NO_RETRY}, "tell": {**TASK, **NO_RETRY}}, **last)
    run = await driver.start()
    for node in ("a", "tell"):
        await driver.fail(await driver.acquire(run, node), ErrorClass.PERMANENT)
        await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    await driver.submit(run, RetryRun("once more"))
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a"), b"1")
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert (await driver.step(run, "tell")).status is StepStatus.FAILED
