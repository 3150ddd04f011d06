"""`make demo`: a run through six services, with a worker killed in the middle of its email.

Starts an embedded PostgreSQL, an embedded Valkey and the six services as real processes, posts one
form submission twice, kills the worker whose email call is open, and shows what happened: the run's
timeline, and what the provider saw.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import click
import perdure
from perdure.cli.timeline import timeline
from perdure_stack.errors import StackError
from perdure_stack.stack import DevStack

from examples.demo_follow_up.provider import Provider

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SUBMISSION = "form:evt_7Hq2"
WITHIN_SECONDS = 90.0


def main() -> int:
    """Run the demo and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / ".perdure" / "demo")
    directory = parser.parse_args().dir.absolute()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        return asyncio.run(_demo(directory))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1


async def _demo(directory: Path) -> int:
    log = directory / "provider.jsonl"
    with Provider(log).serving() as provider:
        _say("starting PostgreSQL, Valkey and six services, two workers among them")
        async with _stack(directory) as stack, _client(stack) as client:
            await _shorten_leases(stack.backends.database_url)
            run = await _story(stack, client, provider)
            events = [event async for event in client.history(run.run_id)]
    _show_run(run, events)
    calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    _show_calls(calls, provider.emails_sent)
    completed = run.status == perdure.RunStatus.RUN_STATUS_COMPLETED
    return 0 if completed and provider.emails_sent == 1 else 1


def _show_run(run: perdure.Run, events: Sequence[perdure.HistoryEvent]) -> None:
    _say("the run:")
    for line in timeline(run, datetime.now(UTC)):
        click.echo(line)  # in colour on a terminal only
    _say("its history:")
    for event in events:
        print(f"{event.seq:4}  {event.at.ToJsonString()}  {event.text}")


def _show_calls(calls: Sequence[Mapping[str, object]], sent: int) -> None:
    _say("what the provider saw (caller: a process id; sent: false for a key seen before):")
    for call in calls:
        print("   ", json.dumps(call))
    emails = [call for call in calls if "key" in call]
    keys = {call["key"] for call in emails}
    _say(f"{len(emails)} email calls under {len(keys)} key, {sent} email sent")


def _stack(directory: Path) -> DevStack:
    handlers = {
        "PERDURE_WORKER_HANDLERS": "examples.demo_follow_up.handlers",
        "PYTHONPATH": str(ROOT),
    }
    names: Mapping[str, Mapping[str, str]] = {
        "worker": handlers | {"PERDURE_WORKER_NAME": "worker"},
        "worker-2": handlers | {"PERDURE_WORKER_NAME": "worker-2"},
    }
    return DevStack(directory, free_ports=True, workers=2, restart=False, service_env=names)


def _client(stack: DevStack) -> perdure.Client:
    return perdure.Client(stack.ports.address("ingest"), api_key=stack.api_key)


async def _shorten_leases(database_url: str) -> None:
    """Let a dead worker's step be taken over in seconds, as an operator may."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE lanes SET hand_out_ms = 4000 WHERE lane = 'io'")
    await connection.close()


async def _story(stack: DevStack, client: perdure.Client, provider: Provider) -> perdure.Run:
    await client.publish_workflow((HERE / "workflow.yaml").read_bytes())
    run_id = await _submit_twice(client, provider)
    await _kill_the_sender(stack, client, provider, run_id)
    run = await client.wait_run(run_id, timeout=WITHIN_SECONDS)
    _say(f"the run {run_id} has ended")
    return run


async def _submit_twice(client: perdure.Client, provider: Provider) -> str:
    form = {"name": "Maya", "email": "maya@acme.example", "provider": provider.url}
    first, second = await asyncio.gather(
        *(client.start_run("demo_follow_up", form, start_key=SUBMISSION) for _ in range(2))
    )
    _say(f"the form was posted twice: {first.run_id} and {second.run_id}, which is one run")
    if first.run_id != second.run_id:
        raise SystemExit("two runs were started for one submission")
    return str(first.run_id)


async def _kill_the_sender(
    stack: DevStack, client: perdure.Client, provider: Provider, run_id: str
) -> None:
    opened = await asyncio.to_thread(provider.email_call_is_open.wait, WITHIN_SECONDS)
    if not opened:
        raise SystemExit("no email was asked for")
    run = await client.get_run(run_id)
    (step,) = (step for step in run.steps if step.node == "send_email")
    _say(f"the email call of `{step.worker}` is open: killing that worker with SIGKILL")
    await stack.supervisor.kill(step.worker)
    _say("another worker takes over when its lease has run out, in a few seconds")


def _say(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
