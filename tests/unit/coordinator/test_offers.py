"""Offers are taken once each, in the order in which they came, of any of their queues."""

import uuid

from perdure_contracts.internal.v1.offers_pb2 import AwaitStepResponse
from perdure_coordinator.offers import Offer, Offers


def offer(*queues: str) -> Offer:
    return Offer("worker-1", queues, uuid.uuid4(), 0.0)


async def test_the_one_that_waits_for_longest_is_taken_first_and_once() -> None:
    offers, first, second = Offers(), offer("io:a", "io:b"), offer("io:b")
    offers.put(first)
    offers.put(second)
    taken = [offers.take(queue) for queue in ("io:b", "io:a", "io:b", "io:b")]
    assert taken == [first, None, second, None]


async def test_nobody_is_found_at_a_queue_that_nobody_named() -> None:
    offers = Offers()
    offers.put(offer("io:a"))
    assert offers.take("io:b") is None


async def test_one_that_is_withdrawn_is_not_taken_and_one_that_is_taken_not_withdrawn() -> None:
    offers, gone, taken = Offers(), offer("io:a", "io:b"), offer("io:a")
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
