"""`perdure effect`: calls of which it is not known whether they were made; list, show, decide."""

from __future__ import annotations

import getpass
import json
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import click
from perdure_contracts.v1 import effect_service_pb2

from perdure.cli.effect_text import HEADING, effect_row, effect_screen
from perdure.cli.inputs import read_payload
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import print_json, print_json_list, print_table
from perdure.client import Client

DEFAULT_LISTED = 50
STATUSES = ("in_flight", "outcome_unknown", "needs_review")
KINDS = ("provider", "reconcile", "none")

reason_option = click.option("--reason", default="", help="Why, for the history.")
by_option = click.option(
    "--by", "asked_by", default=None, help="Who decides; your user name if left out."
)


@click.group()
def effect() -> None:
    """Effects: outside calls that are not settled, and decisions about them."""


@effect.command("list")
@click.option("--run", "run_id", default="", help="Only of this run.")
@click.option("--status", type=click.Choice(STATUSES), default=None, help="Only of this status.")
@click.option("--kind", type=click.Choice(KINDS), default=None, help="Only of this kind.")
@click.option("--older-than", type=float, help="Only those begun so many seconds ago or before.")
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LISTED, show_default=True)
@json_option
@calls_api
async def list_(
    client: Client,
    run_id: str,
    status: str | None,
    kind: str | None,
    older_than: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List effects that are not settled, the oldest first."""
    found: list[effect_service_pb2.EffectEntry] = []
    listed = client.effects.list(
        run_id=run_id,
        status=status or "",
        kind=kind or "",
        older_than=None if older_than is None else timedelta(seconds=older_than),
        page_size=limit,
    )
    async with aclosing(listed) as entries:
        async for each in entries:
            found.append(each)
            if len(found) == limit:
                break
    if as_json:
        print_json_list(found)
        return
    now = datetime.now(UTC)
    print_table(HEADING, (effect_row(each, now) for each in found))
    if any(each.effect.status == "needs_review" for each in found):
        click.echo("\nthose that need review wait for you: perdure effect show KEY")


@effect.command()
@click.argument("key")
@json_option
@calls_api
async def show(client: Client, key: str, as_json: bool) -> None:
    """Show the effect KEY: what is known of it, and what can be done about it."""
    answer = await client.effects.get(key)
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(effect_screen(answer, datetime.now(UTC))))


@effect.command()
@click.argument("key")
@click.option("--result", metavar="JSON|@FILE|-", help="What it came to; null if left out.")
@reason_option
@by_option
@json_option
@calls_api
async def settle(
    client: Client, key: str, result: str | None, reason: str, asked_by: str | None, as_json: bool
) -> None:
    """Say that the effect KEY was performed; its step goes on with the result.

    For an http node the result is what the call would have been answered:
    {"status": 200, "headers": {}, "body": ...}.
    """
    changed = await client.effects.settle(
        key, read_payload(result) or b"null", reason=reason, asked_by=_who(asked_by)
    )
    _print(changed, "settled", as_json)


@effect.command()
@click.argument("key")
@click.option(
    "--although-key-expired",
    is_flag=True,
    help="Also if the provider may have forgotten the key: be sure that it was not done.",
)
@reason_option
@by_option
@json_option
@calls_api
async def repeat(
    client: Client,
    key: str,
    although_key_expired: bool,
    reason: str,
    asked_by: str | None,
    as_json: bool,
) -> None:
    """Say that the effect KEY was not performed; it is called again, under its key."""
    changed = await client.effects.repeat(
        key,
        although_key_expired=although_key_expired,
        reason=reason,
        asked_by=_who(asked_by),
    )
    _print(changed, "to be repeated", as_json)


@effect.command()
@click.argument("key")
@click.option("--code", default="", help="Code of the step's error; EFFECT_GIVEN_UP if left out.")
@click.option("--message", default="", help="What happened, for people.")
@reason_option
@by_option
@json_option
@calls_api
async def fail(
    client: Client,
    key: str,
    code: str,
    message: str,
    reason: str,
    asked_by: str | None,
    as_json: bool,
) -> None:
    """Give the effect KEY up; its step fails, and what the workflow says of that follows."""
    changed = await client.effects.fail(
        key, code=code, message=message, reason=reason, asked_by=_who(asked_by)
    )
    _print(changed, "given up", as_json)


def _who(asked_by: str | None) -> str:
    if asked_by is not None:
        return asked_by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A user without a name, as in a bare container; the door names the caller then.
        return ""


def _print(changed: bool, done: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"changed": changed}))
    else:
        click.echo(done if changed else "was decided so before")
