"""Offers are taken once each, in the order in which they came, of any of their queues."""

import uuid

import pytest
from perdure_contracts.internal.v1.offers_pb2 import AwaitStepResponse
from perdure_coordinator.offers import Offer, Offers
from perdure_runtime.errors import Unavailable


def offer(*queues: str) -> Offer:
    return Offer("worker-1", queues, uuid.uuid4())


@pytest.fixture
def offers() -> Offers:
    made = Offers()
    made.open()
    return made


async def test_the_one_that_waits_for_longest_is_taken_first_and_once(offers: Offers) -> None:
    first, second = offer("io:a", "io:b"), offer("io:b")
    offers.put(first)
    offers.put(second)
    taken = [offers.take(queue) for queue in ("io:b", "io:a", "io:b", "io:b")]
    assert taken == [first, None, second, None]


async def test_nobody_is_found_at_a_queue_that_nobody_named(offers: Offers) -> None:
    offers.put(offer("io:a"))
    assert offers.take("io:b") is None


async def test_one_that_is_withdrawn_is_not_taken_and_one_that_is_taken_not_withdrawn(
    offers: Offers,
) -> None:
    gone, taken = offer("io:a", "io:b"), offer("io:a")
    offers.put(gone)
    offers.put(taken)
    assert offers.withdraw(gone)
    assert offers.take("io:a") is taken
    assert [offers.withdraw(one) for one in (gone, taken)] == [False, False]
    assert offers.take("io:b") is None


async def test_it_is_answered_once_and_not_when_nobody_waits_any_more() -> None:
    answered, left = offer("io:a"), offer("io:a")
    left.answer.cancel()
    given = [one.give(AwaitStepResponse()) for one in (answered, answered, left)]
    assert given == [True, False, False]


async def test_what_ends_is_answered_with_nothing_unless_it_was_taken(offers: Offers) -> None:
    ended, taken = offer("io:a"), offer("io:b")
    for one in (ended, taken):
        offers.put(one)
    offers.take("io:b")
    for one in (ended, taken):
        offers.end(one)
    assert ended.answer.result() == AwaitStepResponse()
    assert not taken.answer.done()


async def test_f065_nobody_waits_where_it_is_closed(offers: Offers) -> None:
    waiting = offer("io:a", "io:b")
    offers.put(waiting)
    offers.close()
    assert waiting.answer.result() == AwaitStepResponse()
    with pytest.raises(Unavailable):
        offers.put(offer("io:a"))
