"""`perdure run pause|resume|terminate|retry`: what people ask of one run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import click

from perdure.cli.options import calls_api, json_option
from perdure.client import Client

Ask = Callable[[Client, str, str], Awaitable[bool]]


def _command(name: str, text: str, ask: Ask, done: str, as_before: str) -> click.Command:
    """Return a command on one run; it says `done`, or `as_before` where nothing changed."""

    @click.command(name, help=text)
    @click.argument("run_id")
    @click.option("--reason", default="", help="Why, for the history.")
    @json_option
    @calls_api
    async def command(client: Client, run_id: str, reason: str, as_json: bool) -> None:
        changed = await ask(client, run_id, reason)
        if as_json:
            click.echo(json.dumps({"changed": changed}))
        else:
            click.echo(done if changed else as_before)

    return command


COMMANDS = (
    _command(
        "pause",
        "Let nothing of a run begin until it is resumed; running work ends and counts.",
        Client.pause_run,
        "paused",
        "was paused already",
    ),
    _command(
        "resume",
        "Let a paused run go on, and parked steps try again whose timers failed.",
        Client.resume_run,
        "resumed",
        "there was nothing to resume",
    ),
    _command(
        "terminate",
        "End a run at once, without compensation; running work is told.",
        Client.terminate_run,
        "terminated",
        "had been cancelled before",
    ),
    _command(
        "retry",
        "Open a failed run again and retry what failed; what completed stays.",
        Client.retry_run,
        "retried",
        "goes on already",
    ),
)
"""Commands of the group `perdure run`."""
