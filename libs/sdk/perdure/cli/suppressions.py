"""`perdure suppression`: whom work must not be about; add, remove, check, list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click
from perdure_contracts.v1.consent_service_pb2 import Suppression

from perdure.cli.failures import USER_ERROR
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, one_line, print_json_list, print_table
from perdure.client import Client
from perdure.client_consent import EVERY_PURPOSE

purpose_option = click.option(
    "--purpose", default=EVERY_PURPOSE, show_default=True, help="For this purpose; * for every."
)
reason_option = click.option("--reason", default="", help="Why, without personal data: it is kept.")


@click.group()
def suppression() -> None:
    """Lists of whom work must not be about."""


@suppression.command()
@click.argument("subjects", nargs=-1, required=True, metavar="SUBJECT...")
@purpose_option
@reason_option
@json_option
@calls_api
async def add(
    client: Client, subjects: Sequence[str], purpose: str, reason: str, as_json: bool
) -> None:
    """Forbid work about each SUBJECT."""
    added = [await client.consent.suppress(one, purpose, reason=reason) for one in subjects]
    _tell(sum(added), len(subjects), "added", "there already", as_json=as_json)


@suppression.command()
@click.argument("subjects", nargs=-1, required=True, metavar="SUBJECT...")
@purpose_option
@reason_option
@json_option
@calls_api
async def remove(
    client: Client, subjects: Sequence[str], purpose: str, reason: str, as_json: bool
) -> None:
    """Allow again what a list forbids about each SUBJECT."""
    removed = [await client.consent.allow(one, purpose, reason=reason) for one in subjects]
    _tell(sum(removed), len(subjects), "removed", "not there", as_json=as_json)


@suppression.command()
@click.argument("subject")
@json_option
@calls_api
async def check(client: Client, subject: str, as_json: bool) -> None:
    """Tell the lists that SUBJECT is on. Exit with 1 if it is on any."""
    found = await client.consent.suppressions_of(subject)
    if as_json:
        print_json_list(found)
    elif found:
        _print(found)
    else:
        click.echo("on no list")
    if found:
        raise click.exceptions.Exit(USER_ERROR)


@suppression.command("list")
@click.option("--purpose", default="", help="Only of the list for this purpose.")
@json_option
@calls_api
async def list_(client: Client, purpose: str, as_json: bool) -> None:
    """List entries by the hash of their subject; the subjects themselves are not kept."""
    found = [one async for one in client.consent.suppressions(purpose)]
    if as_json:
        print_json_list(found)
    else:
        _print(found)


def _tell(changed: int, asked: int, done: str, as_before: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({done: changed}))
    else:
        rest = f", {asked - changed} {as_before}" if changed < asked else ""
        click.echo(f"{changed} {done}{rest}")


def _print(found: Iterable[Suppression]) -> None:
    rows = (
        (
            one.purpose,
            one.subject_hash[:16],
            clock_time(moment(one.created_at)),
            one_line(one.reason),
        )
        for one in found
    )
    print_table(("purpose", "hash", "since", "why"), rows)
