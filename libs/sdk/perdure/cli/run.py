"""`perdure run`: start, show, list, watch, wait, history, signal, cancel, and other commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

import click
from perdure_contracts.v1 import run_pb2, run_service_pb2

from perdure.cli.changes import Changes
from perdure.cli.commands import COMMANDS
from perdure.cli.failures import USER_ERROR, Failure
from perdure.cli.inputs import STATUSES, Instant, read_payload, read_status, read_tags
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import (
    clock_time,
    coloured,
    duration,
    moment,
    one_line,
    print_json,
    print_json_list,
    print_table,
    shown_status,
    word,
)
from perdure.cli.timeline import beginning, child_lines, timeline
from perdure.client import Client, published
from perdure.signals import StartSignal

DEFAULT_LISTED = 50

MAX_CHILDREN = 20
"""Children that the screen of a run shows."""


@click.group()
def run() -> None:
    """Runs: start, look, wait, stop."""


for _command in COMMANDS:
    run.add_command(_command)


@run.command()
@click.argument("workflow")
@click.option("--input", "payload", metavar="JSON|@FILE|-", help="The input; {} if left out.")
@click.option("--version", type=int, default=0, help="The version; the latest if left out.")
@click.option("--key", "start_key", help="Start key: the same request under it starts one run.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--priority", type=int, default=0, help="-100 (last) to 100 (first).")
@click.option("--at", "start_at", type=Instant(), help="Begin at this instant, not at once.")
@click.option("--after", "start_after", type=float, help="Begin after so many seconds.")
@click.option("--signal", "signal_name", metavar="NAME", help="Send a signal with the start.")
@click.option("--signal-data", metavar="JSON|@FILE|-", help="What it carries; null if left out.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit with 1 unless it completed.")
@json_option
@calls_api
async def start(
    client: Client,
    workflow: str,
    payload: str | None,
    version: int,
    start_key: str | None,
    tags: tuple[str, ...],
    priority: int,
    start_at: datetime | None,
    start_after: float | None,
    signal_name: str | None,
    signal_data: str | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Start a run of WORKFLOW and print its id."""
    started = await client.start_run(
        workflow,
        read_payload(payload),
        version=version,
        start_key=start_key,
        tags=read_tags(tags),
        priority=priority,
        start_at=start_at,
        start_after=start_after,
        signal=_start_signal(signal_name, signal_data),
    )
    if wait:
        _print_end(await client.wait_run(started.run_id), as_json)
    elif as_json:
        print_json(started)
    else:
        click.echo(started.run_id)
        if not started.created:
            click.echo("an earlier request under this key started it", err=True)


@run.command()
@click.argument("run_id")
@click.option("--scope", default="", help="The steps of this scope, such as 'batch[17]'.")
@json_option
@calls_api
async def show(client: Client, run_id: str, scope: str, as_json: bool) -> None:
    """Show a run on one screen: where it stands, its steps and effects."""
    if as_json or scope:
        state = await client.get_run(run_id, scope=scope)
        if as_json:
            print_json(state)
        else:
            click.echo("\n".join(timeline(state, datetime.now(UTC))))
        return
    # The first state of a watch leaves out payloads of steps, which this screen does not show.
    async with aclosing(client.watch_run(run_id)) as states:
        async for state in states:
            click.echo("\n".join(timeline(state, datetime.now(UTC))))
            await _print_children(client, state)
            break


@run.command()
@click.argument("run_id")
@click.argument("step", type=int)
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LISTED, show_default=True)
@json_option
@calls_api
async def scopes(client: Client, run_id: str, step: int, limit: int, as_json: bool) -> None:
    """List the items or passes of STEP, the number of a step that holds a sub-graph."""
    found: list[run_pb2.Scope] = []
    async with aclosing(client.list_scopes(run_id, step)) as listed:
        async for each in listed:
            found.append(each)
            if len(found) == limit:
                break
    if as_json:
        print_json_list(found)
    else:
        print_table(("scope", "status", "given", "output", "error"), map(_scope_row, found))


def _scope_row(scope: run_pb2.Scope) -> tuple[str, ...]:
    given, output = (one_line(part.decode(errors="replace"), 60) for part in _payloads(scope))
    error = scope.error.code if scope.HasField("error") else ""
    return scope.path, coloured(scope.status), given, output, error


def _payloads(scope: run_pb2.Scope) -> tuple[bytes, bytes]:
    return scope.item or scope.carry, scope.output


@run.command("list")
@click.option("--workflow", default="", help="Only runs of this workflow.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs in this state.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--created-from", type=Instant(), help="Only runs made at this instant or later.")
@click.option("--created-before", type=Instant(), help="Only runs made before this instant.")
@click.option("--parent", default="", help="Only children of this run.")
@click.option("--paused/--not-paused", default=None, help="Only runs that somebody paused.")
@click.option(
    "--compensating/--not-compensating", default=None, help="Only runs that are being taken back."
)
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LISTED, show_default=True)
@json_option
@calls_api
async def list_(
    client: Client,
    workflow: str,
    status: str | None,
    tags: tuple[str, ...],
    created_from: datetime | None,
    created_before: datetime | None,
    parent: str,
    paused: bool | None,
    compensating: bool | None,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    runs = client.list_runs(
        workflow=workflow,
        status=read_status(status),
        tags=read_tags(tags),
        created_from=created_from,
        created_before=created_before,
        parent_run_id=parent,
        paused=paused,
        compensating=compensating,
        page_size=limit,
    )
    found = await _first(runs, limit)
    if as_json:
        print_json_list(found)
    else:
        print_table(("run", "workflow", "status", "started", "took", "error"), map(_row, found))


@run.command()
@click.argument("run_id")
@json_option
@calls_api
async def watch(client: Client, run_id: str, as_json: bool) -> None:
    """Print each change of a run until it has ended; exit with 1 unless it completed."""
    changes = Changes()
    status = run_pb2.RUN_STATUS_UNSPECIFIED
    async with aclosing(client.watch_run(run_id)) as states:
        async for state in states:
            status = state.status
            if as_json:
                print_json(state)
            else:
                for line in changes.lines(state):
                    click.echo(line)
    _exit_by(status)


@run.command()
@click.argument("run_id")
@click.option("--until", metavar="NAME", default="", help="Wait for what is published as NAME.")
@click.option("--timeout", type=float, help="Seconds to wait at most; without end if left out.")
@json_option
@calls_api
async def wait(
    client: Client, run_id: str, until: str, timeout: float | None, as_json: bool
) -> None:
    """Wait for a run's end, or for a value that it publishes, and print it.

    Exits with 1 unless the run completed, or if it ended without publishing NAME.
    """
    try:
        waited = await client.wait_run(run_id, timeout, until=until)
    except TimeoutError:
        raise Failure(
            f"the run took longer than {timeout:g} s",
            where=f"run {run_id}",
            do_this="wait longer, or look at it with `perdure run show`",
        ) from None
    if until:
        _print_published(waited, until, as_json)
    else:
        _print_end(waited, as_json)


@run.command()
@click.argument("run_id")
@json_option
@calls_api
async def history(client: Client, run_id: str, as_json: bool) -> None:
    """Print what happened in a run, oldest first."""
    events = [each async for each in client.history(run_id)]
    if as_json:
        print_json_list(events)
        return
    for event in events:
        time = click.style(clock_time(moment(event.at)), dim=True)
        click.echo(f"{event.seq:>4}  {time}  {event.text}")


@run.command()
@click.argument("run_id_and_name", nargs=-1, metavar="[RUN_ID] [NAME]")
@click.option("--key", help="Send by this correlation key, instead of to a run.")
@click.option("--callback", metavar="TOKEN", help="Answer the callback with this token.")
@click.option("--data", metavar="JSON|@FILE|-", help="What it carries; null if left out.")
@click.option("--id", "signal_id", help="Signal id: the same id is sent once.")
@json_option
@calls_api
async def signal(
    client: Client,
    run_id_and_name: tuple[str, ...],
    key: str | None,
    callback: str | None,
    data: str | None,
    signal_id: str | None,
    as_json: bool,
) -> None:
    """Send a signal to a run: `signal RUN_ID NAME`, or by a key: `signal --key KEY NAME`.

    Or answer a callback: `signal --callback TOKEN`.
    """
    payload = read_payload(data)
    match key, callback, run_id_and_name:
        case None, None, (run_id, name):
            answer = await client.signal_run(run_id, name, payload, signal_id=signal_id)
        case str(), None, (name,):
            answer = await client.signal_key(key, name, payload, signal_id=signal_id)
        case None, str(), ():
            answer = await client.answer_callback(callback, payload, signal_id=signal_id)
        case _:
            raise click.UsageError("give RUN_ID and NAME, --key KEY and NAME, or --callback TOKEN")
    if as_json:
        print_json(answer)
    else:
        click.echo(_signalled(answer))


@run.command()
@click.argument("run_id")
@click.option("--reason", default="", help="Why, for the history.")
@json_option
@calls_api
async def cancel(client: Client, run_id: str, reason: str, as_json: bool) -> None:
    """Close a run at once; running work is told and ends at its next safe point."""
    answer = await client.cancel_run(run_id, reason)
    if as_json:
        print_json(answer)
    else:
        click.echo("cancelled" if answer.changed else "had been cancelled before")


async def _first(runs: AsyncGenerator[run_pb2.Run, None], limit: int) -> list[run_pb2.Run]:
    found: list[run_pb2.Run] = []
    async with aclosing(runs) as listed:
        async for each in listed:
            found.append(each)
            if len(found) == limit:
                break
    return found


async def _print_children(client: Client, parent: run_pb2.Run) -> None:
    """Print the runs that a run has started, where it has."""
    if not any(step.child_run_id for step in parent.steps):
        return
    runs = client.list_runs(parent_run_id=parent.run_id, page_size=MAX_CHILDREN + 1)
    children = await _first(runs, MAX_CHILDREN + 1)
    click.echo("\n".join(["", *child_lines(parent, children[:MAX_CHILDREN])]))
    if len(children) > MAX_CHILDREN:
        click.echo(f"and more: perdure run list --parent {parent.run_id}")


def _start_signal(name: str | None, data: str | None) -> StartSignal | None:
    if name is None:
        if data is not None:
            raise click.UsageError("--signal-data is of the signal that --signal names")
        return None
    return StartSignal(name, read_payload(data))


def _signalled(answer: run_service_pb2.SignalRunResponse) -> str:
    if not answer.is_new:
        return "had been sent before"
    return f"sent to run {answer.run_id}" if answer.run_id else "waits for a run with this key"


def _row(each: run_pb2.Run) -> tuple[str, ...]:
    took = moment(each.ended_at) - beginning(each) if each.HasField("ended_at") else None
    return (
        each.run_id,
        f"{each.workflow} v{each.workflow_version}",
        coloured(shown_status(each)),
        clock_time(beginning(each)),
        duration(took) if took is not None else "",
        each.error.code if each.HasField("error") else "",
    )


def _print_end(ended: run_pb2.Run, as_json: bool) -> None:
    if as_json:
        print_json(ended)
    else:
        click.echo("\n".join(timeline(ended, datetime.now(UTC))))
    _exit_by(ended.status)


def _print_published(waited: run_pb2.Run, name: str, as_json: bool) -> None:
    value = published(waited, name)
    if as_json:
        print_json(waited)
    elif value is not None:
        click.echo(value.decode())
    if value is None:
        raise Failure(
            f"the run ended, {word(waited)}, without publishing `{name}`",
            where=f"run {waited.run_id}",
            do_this="see why with `perdure run show`",
        )


def _exit_by(status: run_pb2.RunStatus.ValueType) -> None:
    if status != run_pb2.RUN_STATUS_COMPLETED:
        raise click.exceptions.Exit(USER_ERROR)
