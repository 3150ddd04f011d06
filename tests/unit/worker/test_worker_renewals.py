import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from perdure import Cancellation
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant, StepLease
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import Reason, Unavailable
from perdure_worker.coordinator import Answered, Coordinator
from perdure_worker.hand_out import HandOut, hand_out
from perdure_worker.leases import LONG_GONE_SECONDS, Held, Renewals, Stop

Answer = Callable[[StepLease], pb.RenewLeaseResult]


class Engine:
    """Answers renewals; `takes` is how many seconds an answer is on its way."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.calls: list[list[int]] = []
        self.answer: Answer = lambda _: renewed(30)
        self.takes = 0.0

    async def renew(self, leases: list[StepLease]) -> list[Answered[pb.RenewLeaseResult]]:
        sent_at = self.clock.monotonic()
        self.calls.append([lease.step for lease in leases])
        answers = [self.answer(lease) for lease in leases]
        if self.takes:
            await self.clock.advance(self.takes)
        return [Answered(sent_at, answer) for answer in answers]


def renewed(seconds: int, *, cancel: bool = False) -> pb.RenewLeaseResult:
    return pb.RenewLeaseResult(
        status=pb.RENEW_STATUS_RENEWED, lease_ms=seconds * 1000, cancel_requested=cancel
    )


def handed(clock: FakeClock, step: int = 1, seconds: int = 9) -> HandOut:
    lease = StepLease(step=step, lease_id=str(step))
    return hand_out(StepGrant(lease=lease, lease_ms=seconds * 1000), clock.monotonic())


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.engine = Engine(self.clock)
        self.renewals = Renewals(cast(Coordinator, self.engine), self.clock)

    def hold(self, step: int = 1) -> Held:
        return self.renewals.hold(handed(self.clock, step), Cancellation())

    async def after(self, seconds: float) -> int:
        """Let time pass, look once, and return how many leases were asked for."""
        await self.clock.advance(seconds)
        before = sum(map(len, self.engine.calls))
        await self.renewals.renew_due()
        return sum(map(len, self.engine.calls)) - before


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_a_lease_is_renewed_when_a_third_of_it_has_passed(bench: Bench) -> None:
    bench.hold()
    assert [await bench.after(2.9), await bench.after(0.2)] == [0, 1]
    assert [await bench.after(9.9), await bench.after(0.2)] == [0, 1]


async def test_r7_a_renewed_lease_counts_from_when_its_request_was_sent(bench: Bench) -> None:
    held = bench.hold()
    bench.engine.takes = 4.0
    sent_at = bench.clock.monotonic() + 3.0
    assert await bench.after(3.0) == 1
    assert held.expires_at == sent_at + 30
    assert held.renew_at == sent_at + 10


async def test_all_that_is_due_goes_in_one_call_and_nothing_else(bench: Bench) -> None:
    bench.hold(1)
    bench.hold(2)
    await bench.clock.advance(2.0)
    bench.hold(3)
    await bench.after(1.0)
    assert bench.engine.calls == [[1, 2]]


async def test_a_dropped_lease_is_renewed_no_more(bench: Bench) -> None:
    bench.renewals.drop(bench.hold())
    assert await bench.after(5.0) == 0


async def test_a_busy_row_is_asked_for_again_soon_and_is_not_lost(bench: Bench) -> None:
    held = bench.hold()
    bench.engine.answer = lambda _: pb.RenewLeaseResult(status=pb.RENEW_STATUS_AGAIN)
    assert await bench.after(3.0) == 1
    assert await bench.after(0.3) == 1
    assert not held.stopped.done()


async def test_a_lost_lease_stops_its_try_and_no_other(bench: Bench) -> None:
    first, second = bench.hold(1), bench.hold(2)
    lost = pb.RenewLeaseResult(status=pb.RENEW_STATUS_LOST)
    bench.engine.answer = lambda lease: lost if lease.step == 1 else renewed(30)
    await bench.after(3.0)
    assert first.stopped.result() is Stop.LOST
    assert not second.stopped.done()
    assert await bench.after(20.0) == 1


async def test_a_cancelled_run_reaches_the_handler(bench: Bench) -> None:
    held = bench.hold()
    bench.engine.answer = lambda _: renewed(30, cancel=True)
    await bench.after(3.0)
    assert held.cancelled.is_set()
    assert not held.stopped.done()


async def test_protocol_p3_without_an_answer_work_goes_on_until_its_lease_is_long_gone(
    bench: Bench,
) -> None:
    held = bench.hold()

    def away(_: StepLease) -> pb.RenewLeaseResult:
        raise Unavailable("away", reason=Reason.PEER_UNAVAILABLE)

    bench.engine.answer = away
    with pytest.raises(Unavailable):
        await bench.after(3.0)
    with pytest.raises(Unavailable):
        await bench.after(6.0 + LONG_GONE_SECONDS - 1)
    assert not held.stopped.done()
    await bench.after(1.0)
    assert held.stopped.result() is Stop.LOST


async def test_f064_a_drain_does_not_end_renewals_and_a_stop_does(bench: Bench) -> None:
    await bench.renewals.start()
    await bench.clock.blocked()
    await bench.renewals.drain()
    bench.hold()
    await bench.clock.advance(4.0)
    assert bench.engine.calls == [[1]]
    stopping = asyncio.create_task(bench.renewals.stop())
    async with asyncio.timeout(10):
        await stopping
    assert not bench.renewals.is_started
