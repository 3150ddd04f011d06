"""Lanes and weights: made and changed by operators, refused by field, kept while used, audited."""

import asyncio
import json

import asyncpg
import pytest
from perdure_machine.lanes import new_lane
from perdure_machine.replacing import replace
from perdure_runtime.errors import FailedPrecondition, InvalidArgument, NotFound, Reason
from perdure_store.audit import read_audit
from perdure_store.catalogue import publish_workflow
from perdure_store.lanes import (
    Asked,
    LaneChange,
    OrgWeight,
    delete_lane,
    load_lanes,
    load_weights,
    put_lane,
    put_weight,
)
from perdure_testkit.database import Database
from perdure_testkit.waiting import blocked_pids, eventually

ASKED = Asked("ann", "black friday")
DOCUMENT = b"name: w\nnodes:\n  a: {task: {handler: h}, lane: mail}\n"


@pytest.fixture
async def connection(database: Database) -> asyncpg.Connection:
    return await database.connect("coordinator")


async def told(connection: asyncpg.Connection) -> list[tuple[str, str, str]]:
    lines = await read_audit(connection, None, limit=10)
    return [(line.actor, line.action, line.target) for line in reversed(lines)]


async def test_a_new_lane_is_as_io_where_nothing_is_said(connection: asyncpg.Connection) -> None:
    change = LaneChange("mail", shards=4, lease=90.0, retry_factor=1.1)
    lane, created = await put_lane(connection, change, ASKED)
    assert created
    like_io = new_lane("mail")
    rule = replace(like_io.retry, factor=1.1)
    assert lane == replace(like_io, shards=4, lease=90.0, retry=rule)
    assert (await load_lanes(connection))["mail"] == lane


async def test_what_is_not_given_stays_and_each_change_is_audited(
    connection: asyncpg.Connection,
) -> None:
    await put_lane(connection, LaneChange("mail", poison_limit=7), ASKED)
    lane, created = await put_lane(connection, LaneChange("mail", retry_max=0), ASKED)
    assert (created, lane.poison_limit, lane.retry.max) == (False, 7, 0)
    await put_lane(connection, LaneChange("mail", retry_max=0), ASKED)
    assert await told(connection) == [("ann", "lane.put", "mail")] * 2
    details = json.loads((await read_audit(connection, None, limit=1))[0].details)
    assert (details["before"]["retry_max"], details["after"]["retry_max"]) == (5, 0)
    assert details["reason"] == "black friday"


async def test_every_field_that_is_wrong_is_named_at_once(connection: asyncpg.Connection) -> None:
    change = LaneChange(
        "Mail!", shards=0, stream_ceiling=0, hand_out=1, lease=1, poison_limit=0, retry_max=-1,
        retry_base=0, retry_factor=0.5, retry_cap=0,
    )  # fmt: skip
    with pytest.raises(InvalidArgument) as refused:
        await put_lane(connection, change, ASKED)
    assert [one.field for one in refused.value.violations] == [
        "lane", "shards", "stream_ceiling", "hand_out", "lease", "poison_limit", "retry_max",
        "retry_base", "retry_factor", "retry_cap",
    ]  # fmt: skip
    assert await told(connection) == []


async def test_the_longest_wait_is_not_below_the_first(connection: asyncpg.Connection) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await put_lane(connection, LaneChange("io", retry_base=400.0), ASKED)
    assert [one.field for one in refused.value.violations] == ["retry_cap"]


async def test_a_lane_that_nothing_uses_is_removed(connection: asyncpg.Connection) -> None:
    await put_lane(connection, LaneChange("mail"), ASKED)
    await delete_lane(connection, "mail", ASKED)
    assert "mail" not in await load_lanes(connection)
    assert (await told(connection))[-1] == ("ann", "lane.delete", "mail")
    with pytest.raises(NotFound) as refused:
        await delete_lane(connection, "mail", ASKED)
    assert refused.value.reason is Reason.LANE_NOT_FOUND


async def test_a_lane_of_a_published_version_stays(connection: asyncpg.Connection) -> None:
    await put_lane(connection, LaneChange("mail"), ASKED)
    await publish_workflow(connection, "default", DOCUMENT)
    for name in ("mail", "io", "slow"):
        with pytest.raises(FailedPrecondition) as refused:
            await delete_lane(connection, name, ASKED)
        assert refused.value.reason is Reason.LANE_IN_USE


async def test_r14_a_lane_that_is_removed_while_a_version_is_published_is_refused_to_one_of_them(
    connection: asyncpg.Connection, database: Database
) -> None:
    await put_lane(connection, LaneChange("mail"), ASKED)
    holder = await database.connect("coordinator")
    await holder.execute("BEGIN; SELECT 1 FROM lanes WHERE lane = 'mail' FOR UPDATE")
    publishing = asyncio.create_task(publish_workflow(connection, "default", DOCUMENT))
    await eventually(lambda: blocked_pids(holder), what="the publisher waits for the lane")
    await holder.execute("DELETE FROM lanes WHERE lane = 'mail'; COMMIT")
    with pytest.raises(FailedPrecondition) as refused:
        await publishing
    assert refused.value.reason is Reason.LANE_UNKNOWN


async def test_an_orgs_weight_is_set_within_bounds_and_audited(
    connection: asyncpg.Connection,
) -> None:
    await put_weight(connection, OrgWeight("default", 5), ASKED)
    assert await load_weights(connection) == [OrgWeight("default", 5)]
    assert await told(connection) == [("ann", "org.weight", "default")]
    with pytest.raises(InvalidArgument):
        await put_weight(connection, OrgWeight("default", 101), ASKED)
    with pytest.raises(NotFound) as refused:
        await put_weight(connection, OrgWeight("nobody", 2), ASKED)
    assert refused.value.reason is Reason.ORG_NOT_FOUND
