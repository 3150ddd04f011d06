"""Signals: by run and by key, early and late, filtered, with a deadline; each taken once."""

import pytest
from perdure_machine.events import CancelRun, DeliverSignals, SendSignal
from perdure_machine.mailbox import MAX_WAITING, SignalState
from perdure_machine.replies import Applied, Signalled, Stale
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_runtime.errors import FailedPrecondition, NotFound, Reason, ResourceExhausted
from perdure_testkit.engines.driver import Driver, new_signal_id

pytestmark = pytest.mark.asyncio(loop_scope="session")

Nodes = dict[str, object]

WEEK = 7 * 86_400
WAIT: Nodes = {"signal": {"name": "go"}}
WAIT_BY_KEY: Nodes = {"signal": {"name": "go", "key": "order-${input.order}"}}
WAIT_AN_HOUR: Nodes = {"signal": {"name": "go", "deadline": "1h"}}
GO: Nodes = {"a": WAIT}
KEYED: Nodes = {"a": WAIT_BY_KEY}
ORDER = b'{"order": 7}'
KEY = "order-7"


async def test_f018_a_signal_step_waits_with_its_open_wait_and_ends_with_the_data(
    driver: Driver,
) -> None:
    await driver.publish(GO)
    run = await driver.start()
    assert await driver.statuses(run) == {"a": "waiting"}
    assert not await driver.engine.no_way_forward()
    assert await driver.send(run, data=b'{"n": 1}')
    assert (await driver.step(run, "a")).output == b'{"n": 1}'
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert (await driver.engine.run(run)).output == b'{"a":{"n": 1}}'


async def test_f017_a_signal_before_its_wait_is_kept_and_taken_when_the_wait_begins(
    driver: Driver,
) -> None:
    await driver.publish({"first": {"task": {"handler": "x"}}, "a": {**WAIT, "needs": ["first"]}})
    run = await driver.start()
    await driver.send(run, data=b"1")
    await driver.send(run, data=b"2")
    await driver.succeed(await driver.acquire(run, "first"))
    assert (await driver.step(run, "a")).output == b"1"
    assert [signal.data for signal in await driver.engine.signals(run)] == [b"2"]


async def test_f017_p6_a_signal_by_key_before_any_run_is_kept_for_the_run_that_asks(
    driver: Driver,
) -> None:
    await driver.publish(KEYED)
    assert await driver.send_by(KEY, data=b"1") == (True, None)
    run = await driver.start(ORDER)
    assert (await driver.step(run, "a")).output == b"1"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p6_a_signal_by_key_reaches_the_run_that_waits_on_it(driver: Driver) -> None:
    await driver.publish(KEYED)
    run = await driver.start(ORDER)
    assert await driver.statuses(run) == {"a": "waiting"}
    assert await driver.send_by(KEY, data=b'"now"') == (True, run)
    assert (await driver.step(run, "a")).output == b'"now"'


async def test_p6_keys_are_an_orgs_own(driver: Driver, rival: Driver) -> None:
    await driver.publish(KEYED)
    run = await driver.start(ORDER)
    assert await rival.send_by(KEY) == (True, None)
    assert await driver.statuses(run) == {"a": "waiting"}


async def test_p12_a_signal_of_another_org_to_a_run_finds_none(
    driver: Driver, rival: Driver
) -> None:
    await driver.publish(GO)
    run = await driver.start()
    with pytest.raises(NotFound):
        await rival.send(run)
    assert await driver.statuses(run) == {"a": "waiting"}


@pytest.mark.parametrize("data", [b"null", b"18446744073709551616", b'{"b":1, "a":"\\u0000"}'])
async def test_r12_data_come_back_byte_for_byte_and_null_is_data(
    driver: Driver, data: bytes
) -> None:
    await driver.publish(GO)
    run = await driver.start()
    await driver.send(run, data=data)
    assert (await driver.step(run, "a")).output == data


async def test_p6_the_same_id_is_the_same_signal(driver: Driver) -> None:
    await driver.publish({**GO, "b": {**WAIT}})
    run = await driver.start()
    assert await driver.send(run, data=b"1", signal_id="s")
    assert not await driver.send(run, data=b"2", signal_id="s")
    assert await driver.statuses(run) == {"a": "completed", "b": "waiting"}
    assert await driver.send(run, data=b"3", signal_id="t")
    assert (await driver.step(run, "b")).output == b"3"


async def test_p6_the_same_id_twice_in_one_batch_is_one_signal(driver: Driver) -> None:
    await driver.publish({**GO, "b": {**WAIT}})
    run = await driver.start()
    event = SendSignal(SignalState("s", "go", b"1"))
    answers = await driver.engine.submit(driver.org, run, event, event)
    assert answers == [Signalled(new=True), Signalled(new=False)]
    assert await driver.statuses(run) == {"a": "completed", "b": "waiting"}


async def test_p6_a_key_redelivered_after_a_remapping_reaches_no_other_run(
    driver: Driver,
) -> None:
    await driver.publish(KEYED)
    first = await driver.start(ORDER)
    assert await driver.send_by(KEY, signal_id="s") == (True, first)
    second = await driver.start(ORDER)
    assert await driver.send_by(KEY, signal_id="s") == (False, first)
    assert await driver.statuses(second) == {"a": "waiting"}
    assert await driver.send_by(KEY, signal_id="t") == (True, second)


async def test_f024_a_duplicate_to_a_closed_run_gets_the_first_answer(driver: Driver) -> None:
    await driver.publish(GO)
    run = await driver.start()
    assert await driver.send(run, signal_id="s")
    assert not await driver.send(run, signal_id="s")
    with pytest.raises(FailedPrecondition) as refused:
        await driver.send(run, signal_id="t")
    assert refused.value.reason is Reason.RUN_CLOSED


async def test_of_two_open_waits_of_one_name_the_older_takes_the_signal(driver: Driver) -> None:
    await driver.publish(
        {
            "first": {"task": {"handler": "x"}},
            "b": {"signal": {"name": "go"}, "needs": ["first"]},
            "a": {"signal": {"name": "go"}},
        }
    )
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "first"))
    assert await driver.statuses(run) == {"first": "completed", "a": "waiting", "b": "waiting"}
    await driver.send(run, data=b"1")
    await driver.send(run, data=b"2")
    assert (await driver.step(run, "a")).output == b"1"
    assert (await driver.step(run, "b")).output == b"2"


async def test_a_signal_of_another_name_stays(driver: Driver) -> None:
    await driver.publish(GO)
    run = await driver.start()
    await driver.send(run, "other")
    assert await driver.statuses(run) == {"a": "waiting"}
    assert [signal.name for signal in await driver.engine.signals(run)] == ["other"]


async def test_a_signal_that_the_filter_refuses_stays_for_others(driver: Driver) -> None:
    await driver.publish(
        {
            "high": {"signal": {"name": "go", "filter": "signal.data.n > input.least"}},
            "any": {"signal": {"name": "go"}, "needs": ["high"]},
        }
    )
    run = await driver.start(b'{"least": 5}')
    await driver.send(run, data=b'{"n": 1}')
    await driver.send(run, data=b'{"m": 1}')
    assert await driver.statuses(run) == {"high": "waiting"}
    await driver.send(run, data=b'{"n": 9}')
    assert (await driver.step(run, "high")).output == b'{"n": 9}'
    assert (await driver.step(run, "any")).output == b'{"n": 1}'


async def test_a_filter_reads_outputs_that_were_there_before_its_node(driver: Driver) -> None:
    await driver.publish(
        {
            "ask": {"task": {"handler": "x"}},
            "between": {"task": {"handler": "x"}, "needs": ["ask"]},
            "a": {
                "signal": {
                    "name": "go",
                    "filter": "signal.data.thread == nodes.ask.output.thread"
                    " && signal.id != '' && signal.name == 'go' && !has(signal.key)",
                },
                "needs": ["between"],
            },
        }
    )
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "ask"), b'{"thread": "t"}')
    await driver.succeed(await driver.acquire(run, "between"))
    await driver.send(run, data=b'{"thread": "u"}')
    assert (await driver.step(run, "a")).status is StepStatus.WAITING
    await driver.send(run, data=b'{"thread": "t"}')
    assert (await driver.step(run, "a")).output == b'{"thread": "t"}'


async def test_p6_signals_by_a_key_go_to_waits_on_it_and_signals_to_the_run_to_any(
    driver: Driver,
) -> None:
    await driver.publish(
        {"plain": WAIT, "keyed": {"signal": {"name": "go", "key": "${input.order}"}}}
    )
    run = await driver.start(ORDER)
    assert await driver.send_by("7", data=b"1") == (True, run)
    assert await driver.statuses(run) == {"plain": "waiting", "keyed": "completed"}
    assert await driver.send_by("7", data=b"2") == (True, run)
    assert await driver.statuses(run) == {"plain": "waiting", "keyed": "completed"}
    await driver.send(run, data=b"3")
    assert (await driver.step(run, "plain")).output == b"3"


async def test_p6_a_signal_to_the_run_is_taken_by_a_wait_on_a_key(driver: Driver) -> None:
    await driver.publish(KEYED)
    run = await driver.start(ORDER)
    await driver.send(run, data=b"1")
    assert (await driver.step(run, "a")).output == b"1"


async def test_p6_a_wait_on_the_key_of_another_run_fails_with_key_taken(driver: Driver) -> None:
    caught = {
        "a": {
            **WAIT_BY_KEY,
            "on_failure": [{"when": "error.code == 'KEY_TAKEN'", "output": "taken"}],
        }
    }
    await driver.publish(caught)
    first, second = await driver.start(ORDER), await driver.start(ORDER)
    assert await driver.statuses(first) == {"a": "waiting"}
    assert (await driver.step(second, "a")).output == b'"taken"'
    await driver.submit(first, CancelRun())
    third = await driver.start(ORDER)
    assert await driver.statuses(third) == {"a": "waiting"}
    await driver.settle()


async def test_p6_two_steps_of_a_run_share_its_key(driver: Driver) -> None:
    keyed = {"signal": {"name": "go", "key": "k"}}
    await driver.publish({"a": keyed, "b": keyed})
    run = await driver.start()
    await driver.send_by("k", data=b"1")
    await driver.send_by("k", data=b"2")
    assert (await driver.step(run, "a")).output == b"1"
    assert (await driver.step(run, "b")).output == b"2"


@pytest.mark.parametrize(
    "payload", [b'{"order": null}', b'{"order": ""}', b'{"order": [1]}', b'{"order": "\\ud800"}']
)
async def test_what_can_be_no_key_fails_the_node(driver: Driver, payload: bytes) -> None:
    await driver.publish({"a": {"signal": {"name": "go", "key": "${input.order}"}}})
    run = await driver.start(payload)
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.code.startswith("EXPRESSION")


async def test_r9_a_deadline_that_passes_fails_the_node_and_may_be_caught(driver: Driver) -> None:
    caught = {**WAIT_AN_HOUR, "on_failure": [{"then": ["late"]}]}
    await driver.publish({"a": caught, "late": {"transform": "too late"}})
    run = await driver.start()
    (timer,) = await driver.engine.timers()
    assert timer.kind is TimerKind.DEADLINE
    await driver.engine.advance(3_601)
    await driver.settle()
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.code == "DEADLINE"
    assert (await driver.step(run, "late")).output == b'"too late"'
    with pytest.raises(FailedPrecondition):
        await driver.send(run)


async def test_r9_a_signal_in_time_wins_and_drops_the_deadline(driver: Driver) -> None:
    await driver.publish({"a": WAIT_AN_HOUR, "last": {"task": {"handler": "x"}, "needs": ["a"]}})
    run = await driver.start()
    await driver.send(run, data=b"1")
    assert not await driver.engine.timers()
    await driver.engine.advance(3_601)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed", "last": "queued"}


async def test_r9_a_signal_after_the_deadline_stays_for_the_next_wait(driver: Driver) -> None:
    await driver.publish(
        {
            "a": {**WAIT_AN_HOUR, "on_failure": [{"output": "nothing"}]},
            "work": {"task": {"handler": "x"}, "needs": ["a"]},
            "b": {"signal": {"name": "go"}, "needs": ["work"]},
        }
    )
    run = await driver.start()
    await driver.engine.advance(3_601)
    await driver.settle()
    assert (await driver.step(run, "a")).output == b'"nothing"'
    await driver.send(run, data=b"1")
    await driver.succeed(await driver.acquire(run, "work"))
    assert (await driver.step(run, "b")).output == b"1"


async def test_a_cancelled_run_has_no_wait_no_key_and_no_deadline(driver: Driver) -> None:
    await driver.publish({"a": {"signal": {"name": "go", "key": KEY, "deadline": "1h"}}})
    run = await driver.start()
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled"}
    assert not await driver.engine.timers()
    assert await driver.send_by(KEY) == (True, None)


async def test_a_result_shapes_the_data_and_one_without_value_fails_the_node(
    driver: Driver,
) -> None:
    shaped = {"signal": {"name": "go"}, "result": "${nodes.a.output.n}"}
    await driver.publish({"a": shaped})
    run, other = await driver.start(), await driver.start()
    await driver.send(run, data=b'{"n": 5}')
    assert (await driver.step(run, "a")).output == b"5"
    await driver.send(other, data=b"{}")
    assert (await driver.step(other, "a")).status is StepStatus.FAILED


async def test_p6_signals_of_an_ended_run_go_with_its_retention(driver: Driver) -> None:
    await driver.publish(GO)
    run = await driver.start()
    await driver.send(run, "other")
    await driver.send(run)
    assert [signal.name for signal in await driver.engine.signals(run)] == ["other"]
    await driver.engine.advance(WEEK + 60)
    assert not await driver.engine.signals(run)


async def test_p6_a_signal_that_was_stored_and_not_delivered_is_found_by_the_sweep(
    driver: Driver,
) -> None:
    await driver.publish(KEYED)
    run = await driver.start(ORDER)
    signal = SignalState(new_signal_id(), "go", b"1", KEY)
    assert await driver.engine.keep_signal(driver.org, signal) == (True, run)
    assert await driver.statuses(run) == {"a": "waiting"}
    assert await driver.sweep_signals() == [Applied()]
    assert (await driver.step(run, "a")).output == b"1"


async def test_p6_what_no_filter_takes_is_delivered_once(driver: Driver) -> None:
    await driver.publish({"a": {"signal": {"name": "go", "key": "k", "filter": "signal.data"}}})
    run = await driver.start()
    assert await driver.send_by("k", data=b"false") == (True, run)
    assert await driver.sweep_signals() == []
    assert [signal.data for signal in await driver.engine.signals(run)] == [b"false"]
    await driver.send_by("k", data=b"true")
    assert (await driver.step(run, "a")).output == b"true"


async def test_r5_a_delivery_of_nothing_changes_nothing(driver: Driver) -> None:
    await driver.publish(GO)
    run = await driver.start()
    before = (await driver.engine.run(run)).revision
    assert await driver.submit(run, DeliverSignals("go")) == Applied()
    assert (await driver.engine.run(run)).revision == before
    await driver.send(run)
    assert await driver.submit(run, DeliverSignals("go")) == Stale()


async def test_an_inbox_that_is_full_takes_no_more(driver: Driver) -> None:
    await driver.publish(GO)
    run = await driver.start()
    large = b'"%s"' % (b"x" * (MAX_WAITING // 4))
    for _ in range(3):
        await driver.send(run, "other", large)
        await driver.send_by("unknown", "other", large)
    with pytest.raises(ResourceExhausted) as refused:
        await driver.send(run, "other", large)
    assert refused.value.reason is Reason.INBOX_FULL
    with pytest.raises(ResourceExhausted):
        await driver.send_by("unknown", "other", large)
    assert await driver.send(run)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_the_history_says_what_was_awaited_and_what_came(driver: Driver) -> None:
    await driver.publish({"a": {"signal": {"name": "go", "key": KEY, "deadline": "1h"}}})
    run = await driver.start()
    await driver.send(run, "other")
    await driver.send_by(KEY)
    assert await driver.kinds(run) == [
        "run_started",
        "signal_awaited",
        "signal_received",
        "signal_taken",
        "run_completed",
    ]


async def test_a_signal_that_comes_with_the_start_is_taken_at_once(driver: Driver) -> None:
    await driver.publish(GO)
    signal = SignalState("s", "go", b"1")
    first = await driver.started(start_key="k", signal=signal)
    assert (await driver.step(first.run_id, "a")).output == b"1"
    assert (await driver.engine.run(first.run_id)).status is RunStatus.COMPLETED


async def test_f022_a_start_with_a_signal_that_is_repeated_after_the_end_is_the_first_run(
    driver: Driver,
) -> None:
    await driver.publish(GO)
    signal = SignalState("s", "go", b"1")
    first = await driver.started(start_key="k", signal=signal)
    again = await driver.started(start_key="k", signal=signal)
    assert (again.run_id, again.created) == (first.run_id, False)
    with pytest.raises(FailedPrecondition):
        await driver.started(start_key="k", signal=SignalState("t", "go", b"2"))


async def test_a_start_that_finds_its_run_sends_the_signal_to_it(driver: Driver) -> None:
    await driver.publish({**GO, "b": {"signal": {"name": "go"}, "needs": ["a"]}})
    first = await driver.started(start_key="k", signal=SignalState("s", "go", b"1"))
    again = await driver.started(start_key="k", signal=SignalState("t", "go", b"2"))
    assert (again.run_id, again.created) == (first.run_id, False)
    assert (await driver.step(first.run_id, "b")).output == b"2"


async def test_a_signal_of_a_start_that_nothing_awaits_yet_is_kept(driver: Driver) -> None:
    await driver.publish({"t": {"task": {"handler": "x"}}, "a": {**WAIT, "needs": ["t"]}})
    run = await driver.start(signal=SignalState("s", "go", b"1"))
    assert [signal.signal_id for signal in await driver.engine.signals(run)] == ["s"]
    await driver.succeed(await driver.acquire(run, "t"))
    assert (await driver.step(run, "a")).output == b"1"
