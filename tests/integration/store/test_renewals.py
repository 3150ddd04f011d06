"""RenewLease: how far a lease goes, and the three answers (R7, p3)."""

from dataclasses import replace
from uuid import UUID

import pytest
from perdure_machine.events import CancelRun
from perdure_machine.node_error import ErrorClass
from perdure_store.leases import HeldLease, Renewal, RenewalAnswer, renew_leases
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, lease_of, new_lease
from perdure_testkit.engines.postgres import PostgresPort

TASK = {"a": {"task": {"handler": "x"}}}


async def take(driver: Driver, nodes: dict[str, object] | None = None) -> HeldLease:
    await driver.publish(nodes or {**TASK})
    lease = lease_of(await driver.acquire(await driver.start(), "a"))
    return HeldLease(ORG, lease.run_id, lease.step, lease.fence, lease.lease_id)


async def renew(port: PostgresPort, *leases: HeldLease) -> list[RenewalAnswer]:
    return await renew_leases(port.coordinator, leases)


async def test_r7_a_renewal_gives_the_length_of_the_lane_from_the_databases_now(
    driver: Driver, port: PostgresPort
) -> None:
    lease = await take(driver)
    await port.admin.execute("UPDATE lanes SET lease_ms = 45000 WHERE lane = 'io'")
    before = await port.admin.fetchval("SELECT clock_timestamp()")
    (answer,) = await renew(port, lease)
    after = await port.admin.fetchval("SELECT clock_timestamp()")
    expiry = await port.admin.fetchval("SELECT lease_expires_at FROM steps")
    assert answer.renewal is Renewal.RENEWED
    assert (expiry - before).total_seconds() >= 45
    assert (expiry - after).total_seconds() <= 45
    assert answer.lease_left == pytest.approx(45, abs=5)


@pytest.mark.parametrize("timeout", [8, 20])
async def test_a_renewal_ends_with_the_timeout_of_the_try(
    driver: Driver, port: PostgresPort, timeout: int
) -> None:
    lease = await take(driver, {"a": {"task": {"handler": "x"}, "timeout": f"{timeout}s"}})
    for _ in range(2):
        (answer,) = await renew(port, lease)
        assert answer.lease_left == pytest.approx(timeout, abs=5)
    row = await port.admin.fetchrow("SELECT lease_expires_at, try_expires_at FROM steps")
    assert row is not None
    assert row["lease_expires_at"] == row["try_expires_at"]


async def test_p3_a_lease_that_ran_out_and_was_not_taken_away_is_renewed(
    driver: Driver, port: PostgresPort
) -> None:
    lease = await take(driver)
    await port.advance(20)
    (answer,) = await renew(port, lease)
    assert answer.renewal is Renewal.RENEWED


async def test_p3_what_is_not_held_is_lost(driver: Driver, port: PostgresPort) -> None:
    lease = await take(driver)
    others = [
        replace(lease, org="rival"),
        replace(lease, fence=2),
        replace(lease, lease_id=new_lease()),
        replace(lease, step=9),
        replace(lease, run_id=UUID(int=7)),
    ]
    answers = await renew(port, *others, lease)
    assert [a.renewal for a in answers] == [Renewal.LOST] * len(others) + [Renewal.RENEWED]


async def test_p3_an_older_lease_of_a_step_is_lost_though_the_newest_is_renewed_beside_it(
    driver: Driver, port: PostgresPort
) -> None:
    """A worker may take again the step that it lost while its first try still runs."""
    old = await take(driver)
    await port.advance(11)
    await driver.expire_due()
    lease = lease_of(await driver.acquire(old.run_id, "a"))
    new = HeldLease(ORG, lease.run_id, lease.step, lease.fence, lease.lease_id)
    answers = await renew(port, old, new, old)
    assert [a.renewal for a in answers] == [Renewal.LOST, Renewal.RENEWED, Renewal.LOST]


async def test_p3_a_row_that_is_locked_is_answered_again_and_never_lost(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    lease = await take(driver)
    other = lease_of(await driver.acquire(await driver.start(), "a"))
    free = HeldLease(ORG, other.run_id, other.step, other.fence, other.lease_id)
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute("SELECT FROM steps WHERE run_id = $1 FOR UPDATE", lease.run_id)
        answers = await renew(port, lease, free)
    assert [a.renewal for a in answers] == [Renewal.AGAIN, Renewal.RENEWED]
    (answer,) = await renew(port, lease)
    assert answer.renewal is Renewal.RENEWED


async def test_the_holder_of_a_step_of_a_closed_run_keeps_its_lease_and_is_told(
    driver: Driver, port: PostgresPort
) -> None:
    lease = await take(driver)
    (before,) = await renew(port, lease)
    await driver.submit(lease.run_id, CancelRun())
    (after,) = await renew(port, lease)
    assert (before.cancel_requested, after.cancel_requested) == (False, True)
    assert after.renewal is Renewal.RENEWED


async def test_r1_a_renewal_changes_no_version_that_a_decision_relies_on(
    driver: Driver, port: PostgresPort
) -> None:
    lease = await take(driver)
    before = await port.run(lease.run_id), await port.steps(lease.run_id)
    await renew(port, lease)
    assert (await port.run(lease.run_id), await port.steps(lease.run_id)) == before


async def test_the_same_lease_twice_in_one_call_is_renewed_twice(
    driver: Driver, port: PostgresPort
) -> None:
    lease = await take(driver)
    answers = await renew(port, lease, lease)
    assert [a.renewal for a in answers] == [Renewal.RENEWED, Renewal.RENEWED]


async def test_the_holder_of_a_step_whose_run_stops_is_told(
    driver: Driver, port: PostgresPort
) -> None:
    task = TASK["a"]
    clean = {**task, "needs": ["bad"], "join": "settled"}
    lease = await take(driver, {"a": task, "bad": task, "clean": clean})
    (answer,) = await renew(port, lease)
    assert not answer.cancel_requested
    await driver.fail(await driver.acquire(lease.run_id, "bad"), ErrorClass.PERMANENT)
    await driver.settle()
    (answer,) = await renew(port, lease)
    assert (answer.renewal, answer.cancel_requested) == (Renewal.RENEWED, True)
    await driver.drain()
