import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime import fail_points
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.rpc.errors import to_status
from perdure_testkit.provider import DROP_AFTER_WORK, Behaviour
from perdure_testkit.waiting import eventually

from tests.integration.worker.begun_scene import (
    CALL_MS,
    FOUND,
    KEY,
    GrpcSide,
    HttpSide,
    Side,
    answering,
    begun,
    settling,
    status,
    told,
)
from tests.integration.worker.fake_engine import RUN_ID, SHORT_LEASE_MS, Stage


@pytest.fixture(params=[HttpSide, GrpcSide], ids=["http", "grpc"])
async def side(request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    found: Side = request.param()
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def http() -> AsyncIterator[HttpSide]:
    found = HttpSide()
    await found.start()
    yield found
    await found.stop()


async def test_protocol_p4_a_call_is_begun_just_before_it_is_made_and_told_by_the_report(
    stage: Stage, side: Side
) -> None:
    await stage.start()
    report = await stage.one_result(begun(side.input(), timeout_ms=7000))
    (wish,) = stage.engine.begun
    assert (wish.name, wish.kind, wish.can_look_up) == ("request", "none", False)
    assert 6000 < wish.call_ms <= 7000
    assert len(wish.request_digest) == 32
    assert side.keys() == [KEY]
    assert json.loads(report.output)
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
    assert stage.engine.settled == []


async def test_protocol_p4_a_call_that_breaks_is_reported_unknown(stage: Stage, side: Side) -> None:
    side.breaks()
    await stage.start()
    report = await stage.one_result(begun(side.input()))
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN


@pytest.mark.parametrize(
    ("result", "output", "code"),
    [(b'{"status":201}', b'{"status":201}', ""), (None, b"", "OUTCOME_UNKNOWN")],
)
async def test_r8_a_call_that_is_settled_is_not_made(
    stage: Stage, http: HttpSide, result: bytes | None, output: bytes, code: str
) -> None:
    answering(stage, status("SETTLED", result=result))
    await stage.start()
    report = await stage.one_result(begun(http.input()))
    assert http.keys() == []
    assert (report.output, report.failure.code) == (output, code)
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED


@pytest.mark.parametrize("name", ["SUSPENDED", "LOST"])
async def test_protocol_p4_a_step_that_goes_on_without_its_holder_is_dropped(
    stage: Stage, http: HttpSide, name: str
) -> None:
    answering(stage, status(name, why="review"))
    worker = await stage.start()
    await stage.ready(begun(http.input()))
    await stage.engine.until(lambda: stage.engine.begun)
    await worker.drain()
    assert (http.keys(), stage.engine.reports, stage.engine.released) == ([], [], [])


async def test_a_call_that_may_not_be_made_is_reported_as_not_performed(
    stage: Stage, http: HttpSide
) -> None:
    refusal = to_status(FailedPrecondition("another request", reason=Reason.EFFECT_MISMATCH))
    answering(stage, status("CANCELLED"), status("REFUSED", error=refusal))
    await stage.start()
    for step in (1, 2):
        lease = dispatch_pb2.StepLease(org="default", run_id=RUN_ID, step=step)
        await stage.ready(begun(http.input(), lease=lease))
    reports = stage.engine.reports
    await stage.engine.until(lambda: len(reports) == 2)
    outcomes = {report.effect_outcome for report in reports}
    assert outcomes == {dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED}
    codes = sorted(report.failure.code for report in reports)
    assert codes == ["CANCELLED", "EFFECT_MISMATCH"]
    assert http.keys() == []


@pytest.mark.parametrize("answer", [200, 404, 410])
async def test_protocol_p4_what_a_look_up_is_answered_is_told_and_its_result_is_the_steps(
    stage: Stage, http: HttpSide, answer: int
) -> None:
    answering(stage, status("LOOK_UP"))
    settling(stage, "PERFORMED", result=b'{"status":200,"headers":{},"body":7}')
    http.provider.script(FOUND, Behaviour(works=False, status=answer, body=b'{"id": 7}'))
    await stage.start()
    report = await stage.one_result(begun(http.input(), kind="reconcile"))
    (told,) = stage.engine.settled
    assert (told.key, told.outcome) == (KEY, dispatch_pb2.EFFECT_OUTCOME_ANSWERED)
    assert (json.loads(told.result)["status"], told.token) == (answer, stage.engine.begun[0].token)
    assert b'"body":{"id": 7}' in told.result
    assert (http.keys(), http.asked()) == ([], [""])
    assert report.output == b'{"status":200,"headers":{},"body":7}'


async def test_protocol_p4_what_was_not_performed_is_begun_anew_and_made(
    stage: Stage, side: Side
) -> None:
    answering(stage, status("LOOK_UP"), status("BEGUN"))
    settling(stage, "NOT_PERFORMED")
    await stage.start()
    report = await stage.one_result(begun(side.input(), kind="reconcile"))
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
    assert len({wish.token for wish in stage.engine.begun}) == 2
    assert (side.keys(), side.asked()) == ([KEY], [""])


@pytest.mark.parametrize(
    "answer",
    [Behaviour(works=False, status=500), Behaviour(works=False, status=401), DROP_AFTER_WORK],
)
async def test_protocol_p4_a_look_up_that_tells_nothing_leaves_the_step_to_wait(
    stage: Stage, http: HttpSide, answer: Behaviour
) -> None:
    answering(stage, status("LOOK_UP"))
    http.provider.script(FOUND, answer)
    item = await told(stage, begun(http.input(), kind="reconcile"))
    assert item.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    assert "GET http" in item.note


async def test_p8_a_look_up_by_credentials_that_are_refused_is_reported_as_unauthorised(
    stage: Stage, http: HttpSide
) -> None:
    answering(stage, status("LOOK_UP"))
    http.provider.script(FOUND, Behaviour(works=False, status=401))
    account = dispatch_pb2.ConnectionGrant(name="crm", base_url=http.provider.url("/"))
    await stage.start()
    report = await stage.one_result(begun(http.input(), kind="reconcile", connection=account))
    error_class = getattr(report.failure, "class")
    assert (error_class, report.failure.code) == ("authorisation", "HTTP_401")
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    assert stage.engine.settled == []


async def test_r8_a_call_that_could_outlast_its_lease_is_not_made_but_begun_anew(
    stage: Stage, side: Side
) -> None:
    late = status("BEGUN")
    late.lease_ms = CALL_MS - 1
    answering(stage, late, status("BEGUN"))
    await stage.start()
    await stage.one_result(begun(side.input()))
    (told,) = stage.engine.settled
    assert told.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
    assert told.token == stage.engine.begun[0].token
    assert side.keys() == [KEY]


async def test_protocol_p4_a_begun_call_goes_on_and_is_reported_though_the_lease_is_lost(
    stage: Stage, side: Side
) -> None:
    may_work = asyncio.Event()
    side.holds(may_work)
    stage.engine.answer_renew = lambda _: hot.RenewLeaseResult(status=hot.RENEW_STATUS_LOST)
    await stage.start()
    await stage.ready(begun(side.input(), lease_ms=SHORT_LEASE_MS))
    await eventually(side.keys)
    await stage.engine.until(lambda: stage.engine.renewed)
    may_work.set()
    await stage.engine.until(lambda: stage.engine.reports)
    assert stage.engine.reports[0].effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED


async def test_p4_a_begun_call_that_is_cut_by_the_stop_is_reported_unknown(
    stage: Stage, side: Side
) -> None:
    side.holds(asyncio.Event())
    worker = await stage.start()
    await stage.ready(begun(side.input()))
    await eventually(side.keys)
    await worker.stop()
    (report,) = stage.engine.reports
    assert (report.failure.code, stage.engine.released) == ("WORKER_STOPPED", [])
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN


async def test_p4_a_step_whose_call_was_not_begun_yet_is_handed_back(
    stage: Stage, http: HttpSide
) -> None:
    pause = fail_points.Pause()
    with fail_points.arm("worker.begin_effect", "after", pause):
        worker = await stage.start()
        await stage.ready(begun(http.input()))
        await pause.reached.wait()
        stopping = asyncio.create_task(worker.stop())
        await stage.engine.until(lambda: stage.engine.released)
        pause.release.set()
        await stopping
    (told,) = stage.engine.settled
    assert told.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
    assert (http.keys(), stage.engine.reports) == ([], [])
