"""Diagnose: each absence is found, in words, with what to do; a healthy engine has no findings."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from perdure import Client
from perdure_contracts.v1.system_service_pb2 import Check, Finding
from perdure_testkit.database import Database

ALL = [
    "steps_with_no_way_forward",
    "unsettled_effects",
    "work_not_picked",
    "overdue_timers",
    "parked_on_timers",
    "waits_without_deadline",
    "connections_in_trouble",
    "months_ahead",
    "database_schema",
]
LONG_AGO = timedelta(hours=2)


async def checks(client: Client) -> dict[str, Check]:
    return {check.name: check for check in (await client.diagnose()).checks}


async def only_finding(client: Client, name: str) -> Finding:
    found = await checks(client)
    assert [check.name for check in found.values() if not check.ok] == [name]
    (finding,) = found[name].findings
    assert finding.what
    assert finding.do_this
    return finding


async def test_a_healthy_engine_has_no_findings(client: Client, rows: Any) -> None:
    run_id = await rows.waiting_run()
    await rows.step(run_id, 2)
    await rows.effect(run_id, step=2, status="settled")
    found = await checks(client)
    assert list(found) == ALL
    assert all(check.ok and check.summary and not check.findings for check in found.values())


@pytest.mark.breaks_r10("a step without its timer is what is to be found")
async def test_r10_a_step_with_no_way_forward_is_found(client: Client, rows: Any) -> None:
    run_id = await rows.run(status="running")
    await rows.step(run_id, status="waiting")
    finding = await only_finding(client, "steps_with_no_way_forward")
    assert (finding.run_id, finding.step) == (str(run_id), 1)


async def test_a_timer_that_should_have_fired_is_found(client: Client, rows: Any) -> None:
    run_id = await rows.waiting_run(due_in=-LONG_AGO)
    finding = await only_finding(client, "overdue_timers")
    assert finding.run_id == str(run_id)
    assert "2 h" in finding.what


async def test_a_step_that_nobody_picks_is_found_with_its_queue(client: Client, rows: Any) -> None:
    run_id = await rows.run(status="running")
    await rows.step(run_id, status="queued", lane="slow")
    await rows.connection.execute(
        "INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, created_at) "
        "VALUES ('default', $1, 1, 'slow', 'shared', 0, 0, $2)",
        run_id,
        await rows.now() - LONG_AGO,
    )
    finding = await only_finding(client, "work_not_picked")
    assert "slow:shared" in finding.what


@pytest.mark.parametrize(
    ("kind", "status", "step_status", "is_found"),
    [
        ("provider", "in_flight", "failed", True),
        ("provider", "in_flight", "running", False),
        ("provider", "outcome_unknown", "failed", True),
        ("provider", "outcome_unknown", "queued", False),
        ("reconcile", "outcome_unknown", "queued", False),
        ("none", "needs_review", "failed", True),
        ("provider", "refused", "failed", False),
    ],
)
async def test_an_effect_that_no_try_will_settle_is_found(
    client: Client, rows: Any, kind: str, status: str, step_status: str, is_found: bool
) -> None:
    run_id = await rows.waiting_run()
    await rows.step(run_id, 2, status=step_status, **lease(step_status, await rows.now()))
    await rows.connection.execute(
        "INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, created_at) "
        "SELECT 'default', $1, 2, 'io', 'shared', 0, 0, clock_timestamp() WHERE $2 = 'queued'",
        run_id,
        step_status,
    )
    await rows.effect(run_id, step=2, status=status, kind=kind)
    if is_found:
        finding = await only_finding(client, "unsettled_effects")
        assert (finding.run_id, finding.step) == (str(run_id), 2)
    else:
        assert all(check.ok for check in (await checks(client)).values())


@pytest.mark.parametrize(
    ("status", "columns", "do_this"),
    [
        ("needs_review", {}, "find out whether it was done, and say so: perdure effect show k"),
        ("outcome_unknown", {"begun_at": LONG_AGO}, "see why it is not settled: "),
        ("in_flight", {"lease_expires_at": LONG_AGO}, "see that sweeper runs"),
    ],
)
async def test_an_effect_that_stays_unsettled_says_what_to_do(
    client: Client, rows: Any, status: str, columns: dict[str, timedelta], do_this: str
) -> None:
    run_id = await rows.waiting_run()
    await rows.step(run_id, 2)
    instants = {name: await rows.now() - ago for name, ago in columns.items()}
    token = {"token": uuid.uuid4()} if "lease_expires_at" in columns else {}
    await rows.effect(run_id, step=2, status=status, **instants, **token)
    assert (await only_finding(client, "unsettled_effects")).do_this.startswith(do_this)


async def test_f107_missing_months_are_said_long_before(client: Client, rows: Any) -> None:
    await rows.connection.execute("DELETE FROM months WHERE month > clock_timestamp()")
    await rows.connection.execute(
        "DELETE FROM months WHERE month + interval '1 month' > clock_timestamp() + interval '7 d'"
    )
    finding = await only_finding(client, "months_ahead")
    assert "sweeper" in finding.do_this


async def test_an_old_schema_is_said(client: Client, rows: Any) -> None:
    await rows.connection.execute("DELETE FROM schema_migrations WHERE version > 1")
    assert "perdure migrate" in (await only_finding(client, "database_schema")).do_this


@pytest.fixture
async def impatient_role(database: Database, rows: Any) -> None:
    """Ingest's role waits for a lock for a moment only, in this database."""
    await rows.connection.execute(
        f"ALTER ROLE perdure_ingest IN DATABASE \"{database.name}\" SET lock_timeout = '100ms'"
    )


async def test_a_check_that_fails_says_so_and_hides_no_other(
    impatient_role: None, client: Client, rows: Any
) -> None:
    async with rows.connection.transaction():
        await rows.connection.execute("LOCK TABLE months IN ACCESS EXCLUSIVE MODE")
        found = await checks(client)
    assert list(found) == ALL
    assert [name for name, check in found.items() if not check.ok] == ["months_ahead"]
    assert "could not be run" in found["months_ahead"].summary


def lease(step_status: str, now: Any) -> dict[str, Any]:
    if step_status != "running":
        return {}
    return {
        "fence": 1,
        "lease_id": "01234567-89ab-cdef-0123-456789abcdef",
        "worker": "w",
        "started_at": now,
        "lease_expires_at": now + timedelta(minutes=5),
    }
