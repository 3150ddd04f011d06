import asyncio
from collections.abc import Sequence

import pytest
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import Internal, Reason, Unavailable
from perdure_runtime.rpc import deadline


class Wire:
    """A batched call whose first batch stays in flight until `release` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.in_flight = asyncio.Event()
        self.release = asyncio.Event()
        self.error: Exception | None = None

    async def send(self, items: list[int]) -> Sequence[int]:
        self.batches.append(items)
        self.in_flight.set()
        await self.release.wait()
        if self.error is not None:
            raise self.error
        return [-item for item in items]


async def open_batcher(wire: Wire, max_items: int = 64) -> Batcher[int, int]:
    batcher = Batcher(wire.send, max_items)
    await batcher.start()
    return batcher


async def test_protocol_p1_what_comes_while_a_batch_is_in_flight_goes_together_next() -> None:
    wire = Wire()
    batcher = await open_batcher(wire)
    first = asyncio.create_task(batcher.submit(1))
    await wire.in_flight.wait()
    others = [asyncio.create_task(batcher.submit(item)) for item in (2, 3, 4)]
    await asyncio.wait(others, timeout=0)
    wire.release.set()
    assert await asyncio.gather(first, *others) == [-1, -2, -3, -4]
    assert wire.batches == [[1], [2, 3, 4]]


async def test_batches_that_may_be_away_together_do_not_wait_for_each_other() -> None:
    wire = Wire()
    batcher = Batcher(wire.send, 64, at_once=2)
    await batcher.start()
    submitted = []
    for item in (1, 2, 3, 4):
        submitted.append(asyncio.create_task(batcher.submit(item)))
        await asyncio.wait(submitted, timeout=0.01)
    assert wire.batches == [[1], [2]]
    wire.release.set()
    assert await asyncio.gather(*submitted) == [-1, -2, -3, -4]
    assert wire.batches == [[1], [2], [3, 4]]
    await batcher.stop()


async def test_what_comes_in_one_turn_of_the_loop_goes_in_one_batch() -> None:
    wire = Wire()
    wire.release.set()
    batcher = await open_batcher(wire)
    assert await asyncio.gather(*map(batcher.submit, range(3))) == [0, -1, -2]
    assert wire.batches == [[0, 1, 2]]


async def test_a_batch_holds_at_most_max_items() -> None:
    wire = Wire()
    wire.release.set()
    batcher = await open_batcher(wire, max_items=2)
    await asyncio.gather(*map(batcher.submit, range(5)))
    assert wire.batches == [[0, 1], [2, 3], [4]]


async def test_f091_a_batch_stops_growing_at_its_weight_and_a_heavier_item_goes_alone() -> None:
    wire = Wire()
    wire.release.set()
    batcher = Batcher(wire.send, 64, weigh=lambda item: item, max_weight=10)
    await batcher.start()
    await asyncio.gather(*map(batcher.submit, (4, 6, 1, 50, 2)))
    assert wire.batches == [[4, 6], [1], [50], [2]]


async def test_an_error_reaches_every_waiter_of_its_batch_and_no_other() -> None:
    wire = Wire()
    wire.error = Unavailable("down", reason=Reason.PEER_UNAVAILABLE)
    wire.release.set()
    batcher = await open_batcher(wire)
    failed = await asyncio.gather(*map(batcher.submit, (1, 2)), return_exceptions=True)
    assert failed == [wire.error, wire.error]
    wire.error = None
    assert await batcher.submit(3) == -3


async def test_a_wrong_number_of_answers_is_refused_instead_of_mixed_up() -> None:
    async def send(items: list[int]) -> Sequence[int]:
        return items[1:]

    batcher = Batcher(send, 64)
    await batcher.start()
    with pytest.raises(Internal, match="0 answers to 1 items"):
        await batcher.submit(1)


async def test_an_item_whose_submitter_left_before_it_was_sent_is_not_sent() -> None:
    wire = Wire()
    batcher = await open_batcher(wire)
    first = asyncio.create_task(batcher.submit(1))
    await wire.in_flight.wait()
    left, stayed = asyncio.create_task(batcher.submit(2)), asyncio.create_task(batcher.submit(3))
    await asyncio.wait((left, stayed), timeout=0)
    left.cancel()
    await asyncio.wait((left,))
    wire.release.set()
    assert await first == -1
    assert await stayed == -3
    assert wire.batches == [[1], [3]]


async def test_a_submitter_that_leaves_in_flight_disturbs_nobody_else() -> None:
    wire = Wire()
    batcher = await open_batcher(wire)
    leaving, staying = (asyncio.create_task(batcher.submit(item)) for item in (1, 2))
    await wire.in_flight.wait()
    leaving.cancel()
    wire.release.set()
    assert await staying == -2


async def test_stop_waits_for_everything_taken_and_takes_no_more() -> None:
    wire = Wire()
    batcher = await open_batcher(wire)
    first = asyncio.create_task(batcher.submit(1))
    await wire.in_flight.wait()
    second = asyncio.create_task(batcher.submit(2))
    await asyncio.wait((second,), timeout=0)
    stopping = asyncio.create_task(batcher.stop())
    await asyncio.wait((stopping,), timeout=0)
    with pytest.raises(Unavailable) as refused:
        await batcher.submit(3)
    assert refused.value.reason is Reason.DRAINING
    assert not stopping.done()
    wire.release.set()
    await stopping
    assert first.result() == -1
    assert second.result() == -2


async def test_a_batch_inherits_no_submitters_deadline() -> None:
    left: list[float | None] = []

    async def send(items: list[int]) -> Sequence[int]:
        left.append(deadline.remaining())
        return items

    batcher = Batcher(send, 64)
    await batcher.start()
    async with deadline.within(30.0):
        await batcher.submit(1)
    assert left == [None]


async def test_start_and_stop_may_come_twice_and_in_any_order() -> None:
    wire = Wire()
    wire.release.set()
    batcher = Batcher(wire.send, 64)
    await batcher.stop()
    with pytest.raises(Unavailable):
        await batcher.submit(1)
    await batcher.start()
    await batcher.start()
    assert await batcher.submit(1) == -1
    await batcher.stop()
    await batcher.stop()
