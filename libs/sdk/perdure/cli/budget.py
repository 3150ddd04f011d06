"""`perdure budget`: what work may cost; put, list, show."""

from __future__ import annotations

from collections.abc import Iterable

import click
from perdure_contracts.v1.budget_service_pb2 import Budget

from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, print_json, print_json_list, print_table, word
from perdure.client import Client


@click.group()
def budget() -> None:
    """What work may cost."""


@budget.command()
@click.argument("name")
@click.option("--amount", required=True, help="Units for each period, such as 2.50.")
@click.option(
    "--period", type=click.Choice(("day", "month", "total")), default="total", show_default=True
)
@click.option("--workflow", default="", help="Only for runs of this workflow; else for all.")
@click.option("--currency", default="", help="The unit, for people.")
@json_option
@calls_api
async def put(
    client: Client,
    name: str,
    amount: str,
    period: str,
    workflow: str,
    currency: str,
    as_json: bool,
) -> None:
    """Make the budget NAME or change it; what is parked on it is looked at anew."""
    put_ = client.budgets.put(name, amount, period=period, workflow=workflow, currency=currency)
    _show([await put_], as_json=as_json, one=True)


@budget.command("list")
@json_option
@calls_api
async def list_(client: Client, as_json: bool) -> None:
    """List the budgets as they stand."""
    _show(await client.budgets.all(), as_json=as_json)


@budget.command()
@click.argument("name")
@json_option
@calls_api
async def show(client: Client, name: str, as_json: bool) -> None:
    """Show the budget NAME as it stands."""
    _show([await client.budgets.get(name)], as_json=as_json, one=True)


def _show(found: Iterable[Budget], *, as_json: bool, one: bool = False) -> None:
    if as_json and one:
        for each in found:
            print_json(each)
    elif as_json:
        print_json_list(found)
    else:
        heading = ("budget", "for", "amount", "period", "spent", "set aside", "parked", "until")
        print_table(heading, map(_row, found))


def _row(each: Budget) -> tuple[str, ...]:
    return (
        each.name,
        each.workflow or "all",
        f"{each.amount} {each.currency}".rstrip(),
        word(each, "period"),
        each.spent,
        each.reserved,
        str(each.parked_steps),
        clock_time(moment(each.until)) if each.HasField("until") else "-",
    )
