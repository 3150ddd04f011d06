from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from perdure_worker import offers, reader
from perdure_worker.config import WorkerConfig
from redis.asyncio import Redis

from tests.integration.worker.door_stage import DoorStage
from tests.integration.worker.fake_engine import FakeEngine, Stage, engine_server

SHORT_BLOCK_MS = 25
SHORT_WAIT_SECONDS = 0.1


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker end soon: a stop waits for the read in flight, and for the offer."""
    monkeypatch.setattr(reader, "BLOCK_MS", SHORT_BLOCK_MS)
    monkeypatch.setattr(offers, "WAIT_SECONDS", SHORT_WAIT_SECONDS)


@pytest.fixture
async def stage(redis_url: str, tmp_path: Path, short_reads: None) -> AsyncIterator[Stage]:
    engine = FakeEngine()
    address = f"unix:{tmp_path / 'engine.sock'}"
    server = engine_server(engine, address)
    await server.start()
    config = WorkerConfig(
        redis_url=redis_url,
        coordinator_address=address,
        queues=("io:default",),
        slots=4,
        egress_allow=("127.0.0.0/8",),
    )
    redis = Redis.from_url(redis_url)
    stage = Stage(engine, server, redis, config)
    yield stage
    for worker in stage.workers:
        await worker.stop()
    await redis.aclose()
    await server.stop()


@pytest.fixture
async def doors(stage: Stage) -> AsyncIterator[DoorStage]:
    opened = DoorStage(stage)
    yield opened
    await opened.close()
