"""`perdure audit`: who did what."""

from __future__ import annotations

from contextlib import aclosing

import click
from perdure_contracts.v1.audit_service_pb2 import AuditEntry

from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, one_line, print_json_list, print_table
from perdure.client import Client

DEFAULT_LISTED = 50
DETAILS_WIDTH = 80


@click.command()
@click.option("--action", default="", help="Only this, such as key.revoke.")
@click.option("--target", default="", help="Only what was done to this.")
@click.option("--installation", is_flag=True, help="What was done to what all orgs share.")
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LISTED, show_default=True)
@json_option
@calls_api
async def audit(
    client: Client, action: str, target: str, installation: bool, limit: int, as_json: bool
) -> None:
    """List who did what, newest first."""
    read = client.audit.of_installation if installation else client.audit.entries
    found: list[AuditEntry] = []
    async with aclosing(read(action=action, target=target)) as entries:
        async for entry in entries:
            found.append(entry)
            if len(found) == limit:
                break
    if as_json:
        print_json_list(found)
    else:
        print_table(("at", "who", "did", "to", "details"), map(_row, found))


def _row(entry: AuditEntry) -> tuple[str, ...]:
    return (
        clock_time(moment(entry.at)),
        entry.actor,
        entry.action,
        entry.target,
        one_line(entry.details.decode("utf-8", "replace"), DETAILS_WIDTH),
    )
