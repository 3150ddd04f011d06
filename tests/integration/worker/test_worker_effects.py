import asyncio
import threading
from typing import Any

import perdure
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_runtime import fail_points
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_runtime.rpc.errors import to_status
from perdure_testkit.fail_once import FailOnce

from tests.integration.worker.fake_engine import RUN_ID, SHORT_LEASE_MS, Stage, grant

KEY = f"{RUN_ID}/node1/charge"


class Call:
    """A call to the outside that a test lets go on, in a thread or in a loop."""

    def __init__(self, result: Any = "done") -> None:
        self.keys: list[str] = []
        self.begun = asyncio.Event()
        self.let_go = threading.Event()
        self.result = result
        self._home = asyncio.get_running_loop()

    def plain(self, key: str) -> Any:
        self.keys.append(key)
        self._home.call_soon_threadsafe(self.begun.set)
        assert self.let_go.wait(60)
        return self.result

    async def coroutine(self, key: str) -> Any:
        return await asyncio.to_thread(self.plain, key)


def serving(call: Call, place: str, **options: Any) -> perdure.Handlers:
    """Handlers that make the call as their only effect, in a thread or in a loop."""
    handlers = perdure.Handlers()

    def plain(given: Any, ctx: perdure.HandlerContext) -> Any:
        return ctx.effect("charge", call.plain, **options)

    async def coroutine(given: Any, ctx: perdure.HandlerContext) -> Any:
        return await ctx.effect("charge", call.coroutine, **options)

    handlers.add("work", plain if place == "thread" else coroutine)
    return handlers


both = pytest.mark.parametrize("place", ["thread", "loop"])


@both
async def test_protocol_p4_an_effect_is_begun_then_performed_then_settled(
    stage: Stage, place: str
) -> None:
    call = Call({"id": 2**64 + 1})
    call.let_go.set()
    await stage.start(serving(call, place, keep=60.5, timeout=7, request=b"x"))
    report = await stage.one_result(grant())
    (begun,), (settled,) = stage.engine.begun, stage.engine.settled
    assert (begun.name, begun.kind, begun.lease.run_id) == ("charge", "provider", RUN_ID)
    assert (begun.call_ms, begun.keep_ms, begun.can_look_up) == (7000, 60_500, False)
    assert len(begun.request_digest) == 32
    assert call.keys == [settled.key] == [KEY]
    assert settled.token == begun.token
    assert settled.outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
    assert settled.result == report.output == b'{"id": 18446744073709551617}'


@both
async def test_r8_what_is_settled_is_not_performed(stage: Stage, place: str) -> None:
    stage.engine.answer_begin = lambda item: pb.BeginEffectResult(
        status=pb.BEGIN_EFFECT_STATUS_SETTLED, key=KEY, result=b'{"id":7}'
    )
    call = Call()
    await stage.start(serving(call, place))
    report = await stage.one_result(grant())
    assert report.output == b'{"id": 7}'
    assert (call.keys, stage.engine.settled) == ([], [])


@both
@pytest.mark.parametrize("status", [pb.BEGIN_EFFECT_STATUS_SUSPENDED, pb.BEGIN_EFFECT_STATUS_LOST])
async def test_protocol_p4_a_step_that_waits_without_its_handler_is_not_reported(
    stage: Stage, place: str, status: pb.BeginEffectStatus.ValueType
) -> None:
    stage.engine.answer_begin = lambda item: pb.BeginEffectResult(status=status, why="review")
    call = Call()
    worker = await stage.start(serving(call, place))
    await stage.ready(grant())
    await stage.engine.until(lambda: stage.engine.begun)
    await worker.drain()
    assert (call.keys, stage.engine.reports, stage.engine.released) == ([], [], [])


@both
async def test_protocol_p4_a_call_of_unknown_outcome_that_waits_for_a_person_is_not_reported(
    stage: Stage, place: str
) -> None:
    call = Call({1, 2})
    call.let_go.set()
    worker = await stage.start(serving(call, place))
    await stage.ready(grant())
    await stage.engine.until(lambda: stage.engine.settled)
    await worker.drain()
    (settled,) = stage.engine.settled
    assert settled.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    assert "no JSON value" in settled.note
    assert stage.engine.reports == []


async def test_a_cancelled_run_and_a_refusal_are_failures_that_say_why(stage: Stage) -> None:
    refusal = to_status(InvalidArgument("another request", reason=Reason.EFFECT_MISMATCH))
    answers = {
        1: pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_CANCELLED),
        2: pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_REFUSED, error=refusal),
    }
    stage.engine.answer_begin = lambda item: answers[item.lease.step]
    await stage.start(serving(Call(), "thread"))
    await stage.ready(grant(1))
    await stage.ready(grant(2))
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)
    failures = {item.lease.step: item.failure for item in stage.engine.reports}
    assert failures[1].code == "CANCELLED"
    assert (failures[2].code, failures[2].message) == ("EFFECT_MISMATCH", "another request")


async def test_an_effect_that_is_not_decided_yet_is_asked_for_again_under_its_token(
    stage: Stage,
) -> None:
    def later(item: pb.BeginEffectItem) -> pb.BeginEffectResult:
        if len(stage.engine.begun) < 3:
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_AGAIN)
        return stage.engine.begin(item)

    def also_later(item: pb.SettleEffectItem) -> pb.SettleEffectResult:
        if len(stage.engine.settled) < 3:
            return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_AGAIN)
        return stage.engine.settle(item)

    stage.engine.answer_begin, stage.engine.answer_settle = later, also_later
    call = Call()
    call.let_go.set()
    await stage.start(serving(call, "thread"))
    report = await stage.one_result(grant())
    assert report.output == b'"done"'
    assert len(call.keys) == 1
    assert len({item.token for item in stage.engine.begun}) == 1
    assert len(stage.engine.begun) == len(stage.engine.settled) == 3


async def test_an_answer_that_was_lost_is_asked_for_again_under_the_same_token(
    stage: Stage,
) -> None:
    call = Call()
    call.let_go.set()
    with (
        fail_points.arm("worker.begin_effect", "after", FailOnce()),
        fail_points.arm("worker.settle_effect", "after", FailOnce()),
    ):
        await stage.start(serving(call, "thread"))
        await stage.one_result(grant())
    assert len(call.keys) == 1
    tokens = [item.token for item in stage.engine.begun]
    tokens += [item.token for item in stage.engine.settled]
    assert (len(tokens), len(set(tokens))) == (4, 1)


@both
async def test_protocol_p4_a_call_goes_on_and_is_settled_although_the_lease_is_lost(
    stage: Stage, place: str
) -> None:
    call = Call()
    stage.engine.answer_renew = lambda _: hot.RenewLeaseResult(status=hot.RENEW_STATUS_LOST)
    await stage.start(serving(call, place))
    await stage.ready(grant(lease_ms=SHORT_LEASE_MS))
    await call.begun.wait()
    await stage.engine.until(lambda: stage.engine.renewed)
    call.let_go.set()
    await stage.engine.until(lambda: stage.engine.settled)
    (settled,) = stage.engine.settled
    assert settled.outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED


async def test_p4_a_handler_that_is_stopped_in_its_call_settles_it_as_unknown(
    stage: Stage,
) -> None:
    call = Call()
    worker = await stage.start(serving(call, "loop"))
    await stage.ready(grant())
    await call.begun.wait()
    await worker.stop()
    (settled,) = stage.engine.settled
    assert settled.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    call.let_go.set()


async def test_p4_a_call_that_was_begun_for_a_handler_that_is_gone_was_not_made(
    stage: Stage,
) -> None:
    call, pause = Call(), fail_points.Pause()
    with fail_points.arm("worker.begin_effect", "after", pause):
        worker = await stage.start(serving(call, "loop"))
        await stage.ready(grant())
        await pause.reached.wait()
        stopping = asyncio.create_task(worker.stop())
        await stage.engine.until(lambda: stage.engine.released)
        pause.release.set()
        await stopping
    (settled,) = stage.engine.settled
    assert call.keys == []
    assert settled.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED


async def test_a_result_that_the_coordinator_refuses_is_told_as_unknown(stage: Stage) -> None:
    def unknown(item: pb.SettleEffectItem) -> pb.SettleEffectResult:
        return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_UNKNOWN)

    def refuse(item: pb.SettleEffectItem) -> pb.SettleEffectResult:
        if item.outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED:
            raise InvalidArgument("it is too deep", reason=Reason.PAYLOAD_INVALID)
        return unknown(item)

    stage.engine.answer_settle = refuse
    call = Call()
    call.let_go.set()
    await stage.start(serving(call, "thread", kind="provider"))
    report = await stage.one_result(grant())
    assert report.failure.code == "EFFECT_RESULT_INVALID"
    assert "it is too deep" in report.failure.message
    assert stage.engine.settled[-1].outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
