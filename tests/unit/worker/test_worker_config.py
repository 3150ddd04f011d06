import pytest
from perdure_runtime.config import load
from perdure_runtime.errors import InvalidArgument
from perdure_worker.config import WorkerConfig, make_name

REDIS = {"PERDURE_REDIS_URL": "redis://localhost"}


def test_the_queues_of_a_dev_stack_are_the_default() -> None:
    config = load(WorkerConfig, REDIS)
    assert config.queues == ("io:shared", "io:default", "slow:shared", "slow:default")


@pytest.mark.parametrize("queues", ["io", ":shared", "io:", " , "])
def test_queues_that_are_none_are_refused_by_name(queues: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        load(WorkerConfig, REDIS | {"PERDURE_WORKER_QUEUES": queues})
    assert [violation.field for violation in refused.value.violations] == ["queues"]


def test_each_worker_without_a_name_gets_one_of_its_own() -> None:
    config = load(WorkerConfig, REDIS)
    assert make_name(config) != make_name(config)
    assert len(make_name(config)) <= 200
    assert make_name(load(WorkerConfig, REDIS | {"PERDURE_WORKER_NAME": "mine"})) == "mine"


@pytest.mark.parametrize("pools", ["quick", "a 1 io:x, a 1 io:y", "a 1 io:x, b 1 io:x"])
def test_pools_that_cannot_be_are_refused_by_name(pools: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        load(WorkerConfig, REDIS | {"PERDURE_WORKER_POOLS": pools})
    assert [violation.field for violation in refused.value.violations] == ["pools"]


def test_pools_are_listed_with_commas() -> None:
    told = {"PERDURE_WORKER_POOLS": "quick 12 io:shared io:default, slow 4 slow:shared"}
    plans = load(WorkerConfig, REDIS | told).pool_plans()
    assert [(plan.name, plan.slots) for plan in plans] == [("quick", 12), ("slow", 4)]
