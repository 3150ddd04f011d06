"""`perdure job`: enqueue, get, list, cancel, dead, replay, and the types of jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import click
from perdure_contracts.v1 import job_pb2
from perdure_contracts.v1 import job_service_pb2 as pb

from perdure.cli.failures import USER_ERROR, Failure
from perdure.cli.inputs import (
    JOB_STATUSES,
    Instant,
    read_file,
    read_job_status,
    read_payload,
    read_tags,
)
from perdure.cli.job_text import DEAD, LISTED, dead_row, listed_row, whole_job
from perdure.cli.job_type import job_type
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import print_json, print_json_list, print_table
from perdure.client import Client
from perdure.client_jobs import NewJob

DEFAULT_LISTED = 50
MOST_AT_ONCE = 1000

Found = TypeVar("Found")

type_option = click.option("--type", "type_", default="", help="Only of this type.")
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=DEFAULT_LISTED, show_default=True
)
reason_option = click.option("--reason", default="", help="Why, for the history.")


@click.group()
def job() -> None:
    """Jobs: single units of work of registered types. A job is a run: `perdure run show` too."""


job.add_command(job_type)


@job.command()
@click.argument("type_", metavar="TYPE")
@click.option("--payload", metavar="JSON|@FILE|-", help="The payload; {} if left out.")
@click.option("--each", metavar="FILE|-", help="A job for each line: its payload as JSON.")
@click.option("--key", help="Idempotency key: the same request under it is one job.")
@click.option("--at", "available_at", type=Instant(), help="May begin at this instant.")
@click.option("--after", "available_after", type=float, help="May begin after so many seconds.")
@click.option("--priority", type=int, default=0, help="-100 (last) to 100 (first).")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit with 1 unless it completed.")
@json_option
@calls_api
async def enqueue(
    client: Client,
    type_: str,
    payload: str | None,
    each: str | None,
    key: str | None,
    available_at: datetime | None,
    available_after: float | None,
    priority: int,
    tags: tuple[str, ...],
    wait: bool,
    as_json: bool,
) -> None:
    """Enqueue a job of TYPE and print its id, or one for each line of a file."""
    if each is not None and (payload is not None or key is not None or wait):
        raise click.UsageError("--each is not given beside --payload, --key or --wait")
    new = NewJob(
        type=type_,
        payload=read_payload(payload),
        idempotency_key=key,
        available_at=available_at,
        available_after=available_after,
        priority=priority,
        tags=read_tags(tags),
    )
    if each is not None:
        await _enqueue_lines(client, new, read_file(each), as_json)
        return
    made = await client.jobs.enqueue_one(new)
    if wait:
        _print_end(await client.jobs.wait(made.job_id), as_json)
    elif as_json:
        print_json(made)
    else:
        click.echo(made.job_id)
        if not made.created:
            click.echo("an earlier request under this key enqueued it", err=True)


@job.command()
@click.argument("job_id")
@json_option
@calls_api
async def get(client: Client, job_id: str, as_json: bool) -> None:
    """Show a job: where it stands, its tries with their errors."""
    _print_job(await client.jobs.get(job_id), as_json)


@job.command("list")
@type_option
@click.option("--status", type=click.Choice(JOB_STATUSES), help="Only jobs in this state.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--created-from", type=Instant(), help="Only enqueued at this instant or later.")
@click.option("--created-before", type=Instant(), help="Only enqueued before this instant.")
@limit_option
@json_option
@calls_api
async def list_(
    client: Client,
    type_: str,
    status: str | None,
    tags: tuple[str, ...],
    created_from: datetime | None,
    created_before: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs, newest first."""
    jobs = client.jobs.list(
        type=type_,
        status=read_job_status(status),
        tags=read_tags(tags),
        created_from=created_from,
        created_before=created_before,
        page_size=limit,
    )
    found = await _first(jobs, limit)
    if as_json:
        print_json_list(found)
    else:
        print_table(LISTED, map(listed_row, found))


@job.command()
@click.argument("job_id")
@reason_option
@calls_api
async def cancel(client: Client, job_id: str, reason: str) -> None:
    """End a job at once; a running one is told and stops at its next safe point."""
    changed = await client.jobs.cancel(job_id, reason)
    click.echo("cancelled" if changed else "had been cancelled before")


@job.command()
@type_option
@click.option("--code", default="", help="Only with this error code.")
@limit_option
@json_option
@calls_api
async def dead(client: Client, type_: str, code: str, limit: int, as_json: bool) -> None:
    """List jobs that failed for good and wait for a person, the newest first."""
    found = await _first(client.jobs.dead(type=type_, code=code, page_size=limit), limit)
    if as_json:
        print_json_list(found)
    else:
        print_table(DEAD, map(dead_row, found))


@job.command()
@click.argument("job_id", required=False)
@type_option
@click.option("--code", default="", help="Only with this error code.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_AT_ONCE), default=MOST_AT_ONCE, show_default=True
)
@click.option("--all", "everything", is_flag=True, help="All that there are, up to the limit.")
@reason_option
@calls_api
async def replay(
    client: Client,
    job_id: str | None,
    type_: str,
    code: str,
    limit: int,
    everything: bool,
    reason: str,
) -> None:
    """Try the failed job JOB_ID again, or the dead jobs that match now."""
    if bool(job_id) == bool(type_ or code or everything):
        raise click.UsageError("give a JOB_ID, or --type, --code or --all")
    if job_id:
        changed = await client.jobs.replay(job_id, reason)
        click.echo("replayed" if changed else "goes on already")
        return
    answer = await client.jobs.replay_dead(type=type_, code=code, limit=limit, reason=reason)
    rest = "; more match, so replay again" if answer.more else ""
    click.echo(f"{answer.replayed} replayed{rest}")


async def _enqueue_lines(client: Client, like: NewJob, text: bytes, as_json: bool) -> None:
    """Enqueue a job for each line that holds a payload, and print their ids in order."""
    jobs = [replace(like, payload=line) for line in text.splitlines() if line.strip()]
    for first in range(0, len(jobs), MOST_AT_ONCE):
        results = await client.jobs.enqueue_many(jobs[first : first + MOST_AT_ONCE])
        for result in results:
            if result.HasField("refusal"):
                raise _refused(result.refusal)
            if as_json:
                print_json(result)
            else:
                click.echo(result.job_id)


def _refused(refusal: pb.JobRefusal) -> Failure:
    return Failure(
        refusal.message,
        where=refusal.reason,
        do_this="the jobs printed above are enqueued; repeat the others",
    )


async def _first(listed: AsyncGenerator[Found, None], limit: int) -> list[Found]:
    found: list[Found] = []
    async with aclosing(listed) as each_in_turn:
        async for each in each_in_turn:
            found.append(each)
            if len(found) == limit:
                break
    return found


def _print_end(ended: job_pb2.Job, as_json: bool) -> None:
    _print_job(ended, as_json)
    if ended.status != job_pb2.JOB_STATUS_COMPLETED:
        raise click.exceptions.Exit(USER_ERROR)


def _print_job(shown: job_pb2.Job, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        click.echo("\n".join(whole_job(shown, datetime.now(UTC))))
