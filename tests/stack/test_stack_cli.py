import asyncio
import signal
import sys
from pathlib import Path


async def command(
    env: dict[str, str], *arguments: str
) -> tuple[asyncio.subprocess.Process, asyncio.StreamReader]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure_stack", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
    )
    assert process.stdout is not None
    return process, process.stdout


async def run(env: dict[str, str], *arguments: str) -> tuple[int, str]:
    process, output = await command(env, *arguments)
    said = await asyncio.wait_for(output.read(), 60)
    return await process.wait(), said.decode()


async def test_up_serves_until_down_and_status_tells_how_it_is(
    place: Path, fake_perdure: dict[str, str]
) -> None:
    where = ("--dir", str(place / "stack"))
    stack, output = await command(fake_perdure, "up", "--free-ports", *where)
    first = (await asyncio.wait_for(output.readline(), 60)).decode()
    assert first == f"Perdure runs (process {stack.pid}):\n"

    code, said = await run(fake_perdure, "status", *where)
    assert code == 0
    assert said.count(" ready\n") == 6
    code, said = await run(fake_perdure, "up", "--free-ports", *where)
    assert code == 1
    assert said.startswith("what: a stack already runs in this directory\nwhere: ")

    assert await run(fake_perdure, "down", *where) == (0, "stopped\n")
    assert await stack.wait() == 0
    assert (await output.read()).decode().endswith("stopped\n")
    assert await run(fake_perdure, "status", *where) == (1, "no stack runs here\n")


async def test_a_killed_stack_comes_up_again_in_its_directory_and_ends_by_ctrl_c(
    place: Path, fake_perdure: dict[str, str]
) -> None:
    where = ("--free-ports", "--dir", str(place / "stack"))
    stack, output = await command(fake_perdure, "up", *where)
    assert b"Perdure runs" in await asyncio.wait_for(output.readline(), 60)
    stack.kill()
    assert await asyncio.wait_for(stack.wait(), 60) == -signal.SIGKILL

    again, output = await command(fake_perdure, "up", *where)
    assert b"Perdure runs" in await asyncio.wait_for(output.readline(), 60)
    again.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(again.wait(), 60) == 0
