"""How each fail point is reached: most by any run, the rare ones by a trigger of their own."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from collections.abc import Awaitable, Callable
from uuid import UUID

import perdure
from perdure_contracts.v1.lane_service_pb2 import PutLaneRequest
from perdure_contracts.v1.workflow_service_pb2 import MigrateRunsRequest
from perdure_streams.names import GROUP, Queue, StreamName
from perdure_testkit.nemesis import lapse_effects
from perdure_testkit.verdict import assert_nothing_left, ended
from perdure_testkit.waiting import eventually

from tests.crash.connecting import (
    by_blocking,
    by_connecting,
    by_opening_an_account,
    by_repairing,
)
from tests.crash.matrix import Entry
from tests.crash.offering import by_a_run_that_is_waited_for
from tests.crash.people import (
    by_a_budget,
    by_erasing,
    by_looking_up,
    by_making_a_key,
    by_making_a_member,
    by_suppressing,
)
from tests.crash.polling import by_knocking
from tests.crash.publishing import by_handing_over, by_publishing
from tests.crash.stage import RUN_SECONDS, Stage

_START_AGAIN = """
INSERT INTO timers (org, run_id, step, kind, internal, due_at, next_try)
SELECT org, run_id, step, 'start_child', true, clock_timestamp(), clock_timestamp()
  FROM children WHERE run_id = $1
"""

_ABANDON_KEY = "UPDATE exclusive_keys SET holder = NULL WHERE key = 'turns'"

Scenario = Callable[[Stage, Entry], Awaitable[None]]

_LEADS = """
SELECT FROM leaders WHERE split_part(duty, ':', 1) = $1 AND expires_at > clock_timestamp()
"""


async def by_a_run(stage: Stage, entry: Entry) -> None:
    """A run comes by between its start and its end."""
    stage.arm(entry)
    starting = asyncio.create_task(stage.tours.start())
    await stage.crash(entry)
    await stage.tours.assert_completed([await starting])


async def by_a_run_and_by_its_effect(stage: Stage, entry: Entry) -> None:
    """A run comes by at its first step, another with the result of its outside call (R8)."""
    await by_a_run(stage, entry)
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    stage.tours.let_go()
    await stage.crash(entry)
    await stage.tours.assert_completed([tour])


async def while_a_run_goes_on(stage: Stage, entry: Entry) -> None:
    """The owner comes by again and again without being asked; here in the middle of a run."""
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    await stage.died(entry)
    stage.tours.let_go()
    await stage.start_again(entry.owner)
    await stage.tours.assert_completed([tour])


async def by_a_child(stage: Stage, entry: Entry) -> None:
    """A run starts another, of which nobody may start a second."""
    run_id, own, inside = await stage.start_parent()
    stage.arm(entry)
    own.let_go()
    await stage.crash(entry)
    inside.let_go()
    await stage.ends_with_one_child(run_id)


async def by_a_run_and_by_a_child(stage: Stage, entry: Entry) -> None:
    """A run comes by at its start, and another at the start of its child."""
    await by_a_run(stage, entry)
    await by_a_child(stage, entry)


async def by_a_run_its_effect_and_a_childs_end(stage: Stage, entry: Entry) -> None:
    """What a child's end leaves for its parent is committed with it."""
    await by_a_run_and_by_its_effect(stage, entry)
    run_id, own, inside = await stage.start_parent()
    own.let_go()
    await inside.wait_running()
    stage.arm(entry)
    inside.let_go()
    await stage.crash(entry)
    await stage.ends_with_one_child(run_id)


async def by_forgoing(stage: Stage, entry: Entry) -> None:
    """The start of a child is delivered to a parent that has ended."""
    run_id, own, inside = await stage.start_parent()
    own.let_go()
    inside.let_go()
    await stage.ends_with_one_child(run_id)
    stage.arm(entry)
    await stage.place.execute(_START_AGAIN, UUID(run_id))
    await stage.crash(entry)
    await stage.ends_with_one_child(run_id)


async def by_renewing(stage: Stage, entry: Entry) -> None:
    """A step outlives its hand-out, so its lease is renewed."""
    run_id, holding = await stage.start_holding()
    stage.arm(entry)
    await stage.crash(entry)
    holding.let_go()
    await stage.ends(run_id)


async def by_migrating(stage: Stage, entry: Entry) -> None:
    """A run is moved to a version with one more node while a worker holds its step."""
    name = f"migrated_{uuid.uuid4().hex[:8]}"
    nodes: dict[str, object] = {"hold": {"task": {"handler": "test.hold"}}}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    run_id, holding = await stage.start_holding(name)
    more = {**nodes, "last": {"needs": ["hold"], "task": {"handler": "test.echo"}}}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": more}))
    stage.arm(entry)
    request = MigrateRunsRequest(workflow=name, from_version=1, to_version=2)
    migrating = asyncio.create_task(stage.client.migrations.begin(request))
    await stage.crash(entry)
    migration_id = (await migrating).migration_id
    await eventually(lambda: _is_over(stage, migration_id), what="every run had its turn")
    holding.let_go()
    await stage.ends(run_id)
    run = await stage.client.get_run(run_id)
    assert (run.workflow_version, len(run.steps)) == (2, 2)


async def by_changing_a_lane(stage: Stage, entry: Entry) -> None:
    """An operator makes a lane; it is told once however often that is asked."""
    name = f"lane-{uuid.uuid4().hex[:8]}"
    request = PutLaneRequest(lane=name, shards=2)
    stage.arm(entry)
    changing = asyncio.create_task(stage.client.lanes.put(request))
    await stage.crash(entry)
    assert (await changing).lane.shards == 2
    told = await stage.place.fetch("SELECT action FROM audit_log WHERE target = $1", name)
    assert [row["action"] for row in told] == ["lane.put"]
    await stage.client.lanes.delete(name)


async def _is_over(stage: Stage, migration_id: str) -> bool:
    migration = await stage.client.migrations.get(migration_id)
    return migration.HasField("all_sent_at") and migration.migrated == 1


async def by_an_effect(stage: Stage, entry: Entry) -> None:
    """A handler begins an effect that is looked up, and settles it: it is performed once (p4)."""
    stage.arm(entry)
    run_id, made = await stage.start_effect()
    await stage.died(entry)
    await lapse_effects(stage.place)
    await stage.start_again(entry.owner)
    await stage.ends(run_id)
    assert made.read_text().splitlines() == [f"{run_id}/make/make"]


async def by_deciding(stage: Stage, entry: Entry) -> None:
    """A person decides about an effect: once, whoever was told."""
    run_id, key = await stage.start_doubt()
    stage.arm(entry)
    deciding = asyncio.create_task(stage.client.effects.settle(key, {"n": 1}, asked_by="ada"))
    await stage.crash(entry)
    await deciding
    await stage.ends(run_id)
    assert len((await stage.client.effects.get(key)).decisions) == 1
    assert json.loads((await stage.client.get_run(run_id)).steps[0].output) == {"n": 1}


async def by_cancelling(stage: Stage, entry: Entry) -> None:
    """A run is cancelled in the middle of its outside call."""
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    cancelling = asyncio.create_task(stage.client.cancel_run(tour.run_id))
    await stage.crash(entry)
    await cancelling
    stage.tours.let_go()
    run = await ended(stage.client, stage.place, tour.run_id, within=RUN_SECONDS)
    assert run.status == perdure.RunStatus.RUN_STATUS_CANCELLED
    await assert_nothing_left(stage.place)


async def by_signalling(stage: Stage, entry: Entry) -> None:
    """A run waits on a key and is signalled by it, once however often that is repeated (p6)."""
    run_id, key = await stage.start_awaiting()
    stage.arm(entry)
    signalling = asyncio.create_task(stage.client.signal_key(key, "go", signal_id=key))
    await stage.crash(entry)
    await signalling
    await stage.ends(run_id)


async def by_a_signal_that_was_not_delivered(stage: Stage, entry: Entry) -> None:
    """A coordinator died between the two steps of a signal by key, and nobody repeats the call."""
    run_id, key = await stage.start_awaiting()
    stage.arm(entry)
    await stage.place.execute(_STORE_SIGNAL, UUID(run_id), key)
    await stage.crash(entry)
    await stage.ends(run_id)


async def by_terminating(stage: Stage, entry: Entry) -> None:
    """A run is terminated in the middle of its outside call."""
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    terminating = asyncio.create_task(stage.client.terminate_run(tour.run_id))
    await stage.crash(entry)
    await terminating
    stage.tours.let_go()
    run = await ended(stage.client, stage.place, tour.run_id, within=RUN_SECONDS)
    assert run.status == perdure.RunStatus.RUN_STATUS_CANCELLED
    await assert_nothing_left(stage.place)


async def by_replaying(stage: Stage, entry: Entry) -> None:
    """A dead letter is replayed by filter; its run is retried once, however often that is asked."""
    name = f"refused_{uuid.uuid4().hex[:8]}"
    node = {"task": {"handler": "test.refuse", "input": {"message": "no"}}}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": {"only": node}}))
    run_id = (await stage.client.start_run(name)).run_id
    await ended(stage.client, stage.place, run_id, within=RUN_SECONDS)
    stage.arm(entry)
    replaying = asyncio.create_task(stage.client.replay_dead_letters(workflow=name))
    await stage.crash(entry)
    assert (await replaying).replayed <= 1
    await eventually(lambda: _was_retried(stage, run_id), what="the run was retried")
    await ended(stage.client, stage.place, run_id, within=RUN_SECONDS)
    await assert_nothing_left(stage.place)


async def by_growing_too_old(stage: Stage, entry: Entry) -> None:
    """A run passes its age limit in the middle of its outside call."""
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    await stage.place.execute(
        "UPDATE runs SET age_at = clock_timestamp() WHERE run_id = $1", UUID(tour.run_id)
    )
    await stage.crash(entry)
    run = await ended(stage.client, stage.place, tour.run_id, within=RUN_SECONDS)
    assert run.status == perdure.RunStatus.RUN_STATUS_TIMED_OUT
    stage.tours.let_go()
    await assert_nothing_left(stage.place)


async def by_every_event(stage: Stage, entry: Entry) -> None:
    """What runs leave for each other is committed with their ends: by children, by turns."""
    await by_a_run_its_effect_and_a_childs_end(stage, entry)
    first, ahead, second, behind = await stage.start_turns()
    stage.arm(entry)
    ahead.let_go()
    await stage.crash(entry)
    await ended(stage.client, stage.place, first, within=RUN_SECONDS)
    await behind.wait_running()
    behind.let_go()
    await stage.ends(second)


async def by_a_lost_hand_over(stage: Stage, entry: Entry) -> None:
    """A run waits for an exclusive key that nobody has any more."""
    first, ahead, second, behind = await stage.start_turns()
    stage.arm(entry)
    await stage.place.execute(_ABANDON_KEY)
    await stage.crash(entry)
    await behind.wait_running()
    for holding in (ahead, behind):
        holding.let_go()
    await ended(stage.client, stage.place, first, within=RUN_SECONDS)
    await stage.ends(second)


async def by_starting(stage: Stage, entry: Entry) -> None:
    """The owner comes by when it starts."""
    await stage.engine.supervisor.stop(entry.owner)
    tour = await stage.tours.start()
    stage.arm(entry)
    await stage.engine.supervisor.start(entry.owner, ready=False)
    await stage.crash(entry)
    await stage.tours.assert_completed([tour])


async def by_stopping(stage: Stage, entry: Entry) -> None:
    """The owner, which leads, comes by when it stops, here in the middle of a run."""
    await eventually(lambda: _leads(stage, entry.owner), what=f"{entry.owner} leads")
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    await stage.stop_dies(entry)
    stage.tours.let_go()
    await stage.start_again(entry.owner)
    await stage.tours.assert_completed([tour])


async def by_releasing(stage: Stage, entry: Entry) -> None:
    """A worker is told to stop while a step runs for longer than it may drain."""
    run_id, holding = await stage.start_holding()
    stage.arm(entry)
    await stage.stop_dies(entry)
    holding.let_go()
    await stage.start_again(entry.owner)
    await stage.ends(run_id)


async def by_a_lost_entry(stage: Stage, entry: Entry) -> None:
    """Redis forgets an entry that was sent and not leased; the worker sees it only afterwards."""
    stage.engine.send_signal("worker", signal.SIGSTOP)
    tour = await stage.tours.start()
    await eventually(lambda: _is_sent(stage, tour.run_id), what="the first step was sent")
    stage.arm(entry)
    await _forget_everything(stage)
    await stage.died(entry)
    stage.engine.send_signal("worker", signal.SIGCONT)
    await stage.start_again(entry.owner)
    await stage.tours.assert_completed([tour])


async def by_a_lost_memory(stage: Stage, entry: Entry) -> None:
    """Redis forgets everything before a run begins, so that it is to remember anew."""
    stage.arm(entry)
    await _forget_everything(stage)
    tour = await stage.tours.start()
    await stage.crash(entry)
    await stage.tours.assert_completed([tour])


async def by_orphaning(stage: Stage, entry: Entry) -> None:
    """An entry is delivered to a consumer that is then deleted, so it is pending with nobody."""
    stage.engine.send_signal("worker", signal.SIGSTOP)
    tour = await stage.tours.start()
    await eventually(lambda: _is_sent(stage, tour.run_id), what="the first step was sent")
    stage.arm(entry)
    await _delete_consumers(stage)
    await stage.died(entry)
    stage.engine.send_signal("worker", signal.SIGCONT)
    await stage.start_again(entry.owner)
    await stage.tours.assert_completed([tour])


async def by_a_timer_of_nothing(stage: Stage, entry: Entry) -> None:
    """A timer is due whose run does not exist."""
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    await _set_internal_timer(stage, uuid.uuid4(), b"[]")
    await stage.crash(entry)
    stage.tours.let_go()
    await stage.tours.assert_completed([tour])


async def by_a_broken_timer(stage: Stage, entry: Entry) -> None:
    """An internal event cannot be delivered: it is put off, and the run goes on beside it."""
    tour = await stage.tours.start_held_open()
    stage.arm(entry)
    await _set_internal_timer(stage, UUID(tour.run_id), b"broken")
    await stage.crash(entry)
    await stage.place.execute("DELETE FROM timers WHERE details = 'broken'")
    stage.tours.let_go()
    await stage.tours.assert_completed([tour])


_STORE_SIGNAL = """
INSERT INTO signals (org, run_id, correlation_key, signal_id, name, data, seen, received_at)
VALUES ('default', $1, $2, 's', 'go', 'null', false, clock_timestamp())
"""


async def _was_retried(stage: Stage, run_id: str) -> bool:
    lines = [line.kind async for line in stage.client.history(run_id)]
    return "run_retried" in lines


async def _is_sent(stage: Stage, run_id: str) -> bool:
    rows = await stage.place.fetch(
        "SELECT FROM outbox WHERE run_id = $1 AND state = 'sent'", UUID(run_id)
    )
    return bool(rows)


async def _forget_everything(stage: Stage) -> None:
    async with stage.place.redis() as redis:
        await redis.flushdb()


async def _delete_consumers(stage: Stage) -> None:
    """Deliver what is in the stream to somebody, then delete whoever holds anything."""
    stream = str(StreamName(Queue("io", "default"), 0))
    async with stage.place.redis() as redis:
        await redis.xreadgroup(GROUP, "somebody", {stream: ">"})
        for consumer in await redis.xinfo_consumers(stream, GROUP):
            await redis.xgroup_delconsumer(stream, GROUP, consumer["name"])


async def _leads(stage: Stage, service: str) -> bool:
    return bool(await stage.place.fetch(_LEADS, service))


async def _set_internal_timer(stage: Stage, run_id: UUID, details: bytes) -> None:
    await stage.place.execute(
        "INSERT INTO timers (org, run_id, kind, internal, due_at, next_try, details)"
        " VALUES ('default', $1, 'advance', true, clock_timestamp(), clock_timestamp(), $2)",
        run_id,
        details,
    )


SCENARIOS: dict[str, Scenario] = {
    "coordinator.hand_out": by_a_run_that_is_waited_for,
    "coordinator.notify": by_a_run,
    "coordinator.tell_of_child": by_a_child,
    "ingest.cancel_run": by_cancelling,
    "ingest.change_suppression": by_suppressing,
    "ingest.check_suppression": by_looking_up,
    "ingest.command_connection": by_repairing,
    "ingest.command_run": by_terminating,
    "ingest.change_lanes": by_changing_a_lane,
    "ingest.erase_subject": by_erasing,
    "ingest.put_budget": by_a_budget,
    "ingest.change_keys": by_making_a_member,
    "ingest.decide_effect": by_deciding,
    "ingest.migrate_runs": by_migrating,
    "ingest.put_connection": by_connecting,
    "ingest.publish_workflow": by_publishing,
    "ingest.replay_dead_letters": by_replaying,
    "ingest.signal": by_signalling,
    "ingest.start_run": by_a_run,
    "store.acquire_leadership": while_a_run_goes_on,
    "store.commit_causes": by_connecting,
    "store.commit_connections": by_connecting,
    "store.commit_drop_free_keys": while_a_run_goes_on,
    "store.commit_drop_keys": while_a_run_goes_on,
    "store.commit_drop_orphans": by_a_timer_of_nothing,
    "store.commit_budget": by_a_budget,
    "store.commit_key": by_making_a_key,
    "store.commit_member": by_making_a_member,
    "store.commit_erasure": by_erasing,
    "store.commit_erasure_cursor": by_erasing,
    "store.commit_events": by_every_event,
    "store.commit_forgoing": by_forgoing,
    "store.commit_drop_signals": while_a_run_goes_on,
    "store.commit_lane": by_changing_a_lane,
    "store.commit_migration": by_migrating,
    "store.commit_migration_cursor": by_migrating,
    "store.commit_months": while_a_run_goes_on,
    "store.commit_publish": by_publishing,
    "store.commit_put_off": by_a_broken_timer,
    "store.commit_renewals": by_renewing,
    "store.commit_replays": by_replaying,
    "store.commit_starts": by_a_run_and_by_a_child,
    "store.commit_signals": by_signalling,
    "store.commit_suppression": by_suppressing,
    "store.outbox_mark_sent": by_a_run,
    "store.outbox_ready_again": by_a_lost_entry,
    "store.release_leadership": by_stopping,
    "store.write_hand_overs": by_handing_over,
    "streams.drop_orphans": by_orphaning,
    "streams.remember": by_a_lost_memory,
    "streams.settle": by_a_run,
    "streams.xadd": by_a_run,
    "streams.xautoclaim": while_a_run_goes_on,
    "streams.xreadgroup": by_a_run,
    "sweeper.deliver_signals": by_a_signal_that_was_not_delivered,
    "sweeper.begin_runs": by_a_lost_hand_over,
    "sweeper.expire_leases": while_a_run_goes_on,
    "sweeper.expire_runs": by_growing_too_old,
    "sweeper.sweep_connections": by_blocking,
    "timer.fire_timers": by_a_run,
    "worker.acquire_lease": by_a_run,
    "worker.await_step": while_a_run_goes_on,
    "worker.ask_about_keys": by_knocking,
    "worker.begin_effect": by_an_effect,
    "worker.list_lanes": by_starting,
    "worker.open_connection": by_opening_an_account,
    "worker.release_lease": by_releasing,
    "worker.renew_lease": by_renewing,
    "worker.report_result": by_a_run_and_by_its_effect,
    "worker.settle_effect": by_an_effect,
}
