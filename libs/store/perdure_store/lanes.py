"""The lanes and the weights of orgs: read by every service, changed by operators, each audited."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TypeVar

import asyncpg
from perdure_machine.definition.model import RetryRule
from perdure_machine.lanes import BUILT_IN, Lane, lane_problems, new_lane
from perdure_machine.replacing import replace
from perdure_runtime.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    NotFound,
    Reason,
)
from perdure_runtime.fail_points import declare

from perdure_store.audit import audit
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_LANE = declare("store.commit_lane")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class LaneChange:
    """What becomes of a lane; what is None stays as it is, or as in a new lane. Seconds."""

    name: str
    shards: int | None = None
    stream_ceiling: int | None = None
    hand_out: float | None = None
    lease: float | None = None
    poison_limit: int | None = None
    retry_max: int | None = None
    retry_base: float | None = None
    retry_factor: float | None = None
    retry_cap: float | None = None

    def of(self, lane: Lane) -> Lane:
        """The lane as it is to be."""
        rule = lane.retry
        return replace(
            lane,
            shards=_or(self.shards, lane.shards),
            stream_ceiling=_or(self.stream_ceiling, lane.stream_ceiling),
            hand_out=_or(self.hand_out, lane.hand_out),
            lease=_or(self.lease, lane.lease),
            poison_limit=_or(self.poison_limit, lane.poison_limit),
            retry=replace(
                rule,
                max=_or(self.retry_max, rule.max),
                base=_or(self.retry_base, rule.base),
                factor=_or(self.retry_factor, rule.factor),
                cap=_or(self.retry_cap, rule.cap),
            ),
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked for a change, as the door tells it, and why; either may be empty."""

    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class OrgWeight:
    """How many rows an org may send in each of its turns."""

    org: str
    weight: int


async def load_lanes(connection: Connection) -> dict[str, Lane]:
    """Return every lane by name."""
    rows = await connection.fetch(sql("catalogue.lanes"))
    return {row["lane"]: _lane(row) for row in rows}


async def put_lane(connection: Connection, change: LaneChange, asked: Asked) -> tuple[Lane, bool]:
    """Make or change a lane; return it, and whether it is new.

    Raises InvalidArgument, FIELD_INVALID, with every field that has a value it may not have.
    """
    async with transaction(connection, COMMIT_LANE):
        row = await connection.fetchrow(sql("catalogue.lock_lane"), change.name)
        before = _lane(row) if row is not None else None
        lane = change.of(before or new_lane(change.name))
        _refuse(lane)
        if lane != before:
            await connection.execute(sql("catalogue.put_lane"), *_values(lane))
            was = _told(before) if before is not None else None
            await _audit(connection, asked, "lane.put", lane.name, was, _told(lane))
    return lane, before is None


async def delete_lane(connection: Connection, name: str, asked: Asked) -> None:
    """Remove a lane that no published version uses.

    Raises NotFound, LANE_NOT_FOUND, and FailedPrecondition, LANE_IN_USE.
    """
    async with transaction(connection, COMMIT_LANE):
        row = await connection.fetchrow(sql("catalogue.lock_lane"), name)
        if row is None:
            raise lane_not_found(name)
        # In a statement of its own: a publisher that held the lane's row is seen (R1).
        if name in BUILT_IN or await connection.fetchval(sql("catalogue.lane_is_used"), name):
            raise FailedPrecondition(
                f"the lane {name} is there from the start, or a published workflow uses it",
                reason=Reason.LANE_IN_USE,
                metadata={"lane": name},
            )
        await connection.execute(sql("catalogue.drop_lane"), name)
        await _audit(connection, asked, "lane.delete", name, _told(_lane(row)), None)


async def load_weights(connection: Connection) -> list[OrgWeight]:
    """Return every org's weight, by name."""
    return [OrgWeight(*row) for row in await connection.fetch(sql("catalogue.orgs"))]


async def put_weight(connection: Connection, wanted: OrgWeight, asked: Asked) -> None:
    """Set an org's weight.

    Raises NotFound, ORG_NOT_FOUND, and InvalidArgument for a weight out of range.
    """
    async with transaction(connection, COMMIT_LANE):
        before = await connection.fetchval(sql("catalogue.lock_org"), wanted.org)
        if before is None:
            raise NotFound(
                f"there is no org {wanted.org!r}",
                reason=Reason.ORG_NOT_FOUND,
                metadata={"org": wanted.org},
            )
        if before != wanted.weight:
            await connection.execute(sql("catalogue.put_weight"), wanted.org, wanted.weight)
            await _audit(connection, asked, "org.weight", wanted.org, before, wanted.weight)


def lane_not_found(name: str) -> NotFound:
    """The error for a lane that is not there."""
    return NotFound(
        f"there is no lane {name!r}", reason=Reason.LANE_NOT_FOUND, metadata={"lane": name}
    )


def _or(given: Value | None, otherwise: Value) -> Value:
    return otherwise if given is None else given


def _refuse(lane: Lane) -> None:
    found = [FieldViolation(field, text) for field, text in lane_problems(lane)]
    if found:
        problems = "; ".join(f"{one.field} {one.description}" for one in found)
        raise InvalidArgument(f"the lane cannot be so: {problems}", violations=found)


async def _audit(
    connection: Connection, asked: Asked, action: str, target: str, before: object, after: object
) -> None:
    details = {"before": before, "after": after, "reason": asked.reason}
    await audit(
        connection, org=None, actor=asked.actor, action=action, target=target, details=details
    )


def _told(lane: Lane) -> dict[str, object]:
    """Return a lane as the audit log tells it."""
    told = asdict(lane)
    rule = told.pop("retry")
    return {**told, **{f"retry_{key}": rule[key] for key in ("max", "base", "factor", "cap")}}


def _values(lane: Lane) -> tuple[object, ...]:
    rule = lane.retry
    return (
        lane.name, lane.shards, lane.stream_ceiling, _ms(lane.hand_out), _ms(lane.lease),
        lane.poison_limit, rule.max, _ms(rule.base), rule.factor, _ms(rule.cap),
    )  # fmt: skip


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _lane(row: asyncpg.Record) -> Lane:
    return Lane(
        name=row["lane"],
        shards=row["shards"],
        stream_ceiling=row["stream_ceiling"],
        hand_out=row["hand_out_ms"] / 1000,
        lease=row["lease_ms"] / 1000,
        poison_limit=row["poison_limit"],
        retry=RetryRule(
            on=frozenset(),
            max=row["retry_max"],
            base=row["retry_base_ms"] / 1000,
            factor=row["retry_factor"],
            cap=row["retry_cap_ms"] / 1000,
        ),
    )
