"""Who passes the door: keys checked at the coordinator, by one table, so often and no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_runtime.access import PERMISSIONS_OF, Permission, Role
from perdure_runtime.errors import PerdureError, Reason
from perdure_testkit.hostile import Attack
from perdure_testkit.refusals import Door as Attacked
from perdure_testkit.waiting import eventually
from perdure_worker.door.table import RULES, SERVICE

from tests.integration.worker.door_stage import DoorStage, Handler, refusal
from tests.integration.worker.fake_engine import IO_DEFAULT, grant

CONTRACT = pb.DESCRIPTOR.services_by_name["WorkerService"]
EMPTY = {method.name: getattr(pb, method.input_type.name)() for method in CONTRACT.methods}
KEEPERS_OUT = {"KEY_MISSING", "KEY_INVALID", "KEY_EXPIRED", "KEY_REVOKED", "PERMISSION_MISSING"}


async def verdicts(handler: Handler) -> dict[str, str]:
    """Call every method; return how the gate refused it, empty where it did not."""
    found = {}
    for method, request in EMPTY.items():
        outcome = refusal(await outcome_of(handler, method, request))
        found[method] = outcome if outcome in KEEPERS_OUT else ""
    return found


async def outcome_of(handler: Handler, method: str, request: Any) -> Any:
    try:
        return await handler.call(method, request)
    except PerdureError as error:
        return error


def all_methods(verdict: str) -> dict[str, str]:
    return dict.fromkeys(EMPTY, verdict)


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    assert {f"/{SERVICE}/{method.name}" for method in CONTRACT.methods} == set(RULES)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("org", ["default", "acme"])
async def test_each_method_of_the_door_lets_in_whom_its_row_allows_and_nobody_else(
    doors: DoorStage, role: Role, org: str
) -> None:
    key = doors.engine.keys.give(*PERMISSIONS_OF[role], org=org)
    handler = doors.handler(await doors.open(), key=key)
    may_work = role in (Role.WORKER, Role.ADMIN)
    assert await verdicts(handler) == all_methods("" if may_work else "PERMISSION_MISSING")


async def test_a_permission_that_this_release_does_not_know_opens_nothing(
    doors: DoorStage,
) -> None:
    key = doors.engine.keys.give(Permission.RUNS_READ)
    (holder,) = doors.engine.keys.holders.values()
    holder.permissions.append("everything")
    handler = doors.handler(await doors.open(), key=key)
    assert await verdicts(handler) == all_methods("PERMISSION_MISSING")


@pytest.mark.parametrize(
    ("presented", "reason"),
    [
        ("", "KEY_MISSING"),
        ("pdr_nonsense", "KEY_INVALID"),
        ("pdr_" + "a" * 12 + "_" + "a" * 52, "KEY_INVALID"),
    ],
)
async def test_without_a_key_that_is_good_no_method_of_the_door_is_answered(
    doors: DoorStage, presented: str, reason: str
) -> None:
    handler = doors.handler(await doors.open())
    handler.metadata = (("authorization", f"Bearer {presented}"),) if presented else ()
    assert await verdicts(handler) == all_methods(reason)
    assert doors.engine.acquired == []


@pytest.mark.parametrize("reason", [Reason.KEY_EXPIRED, Reason.KEY_REVOKED])
async def test_why_a_key_is_refused_is_told_as_the_coordinator_says(
    doors: DoorStage, reason: Reason
) -> None:
    handler = doors.handler(await doors.open())
    (prefix,) = doors.engine.keys.holders
    doors.engine.keys.refusals[prefix] = reason
    assert await verdicts(handler) == all_methods(reason)
    assert doors.engine.keys.checked == [prefix]


async def test_a_key_is_asked_about_once_while_it_is_known(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open(key_cache_seconds=60.0))
    (prefix,) = doors.engine.keys.holders
    doors.engine.keys.holders[prefix].good_for = 60.0
    for _ in range(3):
        await asyncio.gather(*(verdicts(handler) for _ in range(5)))
    assert doors.engine.keys.checked == [prefix]


async def test_a_revoked_key_stops_within_the_seconds_that_its_answer_may_be_kept(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open(key_cache_seconds=60.0))
    (prefix,) = doors.engine.keys.holders
    doors.engine.keys.holders[prefix].good_for = 0.1
    assert await verdicts(handler) == all_methods("")
    doors.engine.keys.refusals[prefix] = Reason.KEY_REVOKED

    async def stopped() -> bool:
        return await verdicts(handler) == all_methods("KEY_REVOKED")

    await eventually(stopped, what="the key stops")


async def test_what_keys_were_used_is_told(doors: DoorStage) -> None:
    door = await doors.open()
    handler = doors.handler(door)
    await verdicts(handler)
    (prefix,) = doors.engine.keys.holders
    assert doors.engine.keys.used == []
    await door.gate_parts.use.tell()
    assert doors.engine.keys.used == [prefix]


async def test_while_the_coordinator_is_away_a_key_is_refused_as_not_known_yet(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open())
    await doors.stage.server.stop()
    outcome = await outcome_of_within(handler, 1.0)
    assert isinstance(outcome, PerdureError)
    assert outcome.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


async def outcome_of_within(handler: Handler, seconds: float) -> Any:
    try:
        return await handler.call("DrainWorker", EMPTY["DrainWorker"], seconds)
    except PerdureError as error:
        return error


async def test_a_flood_with_one_key_is_told_when_to_come_back_and_leaves_others_served(
    doors: DoorStage,
) -> None:
    door = await doors.open()
    key = doors.engine.keys.give(Permission.WORK, rate=0.1, burst=2)
    flood, quiet = doors.handler(door, key=key), doors.handler(door)
    found = [await outcome_of(flood, "DrainWorker", EMPTY["DrainWorker"]) for _ in range(3)]
    assert [refusal(one) for one in found] == ["FIELD_INVALID", "FIELD_INVALID", "RATE_LIMITED"]
    assert 5.0 < found[2].retry_after <= 10.0
    assert await verdicts(quiet) == all_methods("")


async def test_a_key_whose_polls_take_all_its_calls_leaves_others_served(
    doors: DoorStage,
) -> None:
    door = await doors.open(key_calls=2)
    key = doors.engine.keys.give(Permission.WORK)
    greedy, other = doors.handler(door, key=key), doors.handler(door)
    polls = [asyncio.create_task(greedy.poll()) for _ in range(2)]
    await doors.until_announced(2, IO_DEFAULT)
    more = await outcome_of(greedy, "PollTasks", pb.PollTasksRequest(worker_id="w"))
    assert (refusal(more), dict(more.metadata)["cause"]) == ("RATE_LIMITED", "calls at once")
    assert (await other.poll(wait=0.01)).tasks == []
    for poll in polls:
        poll.cancel()


async def test_a_door_without_keys_takes_all_for_its_one_org(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open(auth="off"))
    handler.metadata = ()
    polling = asyncio.create_task(handler.poll())
    await doors.waits(polling, 1, IO_DEFAULT)
    await doors.stage.ready(grant(1))
    assert len((await polling).tasks) == 1
    assert doors.engine.keys.checked == []


async def test_health_is_told_to_everybody_and_says_when_the_door_drains(
    doors: DoorStage,
) -> None:
    door = await doors.open()
    health = health_pb2_grpc.HealthStub(doors.channel(door))
    request = health_pb2.HealthCheckRequest(service=SERVICE)
    assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
    await door.drain()
    assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.NOT_SERVING


CLEANED = frozenset({"message", "note"})
"""What others said, as texts of errors, is cleaned, never refused (R12)."""


@pytest.fixture
async def attacked(doors: DoorStage) -> Attacked:
    channel: grpc.aio.Channel = doors.channel(await doors.open())
    return Attacked(channel, doors.engine.keys.give(Permission.WORK))


def may_pass(method: MethodDescriptor, attack: Attack) -> bool:
    return False


@pytest.mark.parametrize("filled", [False, True], ids=["alone", "beside_names"])
async def test_f102_a_hostile_field_is_refused_and_nobody_is_asked(
    doors: DoorStage, attacked: Attacked, filled: bool
) -> None:
    found = []
    for method in CONTRACT.methods:
        found += await attacked.attacked(method, may_pass, filled=filled)
    cleaned = ("FailTask message", "SettleEffect note")
    found = [problem for problem in found if not problem.startswith(cleaned)]
    assert found == [], "\n".join(found)
    engine = doors.engine
    assert (engine.acquired, engine.reports, engine.renewed, engine.released) == ([], [], [], [])
    assert (engine.begun, engine.settled) == ([], [])


async def test_the_door_tells_everything_that_is_wrong_with_a_request_at_once(
    attacked: Attacked,
) -> None:
    found = [one for m in CONTRACT.methods if (one := await attacked.spoilt(m, CLEANED))]
    assert found == [], "\n".join(found)


async def test_the_door_refuses_bytes_that_are_no_message(attacked: Attacked) -> None:
    found = []
    for method in CONTRACT.methods:
        found += await attacked.malformed(method)
    assert found == [], "\n".join(found)


async def test_f091_the_door_reads_no_message_of_ten_megabytes(attacked: Attacked) -> None:
    assert not await attacked.reads_ten_megabytes(CONTRACT.methods[0])
