"""`perdure keys bootstrap`: the first key of an org, made straight in the database."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path

from perdure_runtime.access import Role
from perdure_runtime.api_keys import PresentedKey, make_key, random_word, read_key
from perdure_runtime.errors import Unauthenticated

from perdure_store.key_holders import holder_of
from perdure_store.keys import KeyAsked, Secret, bootstrap_key, find_secrets
from perdure_store.pool import Connection

KEY_ID_CHARACTERS = 12
NAME = "bootstrap-{key_id}"


def add_key_options(parser: argparse.ArgumentParser) -> None:
    """Give a parser the options of `keys bootstrap`."""
    parser.add_argument("action", choices=("bootstrap",))
    parser.add_argument("--org", default="default", help="whose key; the org is made if need be")
    parser.add_argument("--name", help="the key's name in its org; one of its own by default")
    parser.add_argument(
        "--another", action="store_true", help="also where an admin's key is there already"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="file for the key, for its owner only; one that holds a good key is left as it is",
    )
    parser.add_argument("--actor", default=None, help="who does so; the user by default")


async def bootstrap(connection: Connection, options: argparse.Namespace) -> None:
    """Make the key and hand it over; AlreadyExists, KEY_EXISTS, where that is not wanted."""
    output: Path | None = options.output
    if output is not None and await _is_good(connection, _presented(output), options.org):
        return
    made, key_id = make_key(), random_word(KEY_ID_CHARACTERS)
    asked = KeyAsked(
        key_id=key_id,
        org=options.org,
        name=options.name or NAME.format(key_id=key_id),
        roles=[Role.ADMIN],
    )
    await bootstrap_key(
        connection,
        asked,
        Secret(made.prefix, made.digest),
        by=options.actor or getpass.getuser(),
        another=options.another,
    )
    if output is None:
        print(made.text)
        print("This key is told once. Keep it as PERDURE_API_KEY.", file=sys.stderr)
    else:
        _write(made.text, output)


def _presented(file: Path) -> PresentedKey | None:
    return read_key(file.read_text(encoding="utf-8").strip()) if file.is_file() else None


async def _is_good(connection: Connection, presented: PresentedKey | None, org: str) -> bool:
    if presented is None:
        return False
    found = await find_secrets(connection, [presented.prefix])
    try:
        return holder_of(found[0] if found else None, presented.digest).org == org
    except Unauthenticated:
        return False


def _write(text: str, file: Path) -> None:
    """Put the file there in one step, so that nobody reads half a key."""
    draft = file.with_name(f"{file.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(f"{text}\n")
    draft.replace(file)
