"""Each check: what it looks for, how its finding reads, and what to do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import MappingProxyType

from perdure_contracts.v1.system_service_pb2 import Check, Finding
from perdure_runtime.errors import FailedPrecondition
from perdure_store.pool import Connection
from perdure_store.reads import health
from perdure_store.schema_version import schema_ready, schema_version

from perdure_ingest.doctor.words import in_words

LEASE_GRACE = timedelta(seconds=60)
"""How long an effect may be in flight after its lease: the sweeper's time to take it away."""

LONGEST_UNKNOWN = timedelta(hours=1)
"""How long an effect may be looked up or repeated before people are told of it."""

LONGEST_QUEUE = timedelta(seconds=60)
"""How long a step may be ready before nobody seems to serve its queue."""

LATEST_TIMER = timedelta(seconds=60)
LEAST_HEAD_ROOM = timedelta(days=7)

_TROUBLE = MappingProxyType(
    {
        "disabled": "is disabled",
        "reconnect": "was refused by its provider",
        "open": "failed several times in a row and is left alone for a while",
        "missing": "does not exist",
    }
)
_REPAIR = "follow docs/runbooks/connection_reconnect.md: "
_CURE = MappingProxyType(
    {
        "disabled": _REPAIR + "`perdure connection repair {name}` enables it",
        "reconnect": _REPAIR + "give it new credentials with `perdure connection put {name}`",
        "open": "nothing, if its provider is down: it is tried again by itself",
        "missing": _REPAIR + "make it with `perdure connection put {name}`",
    }
)

Run = Callable[[Connection, str, int], Awaitable[Check]]
"""Runs one check for an org, with at most so many findings."""


async def steps_with_no_way_forward(connection: Connection, org: str, limit: int) -> Check:
    """Find what nothing will ever move on (R10)."""
    rows = await health.find_stuck(connection, org, limit)
    findings = [
        Finding(
            run_id=str(row.run_id),
            step=row.step or 0,
            what=f"it is {row.status}: {row.missing}",
            do_this="follow docs/runbooks/no_way_forward.md: it brings the step back",
        )
        for row in rows
    ]
    return _check("steps_with_no_way_forward", findings, "every unfinished step has a way forward")


async def unsettled_effects(connection: Connection, org: str, limit: int) -> Check:
    """Find effects whose outcome nobody will learn by itself."""
    rows = await health.find_open_effects(
        connection, org, limit, grace=LEASE_GRACE, longest=LONGEST_UNKNOWN
    )
    findings = [
        Finding(
            run_id=str(row.run_id),
            step=row.step,
            what=f"the effect {row.key} ({row.kind}) is {row.status.replace('_', ' ')} "
            f"since {row.begun_at:%Y-%m-%d %H:%M:%S} UTC",
            do_this=_about_effect(row),
        )
        for row in rows
    ]
    return _check("unsettled_effects", findings, "every effect is settled or about to be")


async def work_not_picked(connection: Connection, org: str, limit: int) -> Check:
    """Find ready steps that no queue's workers take."""
    rows = await health.find_unpicked(connection, org, limit, older_than=LONGEST_QUEUE)
    findings = [
        Finding(
            run_id=str(row.run_id),
            step=row.step,
            what=f"it has been ready on queue {row.queue} for {in_words(row.age)}",
            do_this=f"see that relay runs and that a worker serves {row.queue} with free slots",
        )
        for row in rows
    ]
    return _check("work_not_picked", findings, "no step waits long for relay and workers")


async def overdue_timers(connection: Connection, org: str, limit: int) -> Check:
    """Find timers that should have fired."""
    rows = await health.find_overdue(connection, org, limit, later_than=LATEST_TIMER)
    findings = [
        Finding(
            run_id=str(row.run_id),
            step=row.step or 0,
            what=f"its timer ({row.kind}) is late by {in_words(row.late)}{_failed(row)}",
            do_this="see that timer runs, that it leads, and what its log says of this run",
        )
        for row in rows
    ]
    return _check("overdue_timers", findings, "timers are on time")


def _failed(row: health.OverdueRow) -> str:
    return f"; it failed {row.tries} times, at last with: {row.failure}" if row.failure else ""


async def parked_on_timers(connection: Connection, org: str, limit: int) -> Check:
    """Find steps that stand because the timers that they wait for cannot be delivered."""
    rows = await health.find_parked_on_timers(connection, org, limit)
    findings = [
        Finding(
            run_id=str(row.run_id),
            step=row.step,
            what=f"it is parked: its timer ({row.kind}) failed with: {row.failure}",
            do_this=f"mend what is said there, then `perdure run resume {row.run_id}`",
        )
        for row in rows
    ]
    return _check("parked_on_timers", findings, "no step is parked because of its timer")


async def waits_without_deadline(connection: Connection, org: str, limit: int) -> Check:
    """List waits that end only if somebody sends their signal; that is allowed."""
    rows = await health.find_endless_waits(connection, org, limit)
    findings = [
        Finding(
            run_id=str(row.run_id),
            step=row.step,
            what=f"it waits for the signal {row.name}{_by(row.key)} for {in_words(row.age)}",
            do_this="nothing, if that is meant; else send the signal, or give the wait a deadline",
        )
        for row in rows
    ]
    summary = f"{len(rows)} open waits" if rows else "every open wait for a signal has a deadline"
    return Check(name="waits_without_deadline", ok=True, summary=summary, findings=findings)


async def connections_in_trouble(connection: Connection, org: str, limit: int) -> Check:
    """Find connections that hold steps back until a person acts, or until they work again."""
    rows = await health.find_troubled(connection, org, limit)
    findings = [
        Finding(
            what=f"the connection {row.name} {_TROUBLE[row.health]}; {row.parked} steps are parked",
            do_this=_CURE[row.health].format(name=row.name),
        )
        for row in rows
    ]
    return _check("connections_in_trouble", findings, "every connection works")


async def months_ahead(connection: Connection, org: str, limit: int) -> Check:
    """Find that new runs will soon have no partition to stand in."""
    head_room = await health.month_head_room(connection)
    if head_room is None or head_room >= LEAST_HEAD_ROOM:
        return _check("months_ahead", [], "the coming months have their partitions")
    left = f"in {in_words(head_room)}" if head_room > timedelta(0) else "now"
    finding = Finding(
        what=f"{left} there is no partition for new runs",
        do_this="see that sweeper runs: it makes the months ahead",
    )
    return _check("months_ahead", [finding], "")


async def database_schema(connection: Connection, org: str, limit: int) -> Check:
    """Find a database older than this program."""
    try:
        await schema_ready(connection)
    except FailedPrecondition:
        version = await schema_version(connection)
        finding = Finding(
            what=f"the database has schema version {version}, older than this program needs",
            do_this="run `perdure migrate`",
        )
        return _check("database_schema", [finding], "")
    return _check("database_schema", [], "the database has the schema that this program needs")


CHECKS: Sequence[tuple[str, Run]] = (
    ("steps_with_no_way_forward", steps_with_no_way_forward),
    ("unsettled_effects", unsettled_effects),
    ("work_not_picked", work_not_picked),
    ("overdue_timers", overdue_timers),
    ("parked_on_timers", parked_on_timers),
    ("waits_without_deadline", waits_without_deadline),
    ("connections_in_trouble", connections_in_trouble),
    ("months_ahead", months_ahead),
    ("database_schema", database_schema),
)
"""Every check in the order in which it is shown."""


def could_not_run(name: str, why: str) -> Check:
    """Say that a check had no result, which is no good news either."""
    return Check(name=name, ok=False, summary=f"the check could not be run: {why}")


def _about_effect(row: health.OpenEffectRow) -> str:
    show = f"perdure effect show {row.key}"
    if row.status == "needs_review":
        return f"find out whether it was done, and say so: {show}"
    if row.status == "in_flight":
        return f"see that sweeper runs: it takes the lease away; {show}"
    return f"see why it is not settled: {show}"


def _by(key: str | None) -> str:
    return "" if key is None else f" by the key {key}"


def _check(name: str, findings: Sequence[Finding], all_well: str) -> Check:
    count = len(findings)
    summary = f"{count} found" if count else all_well
    return Check(name=name, ok=not findings, summary=summary, findings=findings)
