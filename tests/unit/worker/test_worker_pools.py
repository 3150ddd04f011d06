from dataclasses import replace

import perdure
import pytest
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_streams.names import Queue
from perdure_worker.pool_plans import (
    MAX_OFFERING,
    PoolPlan,
    offering,
    pool_plans,
    serving,
    thread_count,
)

QUICK = PoolPlan("quick", 12, (Queue("io", "shared"), Queue("io", "default")))
SLOW = PoolPlan("slow", 4, (Queue("slow", "default"),))


def handler(*, is_async: bool) -> dict[str, perdure.Handler]:
    handlers = perdure.Handlers()

    async def there(given: object, ctx: perdure.HandlerContext) -> None:
        """Run in the loop."""

    def here(given: object, ctx: perdure.HandlerContext) -> None:
        """Run in a thread."""

    handlers.add("work", there if is_async else here)
    return {one.name: one for one in handlers}


def test_without_pools_one_serves_every_queue() -> None:
    assert pool_plans((), ("io:shared", "slow:x"), 7) == [
        PoolPlan("all", 7, (Queue("io", "shared"), Queue("slow", "x")))
    ]


def test_pools_have_names_slots_and_queues_of_their_own() -> None:
    asked = ("quick 12 io:shared io:default", " slow  4  slow:default ")
    assert pool_plans(asked, (), 0) == [QUICK, SLOW]
    assert [str(QUICK), str(SLOW)] == ["quick 12 io:shared io:default", "slow 4 slow:default"]


@pytest.mark.parametrize(
    ("pools", "problem"),
    [
        (("quick",), "a pool is written"),
        (("quick io:shared",), "a pool is written"),
        (("quick 0 io:shared",), "a pool is written"),
        (("quick 10001 io:shared",), "a pool is written"),
        (("quick 1",), "a pool is written"),
        (("quick 1 io",), "a queue is written lane:owner"),
        (("a 1 io:x", "a 1 io:y"), "the pool a is named twice"),
        (("a 1 io:x", "b 1 io:x"), "the queue io:x is named twice"),
    ],
)
def test_what_is_no_pool_is_refused(pools: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        pool_plans(pools, (), 1)


def test_without_handlers_only_shared_queues_are_served() -> None:
    (left,) = serving([QUICK, SLOW], {})
    assert left == PoolPlan("quick", 12, (Queue("io", "shared"),))
    assert serving([QUICK, SLOW], handler(is_async=True)) == [QUICK, SLOW]


def test_pools_of_more_than_one_slot_make_offers_but_not_very_many_of_them() -> None:
    single = PoolPlan("single", 1, (Queue("slow", "shared"),))
    plans = [single, *(replace(SLOW, name=str(n)) for n in range(MAX_OFFERING + 2))]
    marked = [plan.offers for plan in offering(plans)]
    assert marked == [False, *(MAX_OFFERING * [True]), False, False]
    assert [replace(plan, offers=False) for plan in offering(plans)] == plans


def test_there_are_as_many_threads_as_slots_for_handlers_that_need_them() -> None:
    assert thread_count(0, [QUICK, SLOW], handler(is_async=False)) == 16
    assert thread_count(20, [QUICK, SLOW], handler(is_async=False)) == 20
    assert thread_count(0, [QUICK, SLOW], handler(is_async=True)) == 1
    assert thread_count(0, [QUICK, SLOW], {}) == 1


def test_fewer_threads_than_slots_are_refused_since_a_leased_step_would_wait_for_one() -> None:
    with pytest.raises(InvalidArgument, match="15 threads are less than the 16 slots") as refused:
        thread_count(15, [QUICK, SLOW], handler(is_async=False))
    assert refused.value.reason is Reason.CONFIG_INVALID
    assert [one.field for one in refused.value.violations] == ["threads"]
