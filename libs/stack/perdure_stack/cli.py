"""``python -m perdure_stack``: bring a stack up in the foreground, take it down, ask how it is."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from perdure_stack.backends import without_secret
from perdure_stack.errors import StackError
from perdure_stack.readiness import answers_ok
from perdure_stack.record import StackRecord, remove_record, stack_runs
from perdure_stack.stack import DEFAULT_DIRECTORY, KEY_FILE, DevStack

DOWN_TIMEOUT = 90.0  # seconds
OK, FAILED = 0, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        status: int = asyncio.run(options.run(options))
    except StackError as error:
        print(error, file=sys.stderr)
        return FAILED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perdure_stack", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a stack and run it until Ctrl-C")
    up.add_argument("--free-ports", action="store_true", help="take any free ports")
    up.add_argument("--workers", type=int, default=1, help="worker processes (default 1)")
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="stop the stack that runs in the directory")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="tell which services are ready")
    status.set_defaults(run=_status)
    for command in (up, down, status):
        command.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="its files' place")
    return parser


async def _up(options: argparse.Namespace) -> int:
    running = asyncio.ensure_future(_run_stack(options))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        print("stopped", flush=True)
    return OK


async def _run_stack(options: argparse.Namespace) -> None:
    stack = DevStack(options.dir, free_ports=options.free_ports, workers=options.workers)
    async with stack:
        print(_describe(stack.record, stack.directory), flush=True)
        await asyncio.Event().wait()


async def _down(options: argparse.Namespace) -> int:
    record = StackRecord.read(options.dir)
    if record is None:
        remove_record(options.dir)
        print("no stack runs here")
        return OK
    os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_TIMEOUT
    while stack_runs(options.dir):
        if time.monotonic() > deadline:
            raise StackError(
                f"the stack has not ended within {DOWN_TIMEOUT:g} s",
                f"process {record.pid}",
                f"look at the logs, then `kill -9 {record.pid}`; its services end with it",
            )
        await asyncio.sleep(0.05)
    print("stopped")
    return OK


async def _status(options: argparse.Namespace) -> int:
    record = StackRecord.read(options.dir)
    if record is None:
        print("no stack runs here")
        return FAILED
    print(_describe(record, options.dir.absolute()))
    names = list(record.services)
    ready = await asyncio.gather(
        *(answers_ok(f"{record.services[name].ops_url}/readyz") for name in names)
    )
    for name, answered in zip(names, ready, strict=True):
        print(f"  {name:<12} {'ready' if answered else 'NOT READY'}")
    return OK if all(ready) else FAILED


def _describe(record: StackRecord, directory: Path) -> str:
    lines = {
        "ingest": record.ingest_address,
        "HTTP/JSON": record.http_url,
        "handlers": record.worker_address,
        "PostgreSQL": without_secret(record.database_url),
        "Valkey": without_secret(record.redis_url),
        "API key": str(directory / KEY_FILE),
        "logs": str(Path(next(iter(record.services.values())).log).parent),
    }
    listed = "\n".join(f"  {what:<12} {where}" for what, where in lines.items())
    return f"Perdure runs (process {record.pid}):\n{listed}"
