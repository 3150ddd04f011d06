"""Callbacks: a token is good for one wait of one run, and for nothing else."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, RetryRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus, StepStatus
from perdure_runtime.errors import FailedPrecondition, NotFound, Reason
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

ASK = {"transform": {"to": "${run.callback('answer')}"}}
WAIT = {"signal": {"name": "answer"}}
BIG = rb'{ "big":18446744073709551616, "nul":"\u0000", "z":1, "a":2 }'


async def token_of(driver: Driver, run: UUID, node: str = "ask") -> str:
    """Return the token that a node of the run has handed out."""
    token = json.loads((await driver.step(run, node)).output or b"")["to"]
    assert isinstance(token, str)
    return token


async def waiting(driver: Driver, **signal: object) -> tuple[UUID, str]:
    """Start a run that waits for the answer to its callback; return it with the token."""
    wait = {"needs": ["ask"], "signal": {"name": "answer", **signal}}
    await driver.publish({"ask": ASK, "answer": wait}, output="${nodes.answer.output}")
    run = await driver.start()
    return run, await token_of(driver, run)


async def refusal(driver: Driver, token: str) -> Reason:
    """Return why an answer is refused."""
    with pytest.raises((NotFound, FailedPrecondition)) as caught:
        await driver.answer(token)
    return caught.value.reason


async def test_an_answer_ends_its_wait_with_its_data_byte_for_byte_r12(driver: Driver) -> None:
    run, token = await waiting(driver)
    assert await driver.answer(token, BIG)
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, BIG)
    assert "callback_taken" in await driver.kinds(run)


async def test_an_answer_that_comes_before_its_wait_is_kept_for_it_f017(driver: Driver) -> None:
    work = {"needs": ["ask"], "task": {"handler": "x"}}
    answer = {"needs": ["work"], **WAIT}
    await driver.publish({"ask": ASK, "work": work, "answer": answer})
    run = await driver.start()
    token = await token_of(driver, run)
    assert await driver.answer(token, b"7", signal_id="first")
    assert not await driver.answer(token, b"8", signal_id="first")
    assert await refusal(driver, token) == Reason.CALLBACK_SPENT
    await driver.succeed(await driver.acquire(run, "work"))
    assert (await driver.step(run, "answer")).output == b"7"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_wait_is_answered_once_and_a_repeat_is_told_so_r5(driver: Driver) -> None:
    run, token = await waiting(driver)
    after = {"needs": ["answer"], "task": {"handler": "x"}}
    await driver.publish({"ask": ASK, "answer": {"needs": ["ask"], **WAIT}, "after": after})
    run = await driver.start()
    token = await token_of(driver, run)
    assert await driver.answer(token, b"1", signal_id="first")
    assert await refusal(driver, token) == Reason.CALLBACK_SPENT
    assert not await driver.answer(token, b"2", signal_id="first")
    assert (await driver.step(run, "answer")).output == b"1"


async def test_a_token_is_good_in_no_other_run(driver: Driver) -> None:
    first, token = await waiting(driver)
    second = await driver.start()
    assert await token_of(driver, second) != token
    await driver.answer(token, b"1")
    assert (await driver.engine.run(first)).status is RunStatus.COMPLETED
    assert (await driver.step(second, "answer")).status is StepStatus.WAITING


@pytest.mark.parametrize("cut", ["first", "proof", "place", "more", "less", "text", "none"])
async def test_a_token_that_was_tampered_with_is_refused(driver: Driver, cut: str) -> None:
    run, token = await waiting(driver)
    changed = {
        "first": "cb2" + token[3:],
        "proof": token[:40] + ("A" if token[40] != "A" else "B") + token[41:],
        "place": token[:-2] + ("AA" if token[-2:] != "AA" else "BB"),
        "more": token + "=",
        "less": token[:20],
        "text": "please",
        "none": "",
    }[cut]
    assert await refusal(driver, changed) == Reason.CALLBACK_INVALID
    assert (await driver.step(run, "answer")).status is StepStatus.WAITING
    assert await driver.engine.signals(run) == []


async def test_a_token_means_nothing_in_another_org(driver: Driver, rival: Driver) -> None:
    run, token = await waiting(driver)
    assert await refusal(rival, token) == Reason.CALLBACK_INVALID
    assert (await driver.step(run, "answer")).status is StepStatus.WAITING


async def test_a_run_that_made_no_token_knows_none(driver: Driver) -> None:
    _, token = await waiting(driver)
    await driver.publish({"answer": WAIT})
    other = await driver.start()
    moved = _for_run(token, other)
    assert await refusal(driver, moved) == Reason.CALLBACK_INVALID


async def test_two_waits_of_one_name_have_tokens_of_their_own(driver: Driver) -> None:
    ask = {"transform": {"a": "${run.callback('a')}", "b": "${run.callback('b')}"}}
    wait = {"needs": ["ask"], **WAIT}
    await driver.publish({"ask": ask, "a": wait, "b": wait})
    run = await driver.start()
    tokens = json.loads((await driver.step(run, "ask")).output or b"")
    await driver.answer(tokens["b"], b'"to b"')
    assert await driver.statuses(run) == {"ask": "completed", "a": "waiting", "b": "completed"}
    await driver.answer(tokens["a"], b'"to a"')
    assert (await driver.step(run, "a")).output == b'"to a"'


async def test_a_token_of_one_pass_is_spent_in_the_next(driver: Driver) -> None:
    nodes = {"ask": ASK, "answer": {"needs": ["ask"], **WAIT}}
    loop = {"max": 3, "while": "true", "keep": 1, "on_exhausted": "done", "nodes": nodes}
    await driver.publish({"loop": {"repeat": loop}})
    run = await driver.start()
    tokens = []
    for number in range(3):
        tokens.append(await token_of(driver, run, f"loop[{number}].ask"))
        await driver.answer(tokens[-1], str(number).encode())
        if number == 0:
            assert await refusal(driver, tokens[0]) == Reason.CALLBACK_SPENT
        await driver.settle()
    assert len(set(tokens)) == len(tokens)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_token_of_a_pass_that_is_not_kept_any_more_is_spent(driver: Driver) -> None:
    nodes = {"ask": ASK, "answer": {"needs": ["ask"], **WAIT}}
    loop = {"max": 4, "while": "true", "keep": 1, "on_exhausted": "done", "nodes": nodes}
    await driver.publish({"loop": {"repeat": loop}})
    run = await driver.start()
    first = await token_of(driver, run, "loop[0].ask")
    for number in range(3):
        await driver.answer(await token_of(driver, run, f"loop[{number}].ask"))
        await driver.settle()
    assert "loop[0].ask" not in await driver.statuses(run)
    assert await refusal(driver, first) == Reason.CALLBACK_SPENT


async def test_each_item_calls_back_to_its_own_wait_and_all_to_one_around(driver: Driver) -> None:
    ask = {"transform": {"to": "${run.callback('own')}", "all": "${run.callback('all')}"}}
    nodes = {"ask": ask, "own": {"needs": ["ask"], **WAIT}}
    batch = {"in": "${input.list}", "concurrency": 2, "nodes": nodes}
    await driver.publish({"batch": {"for_each": batch}, "all": WAIT})
    run = await driver.start(b'{"list": [1, 2]}')
    await driver.settle()
    asked = [json.loads((await driver.step(run, f"batch[{n}].ask")).output or b"") for n in (0, 1)]
    assert asked[0]["all"] == asked[1]["all"]
    await driver.answer(asked[1]["to"])
    statuses = await driver.statuses(run)
    assert (statuses["batch[0].own"], statuses["batch[1].own"]) == ("waiting", "completed")
    await driver.answer(asked[0]["all"])
    assert (await driver.statuses(run))["all"] == "completed"
    await driver.answer(asked[0]["to"])
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_whole_that_is_tried_again_hands_out_other_tokens(driver: Driver) -> None:
    nodes = {
        "ask": ASK,
        "answer": {"needs": ["ask"], **WAIT},
        "work": {"task": {"handler": "x"}},
    }
    retry = {"max": 1, "base": "1s", "on": ["GONE"]}
    await driver.publish({"whole": {"group": {"nodes": nodes}, "retry": retry}})
    run = await driver.start()
    old = await token_of(driver, run, "whole[0].ask")
    granted = await driver.acquire(run, "whole[0].work")
    await driver.fail(granted, ErrorClass.PERMANENT, "GONE")
    await driver.settle()
    assert await refusal(driver, old) == Reason.CALLBACK_SPENT
    await driver.engine.advance(2)
    await driver.settle()
    new = await token_of(driver, run, "whole[0].ask")
    assert new != old
    assert await refusal(driver, old) == Reason.CALLBACK_SPENT
    assert await driver.answer(new)


async def test_after_the_deadline_a_callback_is_spent_r9(driver: Driver) -> None:
    late = {"transform": "late"}
    answer = {
        "needs": ["ask"],
        "signal": {"name": "answer", "deadline": "10s"},
        "on_failure": [{"then": ["late"]}],
    }
    more = {"needs": ["late"], "task": {"handler": "x"}}
    await driver.publish({"ask": ASK, "answer": answer, "late": late, "more": more})
    run = await driver.start()
    await driver.engine.advance(11)
    await driver.settle()
    assert await refusal(driver, await token_of(driver, run)) == Reason.CALLBACK_SPENT


async def test_a_retry_of_the_run_opens_the_wait_for_its_token_again(driver: Driver) -> None:
    run, token = await waiting(driver, deadline="10s")
    await driver.engine.advance(11)
    await driver.settle()
    assert await refusal(driver, token) == Reason.RUN_CLOSED
    await driver.submit(run, RetryRun())
    await driver.settle()
    assert await driver.answer(token, b"7")
    assert (await driver.engine.run(run)).output == b"7"


async def test_an_ended_run_refuses_an_answer_and_knows_the_one_it_had_f024(
    driver: Driver,
) -> None:
    _, token = await waiting(driver)
    await driver.answer(token, signal_id="first")
    assert await refusal(driver, token) == Reason.RUN_CLOSED
    assert not await driver.answer(token, signal_id="first")
    other, token = await waiting(driver)
    await driver.submit(other, CancelRun())
    assert await refusal(driver, token) == Reason.RUN_CLOSED


async def test_the_filter_is_asked_about_an_answer_which_says_that_it_is_one(
    driver: Driver,
) -> None:
    asked = "has(signal.callback) && signal.name == 'answer' && signal.data.ok"
    run, token = await waiting(driver, filter=asked)
    await driver.send(run, "answer", b'{"ok": true}')
    assert await driver.answer(token, b'{"ok": false}')
    assert (await driver.step(run, "answer")).status is StepStatus.WAITING
    assert await driver.answer(token, b'{"ok": true}')
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_wait_with_a_callback_takes_signals_of_its_name_too(driver: Driver) -> None:
    run, token = await waiting(driver, key="order-1")
    await driver.send_by("order-1", "answer", b"7")
    assert (await driver.engine.run(run)).output == b"7"
    assert await refusal(driver, token) == Reason.RUN_CLOSED


async def test_the_same_wait_has_the_same_token_wherever_it_is_asked_for(driver: Driver) -> None:
    again = {"needs": ["ask"], "task": {"handler": "x", "input": "${run.callback('answer')}"}}
    await driver.publish({"ask": ASK, "again": again, "answer": {"needs": ["again"], **WAIT}})
    run = await driver.start()
    given = (await driver.acquire(run, "again")).step.input
    assert json.loads(given or b"") == await token_of(driver, run)


async def test_a_token_is_in_no_line_of_the_history(driver: Driver) -> None:
    run, token = await waiting(driver)
    await driver.answer(token)
    assert token not in repr(await driver.engine.history(run))


def _for_run(token: str, run: UUID) -> str:
    """Return a token with the same proof that names another run."""
    text = token.removeprefix("cb1_")
    body = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return "cb1_" + urlsafe_b64encode(run.bytes + body[16:]).decode().rstrip("=")
