"""What every command that calls the API shares: its address, its form of output, its errors."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec

import click

from perdure.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from perdure.cli.failures import api_failure
from perdure.client import Client
from perdure.errors import PerdureApiError

ATTEMPTS = 3
"""Tries of a call: a person who waits is told soon that nobody answers."""

Parameters = ParamSpec("Parameters")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, payloads exactly as they are."
)

address_option = click.option(
    "--address",
    metavar="HOST:PORT",
    help=f"Address of Perdure. Else {ADDRESS_VARIABLE}, then the dev stack of this folder or one "
    f"above, then {DEFAULT_ADDRESS}.",
)


def calls_api(
    command: Callable[Concatenate[Client, Parameters], Awaitable[None]],
) -> Callable[..., None]:
    """Give a command `--address` and a client; a call that fails becomes a `Failure`."""

    @address_option
    @functools.wraps(command)
    def run(*args: Any, address: str | None, **options: Any) -> None:
        asyncio.run(_run(address, args, options))

    async def _run(address: str | None, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        async with Client(address, attempts=ATTEMPTS) as client:
            try:
                await command(client, *args, **options)
            except PerdureApiError as error:
                raise api_failure(error, client.address) from error

    return run
