"""`perdure erase`: whose data is to go; subject, show, list, and again after a restore."""

from __future__ import annotations

import asyncio
import json
from typing import TextIO

import click
from perdure_contracts.v1.consent_service_pb2 import Erasure, ErasurePreview

from perdure.cli.failures import Failure
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

POLL = 0.2
"""Seconds between two looks at how far an erasure came."""


@click.group()
def erase() -> None:
    """Remove what runs were given and made about somebody."""


@erase.command()
@click.argument("subject")
@click.option("--reason", default="", help="Why, without personal data: it is kept.")
@click.option("--dry-run", is_flag=True, help="Only tell what it would come to.")
@click.option("--no-wait", is_flag=True, help="Do not wait until every run is erased.")
@json_option
@calls_api
async def subject(
    client: Client, subject: str, reason: str, dry_run: bool, no_wait: bool, as_json: bool
) -> None:
    """Erase every run about SUBJECT, with the runs that those have started.

    Unfinished ones end at once, without compensation. Look first with --dry-run.
    """
    if dry_run:
        _show_preview(await client.consent.preview_erasure(subject), as_json=as_json)
        return
    begun = await client.consent.erase(subject, reason=reason)
    _show(begun if no_wait else await _over(client, begun), as_json=as_json)


@erase.command()
@click.argument("erasure_id")
@json_option
@calls_api
async def show(client: Client, erasure_id: str, as_json: bool) -> None:
    """Show how far an erasure came, and what it has removed."""
    _show(await client.consent.erasure(erasure_id), as_json=as_json)


@erase.command("list")
@json_option
@calls_api
async def list_(client: Client, as_json: bool) -> None:
    """List erasures, the oldest first; keep --json with the backups, for `again`."""
    found = [one async for one in client.consent.erasures()]
    if as_json:
        print_json_list(found)
        return
    rows = (
        (
            one.erasure_id,
            one.subject_hash[:16],
            clock_time(moment(one.created_at)),
            one_line(one.reason),
        )
        for one in found
    )
    print_table(("erasure", "hash", "asked", "why"), rows)


@erase.command()
@click.option(
    "--from",
    "given",
    type=click.File(),
    help="What `perdure erase list --json` printed; else the erasures that the database knows.",
)
@json_option
@calls_api
async def again(client: Client, given: TextIO | None, as_json: bool) -> None:
    """Erase again, in a restored database, everybody who was erased before."""
    known = [one.subject_hash async for one in client.consent.erasures()]
    hashes = sorted(set(known if given is None else [*known, *_read(given)]))
    done = []
    for one in hashes:
        reason = "again, after a restore"
        done.append(
            await _over(client, await client.consent.erase(subject_hash=one, reason=reason))
        )
    if as_json:
        print_json_list(done)
    else:
        click.echo(f"{len(done)} subject(s), {sum(one.erased for one in done)} run(s) erased")


def _read(given: TextIO) -> list[str]:
    try:
        return [str(one["subject_hash"]) for one in json.load(given)]
    except (ValueError, TypeError, KeyError) as problem:
        raise Failure(
            "this is no list of erasures",
            where=getattr(given, "name", "--from"),
            do_this="give what `perdure erase list --json` printed",
        ) from problem


async def _over(client: Client, begun: Erasure) -> Erasure:
    """Return the erasure when every run of it is erased."""
    while begun.pending or not begun.HasField("all_sent_at"):
        await asyncio.sleep(POLL)
        begun = await client.consent.erasure(begun.erasure_id)
    return begun


def _show(shown: Erasure, *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    more = "" if shown.HasField("all_sent_at") else ", and more to come"
    click.echo(f"erasure {shown.erasure_id}")
    click.echo(f"{shown.erased} run(s) erased, {shown.pending} pending{more}")
    if shown.removed:
        click.echo()
        print_table(
            ("removed", "rows"),
            ((kind, str(shown.removed[kind])) for kind in sorted(shown.removed)),
        )


def _show_preview(shown: ErasurePreview, *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    click.echo(
        f"{shown.runs} run(s) with {shown.steps} step(s) would be erased; {shown.unfinished} are"
        f" unfinished and would end, {shown.erased_before} were erased before"
    )
