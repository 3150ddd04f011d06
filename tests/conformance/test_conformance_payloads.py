"""R12, p10: payloads go from input to step input, output and the run's output byte for byte."""

import pytest
from perdure_machine.replies import Applied
from perdure_machine.states import EffectStatus, RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAYLOADS = [
    b'{"n": 18446744073709551616, "m": -18446744073709551617}',
    rb'{"text": "a\u0000b"}',
    rb'{"half": "\ud800", "other": "\udfff x"}',
    b'{"b": 1, "a": 2,  "b2":[ 1.0e+400 , 0.10 ]}',
    '{"text": "Grüße, 世界 🜚", "é": {"\u2028": null}}'.encode(),
    rb'{"escaped": "\u00e9\/\"", "empty": {}, "list": []}',
]


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_r12_a_whole_value_passes_through_every_column_unchanged(
    driver: Driver, payload: bytes
) -> None:
    nodes = {
        "a": {"task": {"handler": "x"}},
        "w": {"wait": "1s", "needs": ["a"], "result": "${nodes.a.output}"},
        "t": {"transform": "${nodes.w.output}", "needs": ["w"]},
        "b": {"task": {"handler": "x", "input": "${nodes.t.output}"}, "needs": ["t"]},
    }
    await driver.publish(nodes, output="${nodes.b.output}")
    run = await driver.start(payload)
    first = await driver.acquire(run, "a")
    assert first.step.input == payload
    await driver.succeed(first, payload)
    await driver.engine.advance(2)
    await driver.fire_due()
    second = await driver.acquire(run, "b")
    assert second.step.input == payload
    await driver.succeed(second, payload)
    state = await driver.engine.run(run)
    assert state.status is RunStatus.COMPLETED
    assert (state.input, state.output) == (payload, payload)


@pytest.mark.parametrize(("member", "cut"), [("n", b"18446744073709551616"), ("t", rb'"\ud800"')])
async def test_p10_a_plain_path_is_cut_from_the_bytes(
    driver: Driver, member: str, cut: bytes
) -> None:
    await driver.publish({"a": {"transform": f"${{input.deep.{member}}}"}})
    run = await driver.start(rb'{"deep": {"n": 18446744073709551616, "t": "\ud800"}}')
    assert (await driver.step(run, "a")).output == cut


async def test_p10_what_an_expression_cannot_take_is_an_error_of_that_node_alone(
    driver: Driver,
) -> None:

    nodes = {
        "a": {"transform": "${input.n}"},
        "b": {"task": {"handler": "x", "input": "${input.n + 1}"}, "needs": ["a"]},
    }
    await driver.publish(nodes)
    run = await driver.start(b'{"n": 18446744073709551616}')
    assert (await driver.step(run, "a")).output == b"18446744073709551616"
    state = await driver.engine.run(run)
    assert state.error is not None
    assert (state.error.node, state.error.category) == ("b", "permanent")


@pytest.mark.parametrize("output", [b"", b"not json", b'{"x":', b'"\xff"', b"[" * 101 + b"]" * 101])
async def test_p10_an_output_that_is_no_json_fails_its_node_and_is_kept_nowhere(
    driver: Driver, output: bytes
) -> None:
    nodes = {
        "a": {"http": {"url": "https://x.example", "method": "PUT", "effect": "provider"}},
        "b": {"transform": "${nodes.a.output.x}", "needs": ["a"]},
    }
    await driver.publish(nodes)
    run = await driver.start()
    assert await driver.succeed(await driver.acquire(run, "a"), output) == Applied()
    step = await driver.step(run, "a")
    assert step.error is not None
    assert (step.status, step.error.code, step.output) == ("failed", "OUTPUT_INVALID", None)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED
