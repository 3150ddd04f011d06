"""A run whose month is closed is about to be removed with it, so nothing opens it again (p11)."""

from __future__ import annotations

import pytest
from perdure_machine.events import RetryRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.postgres import PostgresPort


async def test_p11_a_run_of_a_closed_month_is_not_retried(port: PostgresPort) -> None:
    driver = Driver(port)
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    await port.admin.execute("UPDATE months SET closed = true")
    with pytest.raises(FailedPrecondition) as refused:
        await driver.submit(run, RetryRun())
    assert refused.value.reason is Reason.MONTH_CLOSED
    assert (await port.run(run)).status is RunStatus.FAILED
    await port.admin.execute("UPDATE months SET closed = false")
    await driver.submit(run, RetryRun())
    await driver.drain()
