import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from perdure_streams.names import Queue
from perdure_testkit.waiting import eventually

from tests.integration.worker.fake_engine import Stage, grant

HANDLERS = """
import threading
import perdure

handlers = perdure.Handlers()

@handlers.handler("work")
def work(given, ctx):
    return {"key": ctx.key_prefix}

@handlers.handler("hang")
def hang(given, ctx):
    open(given["begun"], "w").close()
    threading.Event().wait()
"""


@asynccontextmanager
async def worker_process(stage: Stage, folder: Path, **settings: str) -> AsyncIterator[Process]:
    environ = {
        "PERDURE_REDIS_URL": stage.config.redis_url,
        "PERDURE_COORDINATOR_ADDRESS": stage.config.coordinator_address,
        "PERDURE_WORKER_NAME": "own-process",
        "PERDURE_OPS_PORT": "0",
        "PYTHONPATH": str(folder),
        **settings,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure_worker", env=environ, stdout=DEVNULL, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_handlers.py").write_text(HANDLERS)
    return tmp_path


async def test_f065_f067_a_worker_process_serves_its_handlers_and_ends_when_told(
    stage: Stage, folder: Path
) -> None:
    async with worker_process(
        stage, folder, PERDURE_WORKER_HANDLERS="my_handlers", PERDURE_WORKER_QUEUES="io:default"
    ) as process:
        report = await stage.one_result(grant())
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
    assert process.returncode == 0, log.decode()
    assert report.output == b'{"key": "%s/node1"}' % report.lease.run_id.encode()
    await stage.until_empty()


async def test_f067_a_handler_that_hangs_is_released_and_its_process_ends(
    stage: Stage, folder: Path
) -> None:
    begun = folder / "begun"
    async with worker_process(
        stage,
        folder,
        PERDURE_WORKER_HANDLERS="my_handlers",
        PERDURE_WORKER_QUEUES="io:default",
        PERDURE_DRAIN_SECONDS="0.2",
    ) as process:
        data = json.dumps({"begun": str(begun)}).encode()
        await stage.ready(grant(handler="hang", input=data))
        await eventually(begun.exists)
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
    assert process.returncode == 0, log.decode()
    assert [lease.step for lease in stage.engine.released] == [1]


async def test_a_handlers_module_that_cannot_be_imported_is_named_with_what_to_do(
    stage: Stage, folder: Path
) -> None:
    (folder / "broken_handlers.py").write_text("import nowhere_to_be_found\n")
    async with worker_process(stage, folder, PERDURE_WORKER_HANDLERS="broken_handlers") as process:
        _, log = await process.communicate()
    assert process.returncode == 1
    text = log.decode()
    assert "broken_handlers cannot be imported: ModuleNotFoundError" in text
    assert "broken_handlers.py:1" in text
    assert "check the spelling" in text


async def test_a_worker_without_handlers_leaves_the_queues_of_orgs_to_others(
    stage: Stage, folder: Path
) -> None:
    shared, own = Queue("io", "shared"), Queue("io", "default")
    async with worker_process(stage, folder):

        async def announced() -> bool:
            return bool(await stage.redis.exists(shared.free_key("own-process")))

        look: Callable[[], bool | Awaitable[bool]] = announced
        await eventually(look)
        assert not await stage.redis.exists(own.free_key("own-process"))
