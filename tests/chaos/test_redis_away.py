"""Redis forgets, dies or freezes in mid-run; what was sent and lost is sent again (protocol p2)."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from perdure_stack.valkey import EmbeddedValkey
from perdure_streams.names import GROUP
from perdure_testkit.waiting import eventually
from redis.asyncio import Redis

from tests.chaos.rig import Rig

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

SHORT, MINUTE = 3.0, 60.0
WORKERS = ("worker", "worker-2")

Loss = Callable[[Redis, Any], Awaitable[object]]

LOSSES: dict[str, Loss] = {
    "evicted-streams-f086": lambda client, stream: client.delete(stream),
    "trimmed-entries-f083": lambda client, stream: client.xtrim(stream, maxlen=0),
    "destroyed-groups-f089": lambda client, stream: client.xgroup_destroy(stream, GROUP),
}


@pytest_asyncio.fixture(loop_scope="session")
async def valkey(rig: Rig) -> AsyncIterator[EmbeddedValkey]:
    """The server, which runs again after the test whatever became of it."""
    yield rig.valkey
    rig.tours.let_go()
    if rig.valkey.pid is not None:
        os.kill(rig.valkey.pid, signal.SIGCONT)
    _signal_workers(rig, signal.SIGCONT)
    await rig.valkey.start()


async def test_runs_end_though_redis_was_flushed_p2_f087(rig: Rig, valkey: EmbeddedValkey) -> None:
    runs = await rig.start_runs()

    async with rig.place.redis() as client:
        await client.flushall()

    await rig.all_complete([*runs, *await rig.start_more()])


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
async def test_runs_end_though_redis_lost_a_part_of_what_it_was_sent_p2(
    rig: Rig, valkey: EmbeddedValkey, lose: Loss
) -> None:
    _signal_workers(rig, signal.SIGSTOP)
    runs = await rig.start_more()
    await eventually(lambda: _are_sent(rig), what="entries wait for workers")

    async with rig.place.redis() as client:
        for stream in [key async for key in client.scan_iter("perdure:*", _type="stream")]:
            await lose(client, stream)
    _signal_workers(rig, signal.SIGCONT)

    await rig.all_complete(runs)


async def test_runs_end_though_redis_died_and_came_back_empty_p2_f086_f087_f089(
    rig: Rig, valkey: EmbeddedValkey
) -> None:
    runs = await rig.start_runs()

    await valkey.kill()
    runs += await rig.start_more()
    await valkey.restart_empty()

    await rig.all_complete(runs)


async def test_runs_end_though_redis_died_and_kept_what_it_had(
    rig: Rig, valkey: EmbeddedValkey
) -> None:
    runs = await rig.start_runs()

    await valkey.kill()
    runs += await rig.start_more()
    await valkey.start()

    await rig.all_complete(runs)


async def test_runs_end_though_redis_was_stopped_for_a_while(
    rig: Rig, valkey: EmbeddedValkey
) -> None:
    await _outage(rig, valkey.stop, valkey.start, SHORT)


async def test_runs_end_though_redis_stood_still_for_a_while(
    rig: Rig, valkey: EmbeddedValkey
) -> None:
    await _outage(rig, _signal(valkey, signal.SIGSTOP), _signal(valkey, signal.SIGCONT), SHORT)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_runs_end_though_redis_was_stopped_for_a_minute(
    rig: Rig, valkey: EmbeddedValkey
) -> None:
    await _outage(rig, valkey.stop, valkey.start, MINUTE)


async def _outage(
    rig: Rig,
    begin: Callable[[], Awaitable[object]],
    end: Callable[[], Awaitable[object]],
    seconds: float,
) -> None:
    """Take Redis away; a run that is started then cannot end before it is back."""
    runs = await rig.start_runs()
    await begin()
    runs += await rig.start_more()
    with pytest.raises(TimeoutError):
        await rig.engine.client.wait_run(runs[-1].run_id, seconds)
    await end()
    await rig.all_complete(runs)


def _signal(server: EmbeddedValkey, number: signal.Signals) -> Callable[[], Awaitable[None]]:
    async def send() -> None:
        assert server.pid is not None
        os.kill(server.pid, number)

    return send


def _signal_workers(rig: Rig, number: signal.Signals) -> None:
    for name in WORKERS:
        rig.engine.send_signal(name, number)


async def _are_sent(rig: Rig) -> bool:
    return bool(await rig.place.fetch("SELECT FROM outbox WHERE state = 'sent'"))
