import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_runtime import fail_points
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.rpc.errors import to_status
from perdure_testkit.provider import DROP_AFTER_WORK, Behaviour, Provider

from tests.integration.worker.fake_engine import RUN_ID, SHORT_LEASE_MS, Stage, grant

KEY = f"{RUN_ID}/node1/request"
CALL = "/faxes"
LOOKUP = "/found"
CALL_MS = 30_000
"""How long a call may take whose node sets no timeout."""


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start()
    yield provider
    await provider.stop()


def begun(provider: Provider, *, kind: str = "none", **fields: Any) -> dispatch_pb2.StepGrant:
    """A hand-out of an http step that begins its call by itself."""
    lookup = {"method": "GET", "url": provider.url(LOOKUP)}
    request = {"method": "POST", "url": provider.url(CALL), "body": {"n": 1}, "lookup": lookup}
    effect = dispatch_pb2.EffectGrant(
        key=KEY, kind=kind, begin_first=True, name="request", can_look_up=kind == "reconcile"
    )
    usual: dict[str, Any] = {
        "kind": dispatch_pb2.STEP_KIND_HTTP,
        "handler": "",
        "input": json.dumps(request).encode(),
        "effect": effect,
    }
    return grant(**(usual | fields))


def answering(stage: Stage, *results: pb.BeginEffectResult) -> None:
    """Answer the wishes to call with these, in order."""
    left = list(results)
    stage.engine.answer_begin = lambda item: left.pop(0)


def status(name: str, **fields: Any) -> pb.BeginEffectResult:
    number = pb.BeginEffectStatus.Value(f"BEGIN_EFFECT_STATUS_{name}")
    return pb.BeginEffectResult(status=number, key=KEY, lease_ms=CALL_MS + 10_000, **fields)


def settling(stage: Stage, name: str, **fields: Any) -> None:
    """Answer what is told with this."""
    number = pb.SettleEffectStatus.Value(f"SETTLE_EFFECT_STATUS_{name}")
    stage.engine.answer_settle = lambda item: pb.SettleEffectResult(status=number, **fields)


async def test_protocol_p4_a_call_is_begun_just_before_it_is_made_and_told_by_the_report(
    stage: Stage, provider: Provider
) -> None:
    await stage.start()
    report = await stage.one_result(begun(provider, timeout_ms=7000))
    (wish,) = stage.engine.begun
    assert (wish.name, wish.kind, wish.can_look_up) == ("request", "none", False)
    assert 6000 < wish.call_ms <= 7000
    assert len(wish.request_digest) == 32
    assert provider.keys_of(CALL) == {KEY}
    assert json.loads(report.output)["status"] == 200
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
    assert stage.engine.settled == []


async def test_protocol_p4_a_call_that_breaks_is_reported_unknown(
    stage: Stage, provider: Provider
) -> None:
    provider.script(CALL, DROP_AFTER_WORK)
    await stage.start()
    report = await stage.one_result(begun(provider))
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN


@pytest.mark.parametrize(
    ("result", "output", "code"),
    [(b'{"status":201}', b'{"status":201}', ""), (None, b"", "OUTCOME_UNKNOWN")],
)
async def test_r8_a_call_that_is_settled_is_not_made(
    stage: Stage, provider: Provider, result: bytes | None, output: bytes, code: str
) -> None:
    answering(stage, status("SETTLED", result=result))
    await stage.start()
    report = await stage.one_result(begun(provider))
    assert provider.calls == []
    assert (report.output, report.failure.code) == (output, code)
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED


@pytest.mark.parametrize("name", ["SUSPENDED", "LOST"])
async def test_protocol_p4_a_step_that_goes_on_without_its_holder_is_dropped(
    stage: Stage, provider: Provider, name: str
) -> None:
    answering(stage, status(name, why="review"))
    worker = await stage.start()
    await stage.ready(begun(provider))
    await stage.engine.until(lambda: stage.engine.begun)
    await worker.drain()
    assert (provider.calls, stage.engine.reports, stage.engine.released) == ([], [], [])


async def test_a_call_that_may_not_be_made_is_reported_as_not_performed(
    stage: Stage, provider: Provider
) -> None:
    refusal = to_status(FailedPrecondition("another request", reason=Reason.EFFECT_MISMATCH))
    answering(stage, status("CANCELLED"), status("REFUSED", error=refusal))
    await stage.start()
    for step in (1, 2):
        lease = dispatch_pb2.StepLease(org="default", run_id=RUN_ID, step=step)
        await stage.ready(begun(provider, lease=lease))
    reports = stage.engine.reports
    await stage.engine.until(lambda: len(reports) == 2)
    outcomes = {report.effect_outcome for report in reports}
    assert outcomes == {dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED}
    codes = sorted(report.failure.code for report in reports)
    assert codes == ["CANCELLED", "EFFECT_MISMATCH"]
    assert provider.calls == []


@pytest.mark.parametrize("answer", [200, 404, 410])
async def test_protocol_p4_what_a_look_up_is_answered_is_told_and_its_result_is_the_steps(
    stage: Stage, provider: Provider, answer: int
) -> None:
    answering(stage, status("LOOK_UP"))
    settling(stage, "PERFORMED", result=b'{"status":200,"headers":{},"body":7}')
    provider.script(LOOKUP, Behaviour(works=False, status=answer, body=b'{"id": 7}'))
    await stage.start()
    report = await stage.one_result(begun(provider, kind="reconcile"))
    (told,) = stage.engine.settled
    assert (told.key, told.outcome) == (KEY, dispatch_pb2.EFFECT_OUTCOME_ANSWERED)
    assert (json.loads(told.result)["status"], told.token) == (answer, stage.engine.begun[0].token)
    assert b'"body":{"id": 7}' in told.result
    assert provider.calls_of(CALL) == []
    assert "idempotency-key" not in provider.calls_of(LOOKUP)[0].headers
    assert report.output == b'{"status":200,"headers":{},"body":7}'


async def test_protocol_p4_what_was_not_performed_is_begun_anew_and_made(
    stage: Stage, provider: Provider
) -> None:
    answering(stage, status("LOOK_UP"), status("BEGUN"))
    settling(stage, "NOT_PERFORMED")
    await stage.start()
    report = await stage.one_result(begun(provider, kind="reconcile"))
    assert json.loads(report.output)["status"] == 200
    assert len({wish.token for wish in stage.engine.begun}) == 2
    assert len(provider.calls_of(CALL)) == 1


@pytest.mark.parametrize(
    "answer",
    [Behaviour(works=False, status=500), Behaviour(works=False, status=401), DROP_AFTER_WORK],
)
async def test_protocol_p4_a_look_up_that_tells_nothing_leaves_the_step_to_wait(
    stage: Stage, provider: Provider, answer: Behaviour
) -> None:
    answering(stage, status("LOOK_UP"))
    provider.script(LOOKUP, answer)
    worker = await stage.start()
    await stage.ready(begun(provider, kind="reconcile"))
    await stage.engine.until(lambda: stage.engine.settled)
    await worker.drain()
    (told,) = stage.engine.settled
    assert told.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    assert "GET http" in told.note
    assert stage.engine.reports == []


async def test_r8_a_call_that_could_outlast_its_lease_is_not_made_but_begun_anew(
    stage: Stage, provider: Provider
) -> None:
    late = status("BEGUN")
    late.lease_ms = CALL_MS - 1
    answering(stage, late, status("BEGUN"))
    await stage.start()
    await stage.one_result(begun(provider))
    (told,) = stage.engine.settled
    assert told.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
    assert told.token == stage.engine.begun[0].token
    assert len(provider.calls_of(CALL)) == 1


async def test_protocol_p4_a_begun_call_goes_on_and_is_reported_though_the_lease_is_lost(
    stage: Stage, provider: Provider
) -> None:
    may_work = asyncio.Event()
    provider.script(CALL, Behaviour(hold=may_work))
    stage.engine.answer_renew = lambda _: hot.RenewLeaseResult(status=hot.RENEW_STATUS_LOST)
    await stage.start()
    await stage.ready(begun(provider, lease_ms=SHORT_LEASE_MS))
    await provider.wait_called(CALL)
    await stage.engine.until(lambda: stage.engine.renewed)
    may_work.set()
    await stage.engine.until(lambda: stage.engine.reports)
    assert stage.engine.reports[0].effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED


async def test_p4_a_begun_call_that_is_cut_by_the_stop_is_reported_unknown(
    stage: Stage, provider: Provider
) -> None:
    provider.script(CALL, Behaviour(hold=asyncio.Event()))
    worker = await stage.start()
    await stage.ready(begun(provider))
    await provider.wait_called(CALL)
    await worker.stop()
    (report,) = stage.engine.reports
    assert (report.failure.code, stage.engine.released) == ("WORKER_STOPPED", [])
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN


async def test_p4_a_step_whose_call_was_not_begun_yet_is_handed_back(
    stage: Stage, provider: Provider
) -> None:
    pause = fail_points.Pause()
    with fail_points.arm("worker.begin_effect", "after", pause):
        worker = await stage.start()
        await stage.ready(begun(provider))
        await pause.reached.wait()
        stopping = asyncio.create_task(worker.stop())
        await stage.engine.until(lambda: stage.engine.released)
        pause.release.set()
        await stopping
    (told,) = stage.engine.settled
    assert told.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
    assert (provider.calls, stage.engine.reports) == ([], [])
