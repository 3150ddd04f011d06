from pathlib import Path

import redis.asyncio as redis
from perdure_stack.valkey import EmbeddedValkey


async def add(server: EmbeddedValkey) -> None:
    async with redis.Redis.from_url(server.url) as client:
        await client.xadd("stream", {"step": "1"})


async def length(server: EmbeddedValkey) -> int:
    async with redis.Redis.from_url(server.url) as client:
        return int(await client.xlen("stream"))


async def test_durable_streams_survive_a_kill_and_end_only_when_asked(place: Path) -> None:
    server = EmbeddedValkey(place / "valkey")
    await server.start()
    await add(server)
    address = server.url
    await server.restart()
    assert await length(server) == 1
    await add(server)
    await server.kill()
    assert not server.is_running
    await server.start()
    assert (server.url, await length(server)) == (address, 2)

    await server.restart_empty()

    assert (server.url, await length(server)) == (address, 0)
    await server.destroy()
    assert not (place / "valkey").exists()


async def test_without_durability_a_restart_forgets_and_nothing_is_ever_evicted(
    place: Path,
) -> None:
    server = EmbeddedValkey(place / "valkey", durable=False)
    await server.start()
    await server.start()
    async with redis.Redis.from_url(server.url, decode_responses=True) as client:
        policy = await client.config_get("maxmemory-policy")
        bound = await client.config_get("bind")
    assert policy == {"maxmemory-policy": "noeviction"}
    assert bound == {"bind": "127.0.0.1"}
    await add(server)
    await server.restart()
    assert await length(server) == 0
    await server.destroy()
