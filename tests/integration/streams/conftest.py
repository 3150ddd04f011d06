from collections.abc import AsyncIterator

import pytest
from perdure_streams.client import open_streams
from redis.asyncio import Redis


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    client = await open_streams(redis_url, client_name="test")
    yield client
    await client.aclose()
