"""`perdure dlq`: runs that ended failed because a step failed for good; list, replay, discard."""

from __future__ import annotations

from contextlib import aclosing

import click
from perdure_contracts.v1 import dead_letter_service_pb2

from perdure.cli.options import calls_api, json_option
from perdure.cli.output import (
    clock_time,
    moment,
    one_line,
    print_json,
    print_json_list,
    print_table,
)
from perdure.client import Client

DEFAULT_LISTED = 50

workflow_option = click.option("--workflow", default="", help="Only of this workflow.")
code_option = click.option("--code", default="", help="Only with this error code.")
reason_option = click.option("--reason", default="", help="Why, for the history.")


@click.group()
def dlq() -> None:
    """Dead letters: failed runs that wait for a person."""


@dlq.command("list")
@workflow_option
@code_option
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LISTED, show_default=True)
@json_option
@calls_api
async def list_(client: Client, workflow: str, code: str, limit: int, as_json: bool) -> None:
    """List dead letters, of the newest runs first."""
    found: list[dead_letter_service_pb2.DeadLetter] = []
    letters = client.list_dead_letters(workflow=workflow, code=code, page_size=limit)
    async with aclosing(letters) as listed:
        async for each in listed:
            found.append(each)
            if len(found) == limit:
                break
    if as_json:
        print_json_list(found)
    else:
        print_table(("run", "workflow", "node", "cause", "ended", "error"), map(_row, found))


@dlq.command()
@click.argument("run_id", required=False)
@workflow_option
@code_option
@click.option("--limit", type=click.IntRange(1, 1000), default=1000, show_default=True)
@click.option("--all", "everything", is_flag=True, help="All that there are, up to the limit.")
@reason_option
@json_option
@calls_api
async def replay(
    client: Client,
    run_id: str | None,
    workflow: str,
    code: str,
    limit: int,
    everything: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Retry the run RUN_ID, or the dead letters that match now, from what failed in them."""
    filtered = bool(workflow or code or everything)
    if bool(run_id) == filtered:
        raise click.UsageError("give a RUN_ID, or --workflow, --code or --all")
    if run_id:
        await client.retry_run(run_id, reason)
        answer = dead_letter_service_pb2.ReplayDeadLettersResponse(replayed=1)
    else:
        answer = await client.replay_dead_letters(
            workflow=workflow, code=code, limit=limit, reason=reason
        )
    if as_json:
        print_json(answer)
    else:
        rest = "; more match, so replay again" if answer.more else ""
        click.echo(f"{answer.replayed} replayed{rest}")


@dlq.command()
@click.argument("run_id")
@reason_option
@calls_api
async def discard(client: Client, run_id: str, reason: str) -> None:
    """Give up the dead letter RUN_ID; the run stays failed and keeps its history."""
    await client.discard_dead_letter(run_id, reason)
    click.echo("discarded")


def _row(each: dead_letter_service_pb2.DeadLetter) -> tuple[str, ...]:
    return (
        each.run_id,
        f"{each.workflow} v{each.workflow_version}",
        each.node,
        each.cause,
        clock_time(moment(each.ended_at)),
        one_line(f"{each.error.code}: {each.error.message}", 80),
    )
