"""`python -m perdure_ingest`: ready when database and coordinator answer, gone when told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest
from perdure import Client
from perdure_ingest.config import IngestConfig
from perdure_runtime.errors import InvalidArgument
from perdure_stack.ports import free_ports
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually


async def get(port: int, path: str) -> tuple[int, dict[str, str]]:
    """Return status and body of a GET; status 0 when nobody listens yet."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, {}
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def test_a_process_becomes_ready_serves_and_drains(
    database: Database, coordinator: Any, rows: Any, api_key: str
) -> None:
    port, ops_port = free_ports(2)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "perdure_ingest",
        env={
            **os.environ,
            "PERDURE_DATABASE_URL": database.url("ingest"),
            "PERDURE_COORDINATOR_ADDRESS": f"127.0.0.1:{coordinator.port}",
            "PERDURE_INGEST_GRPC_PORT": str(port),
            "PERDURE_INGEST_HTTP_PORT": "0",
            "PERDURE_INGEST_OPS_PORT": str(ops_port),
        },
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def is_ready() -> bool:
        status, checks = await get(ops_port, "/readyz")
        return status == 200 and checks == {"database": "ok", "coordinator": "ok"}

    try:
        await eventually(is_ready, within=30)
        run_id = await rows.waiting_run()
        async with Client(f"127.0.0.1:{port}", api_key=api_key) as client:
            changes = client.watch_run(str(run_id))
            await anext(changes)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 20) == 0
            await changes.aclose()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"org": ""}, "org"),
        ({"page_token_key": "short"}, "page_token_key"),
        ({"watch_limit": 2000}, "watch_limit"),
        ({"database_url": "mysql://x"}, "database_url"),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        IngestConfig(**({"database_url": "postgresql://x"} | changes))
    assert [violation.field for violation in caught.value.violations] == [field]
