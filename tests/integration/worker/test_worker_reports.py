import json
from typing import Any

import perdure
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_runtime import fail_points
from perdure_runtime.errors import InvalidArgument, Reason

from tests.integration.worker.fake_engine import Stage, grant


def counting_handlers(runs: list[int]) -> perdure.Handlers:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> int:
        runs.append(ctx.step)
        return ctx.step

    return handlers


async def test_r5_a_report_whose_answer_was_lost_is_repeated_and_the_step_runs_once(
    stage: Stage,
) -> None:
    runs: list[int] = []

    class Once:
        left = 1

        async def run(self, point: str) -> None:
            if self.left:
                self.left -= 1
                raise fail_points.FailPointHit(point)

        def run_sync(self, point: str) -> None:
            raise AssertionError(point)

    with fail_points.arm("worker.report_result", "after", Once()):
        await stage.start(counting_handlers(runs))
        await stage.ready(grant())
        await stage.engine.until(lambda: len(stage.engine.reports) == 2)
    assert stage.engine.reports[0] == stage.engine.reports[1]
    assert runs == [1]


async def test_a_report_answered_again_is_repeated(stage: Stage) -> None:
    answers = [pb.ReportResultResult(status=pb.ITEM_STATUS_AGAIN)]
    stage.engine.answer_report = lambda item: answers.pop() if answers else stage.engine.apply(item)
    await stage.start(counting_handlers([]))
    await stage.ready(grant())
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)
    assert stage.engine.reports[0] == stage.engine.reports[1]


async def test_protocol_p3_the_next_step_of_a_report_runs_without_redis(stage: Stage) -> None:
    runs: list[int] = []
    stage.engine.nexts = {1: grant(2), 2: grant(3)}
    await stage.start(counting_handlers(runs))
    await stage.ready(grant(1))
    await stage.engine.until(lambda: len(stage.engine.reports) == 3)
    assert runs == [1, 2, 3]
    assert [item.step for item in stage.engine.acquired] == [1]
    offered = [item.next_lease_id for item in stage.engine.reports]
    taken = [item.lease.lease_id for item in stage.engine.reports]
    assert taken[1:] == offered[:2]
    assert len(set(offered)) == 3


async def test_p3_a_chain_is_bounded_in_steps(stage: Stage) -> None:
    stage.engine.nexts = {1: grant(2), 2: grant(3), 3: grant(4)}
    await stage.start(counting_handlers([]), chain_steps=2)
    await stage.ready(grant(1))
    await stage.engine.until(lambda: len(stage.engine.reports) == 3)
    assert [bool(item.next_lease_id) for item in stage.engine.reports] == [True, True, False]


async def test_p3_a_chain_is_bounded_in_time(stage: Stage) -> None:
    stage.engine.nexts = {1: grant(2)}
    await stage.start(counting_handlers([]), chain_seconds=0.0)
    report = await stage.one_result(grant(1))
    assert report.next_lease_id == ""


async def test_f091_f093_an_output_over_the_limit_fails_the_step_without_being_sent(
    stage: Stage,
) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    def work(_: Any, ctx: perdure.HandlerContext) -> str:
        return "x" * 5_000_000

    await stage.start(handlers)
    report = await stage.one_result(grant())
    assert report.failure.code == "OUTPUT_TOO_LARGE"
    assert getattr(report.failure, "class") == "permanent"
    assert report.ByteSize() < 2000


async def test_f091_results_too_large_for_one_message_go_in_several(stage: Stage) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> perdure.RawJson:
        return perdure.RawJson(b'"' + b"x" * 1_000_000 + b'"')

    for step in range(1, 9):
        stage.engine.grants[step] = grant(step)
    await stage.hint(*range(1, 9))
    await stage.start(handlers, slots=8)
    await stage.engine.until(lambda: len(stage.engine.reports) == 8)
    assert all(item.WhichOneof("outcome") == "output" for item in stage.engine.reports)
    assert max(call.ByteSize() for call in stage.engine.report_calls) < 4 * 1024 * 1024


async def test_f093_a_result_that_is_refused_for_good_is_reported_as_a_failure_without_it(
    stage: Stage,
) -> None:
    def answer(item: pb.ReportResultItem) -> pb.ReportResultResult:
        if item.WhichOneof("outcome") == "output" and item.lease.step == 2:
            raise InvalidArgument("too deep", reason=Reason.PAYLOAD_INVALID)
        return stage.engine.apply(item)

    stage.engine.answer_report = answer
    for step in (1, 2, 3):
        stage.engine.grants[step] = grant(step)
    await stage.hint(1, 2, 3)
    await stage.start(counting_handlers([]))
    outcomes: dict[int, str] = {}

    def settled() -> bool:
        for item in stage.engine.reports:
            outcomes[item.lease.step] = item.failure.code or item.output.decode()
        return outcomes == {1: "1", 2: "PAYLOAD_INVALID", 3: "3"}

    await stage.engine.until(settled)
    failures = [item.failure for item in stage.engine.reports if item.HasField("failure")]
    assert [getattr(failure, "class") for failure in failures] == ["permanent"]


async def test_r12_payloads_pass_through_a_handler_byte_for_byte(stage: Stage) -> None:
    handlers = perdure.Handlers()
    payload = b'{ "b":18446744073709551616,\n"a" : "\\u0000\\ud800", "\xc3\xa9":1.10 }'

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> perdure.RawJson:
        return perdure.RawJson(ctx.input_bytes)

    await stage.start(handlers)
    report = await stage.one_result(grant(input=payload))
    assert report.output == payload


async def test_r12_decoded_integers_stay_exact_and_lone_surrogates_come_back(
    stage: Stage,
) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    def work(given: Any, ctx: perdure.HandlerContext) -> Any:
        return given

    await stage.start(handlers)
    payload = b'[18446744073709551617, "\\ud800", "\\u0000"]'
    report = await stage.one_result(grant(input=payload))
    assert json.loads(report.output) == json.loads(payload)


async def test_f100_an_error_text_that_no_store_takes_is_cleaned(stage: Stage) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    def work(_: Any, ctx: perdure.HandlerContext) -> None:
        raise LookupError("nul \x00 and surrogate \ud800 " + "x" * 100_000)

    await stage.start(handlers)
    failure = (await stage.one_result(grant())).failure
    assert failure.code == "LookupError"
    assert failure.message.startswith("nul \ufffd and surrogate \ufffd xxx")
    assert len(failure.message) == 4096
    details = json.loads(failure.details)
    assert details["type"] == "builtins.LookupError"
    assert "in work" in details["traceback"]


async def test_an_unknown_handler_is_a_retryable_failure(stage: Stage) -> None:
    await stage.start(counting_handlers([]))
    failure = (await stage.one_result(grant(handler="other"))).failure
    assert (failure.code, getattr(failure, "class")) == ("HANDLER_UNKNOWN", "retryable")
    assert "work" in failure.message


async def test_a_kind_of_step_that_this_release_does_not_know_is_a_retryable_failure(
    stage: Stage,
) -> None:
    await stage.start(counting_handlers([]))
    failure = (await stage.one_result(grant(kind=77))).failure
    assert (failure.code, getattr(failure, "class")) == ("KIND_UNKNOWN", "retryable")


async def test_system_exit_in_a_handler_fails_its_try_and_nothing_else(stage: Stage) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("leave")
    async def leave(_: Any, ctx: perdure.HandlerContext) -> None:
        raise SystemExit(3)

    @handlers.handler("leave_thread")
    def leave_thread(_: Any, ctx: perdure.HandlerContext) -> None:
        raise KeyboardInterrupt

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> int:
        return 1

    await stage.start(handlers, threads=1)
    await stage.ready(grant(1, handler="leave"))
    await stage.ready(grant(2, handler="leave_thread"))
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)
    await stage.ready(grant(3))
    await stage.ready(grant(4, handler="leave_thread"))
    await stage.engine.until(lambda: len(stage.engine.reports) == 4)
    ended = {item.lease.step: item.failure.code or item.output for item in stage.engine.reports}
    assert ended == {1: "SystemExit", 2: "KeyboardInterrupt", 3: b"1", 4: "KeyboardInterrupt"}


async def test_what_a_handler_raises_on_purpose_reaches_the_report(stage: Stage) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> None:
        raise perdure.RateLimited("SLOW_DOWN", "not so fast", retry_after=1.5, details={"n": 1})

    await stage.start(handlers)
    failure = (await stage.one_result(grant())).failure
    assert getattr(failure, "class") == "rate_limited"
    assert (failure.code, failure.message) == ("SLOW_DOWN", "not so fast")
    assert (failure.retry_after_ms, failure.details) == (1500, b'{"n": 1}')
