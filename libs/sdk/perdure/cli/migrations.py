"""`perdure workflow migrate` and `perdure workflow migration`: runs go on in another version."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import click
from perdure_contracts.v1 import migration_pb2
from perdure_contracts.v1.workflow_service_pb2 import MigrateRunsRequest

from perdure.cli.failures import USER_ERROR
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import coloured, one_line, print_json, print_json_list, print_table, word
from perdure.client import Client

POLL = 0.2
"""Seconds between two looks at how far a migration came."""

SHOWN = 20
"""Runs of one kind that a dry run lists without `--all`."""

_REMOVED = ("refuse", "cancel")
_PASSED = ("refuse", "skip", "run")


@click.command()
@click.argument("name")
@click.option("--from", "from_version", type=int, required=True, help="The version to leave.")
@click.option("--to", "to_version", type=int, required=True, help="The version to go to.")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="OLD=NEW",
    help="What becomes of a node; OLD= for one that is gone. The others keep their ids.",
)
@click.option(
    "--removed",
    type=click.Choice(_REMOVED),
    default="refuse",
    show_default=True,
    help="A step on a node that is gone refuses its run, or is cancelled.",
)
@click.option(
    "--passed",
    type=click.Choice(_PASSED),
    default="refuse",
    show_default=True,
    help="A node that the run is past already refuses its run, is skipped, or runs late.",
)
@click.option("--run", "run_ids", multiple=True, metavar="ID", help="Only these runs.")
@click.option("--reason", default="", help="Why, for the histories.")
@click.option("--dry-run", is_flag=True, help="Only tell what would become of the runs.")
@click.option("--all", "show_all", is_flag=True, help="List every run of a dry run.")
@click.option("--no-wait", is_flag=True, help="Do not wait until every run had its turn.")
@json_option
@calls_api
async def migrate(
    client: Client,
    name: str,
    from_version: int,
    to_version: int,
    maps: Sequence[str],
    removed: str,
    passed: str,
    run_ids: Sequence[str],
    reason: str,
    dry_run: bool,
    show_all: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Move unfinished runs of workflow NAME to another of its versions.

    Look first with --dry-run. What runs refuse stays on its version and is told with the reason.
    Exit with 1 if any run stays.
    """
    request = MigrateRunsRequest(
        workflow=name,
        from_version=from_version,
        to_version=to_version,
        nodes=read_map(maps),
        on_removed=_removed_rule(removed),
        on_passed=_passed_rule(passed),
        run_ids=run_ids,
        reason=reason,
    )
    if dry_run:
        found = [each async for each in client.migrations.check(request)]
        _show_check(found, show_all=show_all, as_json=as_json)
        return
    begun = await client.migrations.begin(request)
    if not no_wait:
        begun = await _over(client, begun)
    await _show(client, begun, as_json=as_json)


@click.command()
@click.argument("migration_id")
@json_option
@calls_api
async def migration(client: Client, migration_id: str, as_json: bool) -> None:
    """Show how far a migration came, and which runs stay on their version."""
    await _show(client, await client.migrations.get(migration_id), as_json=as_json)


def read_map(given: Sequence[str]) -> dict[str, str]:
    """Return what becomes of nodes. Raises a usage error for one without `=`."""
    nodes: dict[str, str] = {}
    for each in given:
        old, equals, new = each.partition("=")
        if not equals or not old:
            raise click.BadParameter(f"{each!r} is not of the form OLD=NEW", param_hint="--map")
        nodes[old] = new
    return nodes


def _removed_rule(given: str) -> migration_pb2.RemovedNodeRule.ValueType:
    return migration_pb2.RemovedNodeRule.Value(f"REMOVED_NODE_RULE_{given.upper()}")


def _passed_rule(given: str) -> migration_pb2.PassedNodeRule.ValueType:
    return migration_pb2.PassedNodeRule.Value(f"PASSED_NODE_RULE_{given.upper()}")


async def _over(client: Client, begun: migration_pb2.Migration) -> migration_pb2.Migration:
    """Return the migration when every run had its turn."""
    while begun.pending or not begun.HasField("all_sent_at"):
        await asyncio.sleep(POLL)
        begun = await client.migrations.get(begun.migration_id)
    return begun


def _show_check(
    found: Sequence[migration_pb2.RunMigration], *, show_all: bool, as_json: bool
) -> None:
    if as_json:
        print_json_list(found)
        return
    refused = [each for each in found if each.refusals]
    click.echo(f"{len(found) - len(refused)} run(s) would move, {len(refused)} would stay")
    _print_reasons(refused)
    listed = found if show_all else refused[:SHOWN]
    if listed:
        click.echo()
        print_table(("run", "would be", "why"), map(_row, listed))
    if len(listed) < len(refused):
        click.echo(f"and {len(refused) - len(listed)} more; --all lists every run")


def _print_reasons(refused: Sequence[migration_pb2.RunMigration]) -> None:
    reasons = Counter((one.code, one.node) for each in refused for one in each.refusals)
    if reasons:
        click.echo()
        rows = ((code, node or "-", str(count)) for (code, node), count in reasons.most_common())
        print_table(("reason", "node", "runs"), rows)


async def _show(client: Client, shown: migration_pb2.Migration, *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        _print_counts(shown)
        if shown.refused:
            refused = migration_pb2.MIGRATION_OUTCOME_REFUSED
            stay = [each async for each in client.migrations.runs(shown.migration_id, refused)]
            click.echo()
            print_table(("run", "came to", "why"), map(_row, stay))
    if shown.refused:
        raise click.exceptions.Exit(USER_ERROR)


def _print_counts(shown: migration_pb2.Migration) -> None:
    click.echo(
        f"migration {shown.migration_id}: {shown.workflow} version {shown.from_version}"
        f" to {shown.to_version}"
    )
    more = "" if shown.HasField("all_sent_at") else ", and more to come"
    click.echo(
        f"{shown.migrated} moved, {shown.refused} stay, {shown.ended} ended before,"
        f" {shown.pending} pending{more}"
    )


def _row(run: migration_pb2.RunMigration) -> tuple[str, str, str]:
    why = "; ".join(
        f"{one.node}: {one.message}" if one.node else one.message for one in run.refusals
    )
    return run.run_id, coloured(word(run, "outcome")), one_line(why)
