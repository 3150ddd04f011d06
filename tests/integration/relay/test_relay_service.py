"""The relay as it runs: loops, wake-ups, readiness."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from perdure_relay.config import RelayConfig
from perdure_relay.service import CHANNEL, RelayService
from perdure_runtime.errors import FailedPrecondition
from perdure_runtime.ops import OpsServer
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Consumer
from perdure_streams.names import Queue, StreamName
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox
from perdure_testkit.waiting import eventually
from redis.asyncio import Redis

NEVER = 5.0
"""The longest poll that can be set: who gets something before it was woken."""

Start = Callable[..., Awaitable[OpsServer]]


@pytest.fixture
async def start(database: Database, redis_url: str) -> AsyncIterator[Start]:
    """Starts a relay whose settings the test may change; returns its ops port."""
    running: list[RelayService | OpsServer] = []

    async def run(**settings: object) -> OpsServer:
        values = {
            "database_url": database.url("relay"),
            "redis_url": redis_url,
            "ops_port": 0,
            **settings,
        }
        ops = OpsServer("127.0.0.1", 0)
        ops.starting = False
        service = RelayService(RelayConfig(**values), ops)  # type: ignore[arg-type]
        await service.start()
        await ops.start()
        running.extend([service, ops])
        return ops

    yield run
    for service in running:
        await service.stop()


async def readiness(ops: OpsServer) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", ops.port)
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return answer


async def listeners(database: Database) -> int:
    admin = await database.connect()
    count: int = await admin.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'perdure-relay-listen' AND query LIKE 'LISTEN%'"
    )
    return count


async def test_a_row_reaches_a_worker_that_announced_itself(
    start: Start, outbox: Outbox, announcer: Announcer, io: Queue, stream: StreamName, client: Redis
) -> None:
    await start()
    await announcer.announce({io: 1})
    await outbox.add()
    consumer = Consumer(client, [stream], "worker")
    assert len(await consumer.read(1, 2000) or await consumer.read(1, 2000)) == 1


async def test_f072_a_freed_slot_is_filled_without_waiting_for_the_tick(
    start: Start, outbox: Outbox, announcer: Announcer, io: Queue, stream: StreamName, client: Redis
) -> None:
    await outbox.add()
    await start(poll_seconds=NEVER)
    consumer = Consumer(client, [stream], "worker")
    assert await consumer.read(1, 100) == []
    async with asyncio.timeout(NEVER / 2):
        await announcer.announce({io: 1})
        assert len(await consumer.read(1, 2000)) == 1


async def test_p7_a_notification_makes_the_relay_look_at_once(
    start: Start, outbox: Outbox, announcer: Announcer, io: Queue, stream: StreamName,
    client: Redis, database: Database,
) -> None:  # fmt: skip
    await announcer.announce({io: 1})
    await start(poll_seconds=NEVER)
    await eventually(lambda: listeners(database))
    consumer = Consumer(client, [stream], "worker")
    async with asyncio.timeout(NEVER / 2):
        await outbox.add()
        await outbox.connection.execute(f"NOTIFY {CHANNEL}")
        assert len(await consumer.read(1, 2000)) == 1


async def test_f077_f080_a_deaf_connection_is_found_out_and_polling_goes_on(
    start: Start, outbox: Outbox, announcer: Announcer, io: Queue, stream: StreamName,
    client: Redis, empty_database: Database, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    # A session of another database listens and never hears, as one behind a pooler does.
    await start(database_direct_url=empty_database.url())
    await announcer.announce({io: 1})
    await outbox.add()
    consumer = Consumer(client, [stream], "worker")
    assert len(await consumer.read(1, 2000) or await consumer.read(1, 2000)) == 1
    await eventually(lambda: any(record.message == "loop.failed" for record in caplog.records))
    assert await listeners(empty_database) == 0


async def test_f078_a_relay_whose_listening_connection_broke_looks_when_it_is_back(
    start: Start, outbox: Outbox, announcer: Announcer, io: Queue, stream: StreamName,
    client: Redis, database: Database,
) -> None:  # fmt: skip
    await announcer.announce({io: 1})
    await start(poll_seconds=NEVER)
    await eventually(lambda: listeners(database))
    await outbox.add()
    consumer = Consumer(client, [stream], "worker")
    async with asyncio.timeout(NEVER / 2):
        await (await database.connect()).fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'perdure-relay-listen'"
        )
        assert len(await consumer.read(1, 2000)) == 1


async def test_the_relay_is_ready_while_both_servers_answer(
    start: Start, database: Database
) -> None:
    ops = await start()
    assert "200 OK" in (await readiness(ops)).splitlines()[0]
    admin = await database.connect()
    await admin.execute("DELETE FROM schema_migrations")
    answer = await readiness(ops)
    assert "503" in answer.splitlines()[0]
    assert "SCHEMA_MISMATCH" in answer


async def test_a_database_without_the_schema_is_refused_at_start(
    start: Start, empty_database: Database
) -> None:
    with pytest.raises(FailedPrecondition, match="migrations"):
        await start(database_url=empty_database.url())


async def test_ages_of_what_waits_are_published(
    start: Start, outbox: Outbox, database: Database
) -> None:
    await outbox.add()
    admin = await database.connect()
    await admin.execute("UPDATE outbox SET created_at = created_at - interval '1 hour'")
    ops = await start()

    async def shown() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", ops.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        ages = [line for line in text.splitlines() if line.startswith("perdure_relay_oldest_ready")]
        return any('lane="io"' in line and float(line.split()[-1]) > 3599 for line in ages)

    await eventually(shown)
