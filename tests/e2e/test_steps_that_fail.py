"""Tries that fail, hang, die or say too much: what becomes of the step and of its run."""

from __future__ import annotations

import pytest
from perdure import RunStatus
from perdure_testkit.provider import DROP_AFTER_WORK, Behaviour

from tests.e2e.scene import SHARED_ENGINE, Scene, outcomes, step_of

pytestmark = SHARED_ENGINE

QUICK_RETRY = {"max": 5, "base": "50ms", "cap": "200ms"}
ASKED_SECONDS = 1.0


async def test_a_provider_that_asks_for_a_pause_gets_it_whatever_the_rule_says_f043(
    scene: Scene,
) -> None:
    path = scene.new_path()
    scene.provider.script(
        path, Behaviour(works=False, status=429, headers={"Retry-After": str(ASKED_SECONDS)[0]})
    )
    nodes = {
        "call": {
            "http": {"method": "POST", "url": scene.provider.url(path), "effect": "provider"},
            "retry": QUICK_RETRY,
        }
    }

    run = await scene.completed(await scene.start(nodes))

    first, second = scene.provider.calls_of(path)
    assert second.at - first.at >= ASKED_SECONDS
    assert first.key == second.key != ""
    assert outcomes(step_of(run, "call")) == ["failed", "completed"]


async def test_a_connection_that_breaks_after_the_work_repeats_it_under_the_same_key_r8(
    scene: Scene,
) -> None:
    path = scene.new_path()
    scene.provider.script(path, DROP_AFTER_WORK, Behaviour(works=False, status=500))
    nodes = {
        "call": {
            "http": {"method": "POST", "url": scene.provider.url(path), "effect": "provider"},
            "retry": QUICK_RETRY,
        }
    }

    run = await scene.completed(await scene.start(nodes))

    (key,) = scene.provider.keys_of(path)
    assert scene.provider.times_worked(key) == 1
    assert len(scene.provider.calls_of(path)) == 3
    (effect,) = run.effects
    assert (effect.key, effect.status, effect.calls) == (key, "settled", 3)


async def test_a_handler_that_kills_its_workers_is_poison_and_they_serve_on(scene: Scene) -> None:
    nodes = {"bad": {"lane": "slow", "task": {"handler": "test.die"}}}

    run = await scene.ended(await scene.start(nodes))

    assert run.status == RunStatus.RUN_STATUS_FAILED
    assert (run.error.code, getattr(run.error, "class")) == ("POISON", "poison")
    bad = step_of(run, "bad")
    assert (bad.losses, bad.failures) == (2, 1)
    assert outcomes(bad) == ["lost", "lost"]
    good = {"good": {"lane": "slow", "task": {"handler": "test.echo"}}}
    await scene.completed(await scene.start(good))


async def test_an_output_that_is_too_large_fails_its_step_at_once_f091_f093(scene: Scene) -> None:
    nodes = {"big": {"task": {"handler": "test.text", "input": {"length": 5 * 1024 * 1024}}}}

    run = await scene.ended(await scene.start(nodes))

    assert run.status == RunStatus.RUN_STATUS_FAILED
    assert run.error.code == "OUTPUT_TOO_LARGE"
    assert outcomes(step_of(run, "big")) == ["failed"]


async def test_an_error_text_with_nul_and_half_a_surrogate_is_told_cleaned_f100(
    scene: Scene,
) -> None:
    nodes = {"bad": {"task": {"handler": "test.refuse"}}}

    run = await scene.ended(await scene.start(nodes, b'{"message": "a\\u0000b\\ud800c"}'))

    assert run.status == RunStatus.RUN_STATUS_FAILED
    assert run.error.code == "REFUSED"
    assert run.error.message == "a\ufffdb\ufffdc"


async def test_a_try_that_takes_too_long_is_a_failure_that_is_retried(scene: Scene) -> None:
    holding = scene.new_holding()
    nodes = {
        "slow": {
            "task": {"handler": "test.hold", "input": holding.given},
            "timeout": "1s",
            "retry": {"max": 1, "base": "50ms"},
        }
    }

    run = await scene.ended(await scene.start(nodes))

    assert run.status == RunStatus.RUN_STATUS_FAILED
    assert run.error.code == "TIMEOUT"
    slow = step_of(run, "slow")
    assert (slow.failures, slow.losses, slow.fence) == (2, 0, 2)
    assert holding.was_told_to_stop


async def test_a_run_that_grows_too_old_is_ended_and_its_work_is_told(scene: Scene) -> None:
    holding = scene.new_holding()
    nodes = {"hold": {"task": {"handler": "test.hold", "input": holding.given}}}

    run = await scene.ended(await scene.start(nodes, limits={"age": "1s"}))

    assert run.status == RunStatus.RUN_STATUS_TIMED_OUT
    assert run.error.code == "RUN_TOO_OLD"
    holding.let_go()


@pytest.mark.parametrize("times", [1, 3])
async def test_a_step_that_fails_is_tried_again_by_its_rule(scene: Scene, times: int) -> None:
    nodes = {
        "flaky": {
            "task": {"handler": "test.fail", "input": {"times": times}},
            "retry": QUICK_RETRY,
        }
    }

    run = await scene.completed(await scene.start(nodes))

    assert outcomes(step_of(run, "flaky")) == ["failed"] * times + ["completed"]
