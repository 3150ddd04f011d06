"""Where ingest and the workers' door listen, and what is presented there.

Each is the argument, else a variable, else what a dev stack wrote; the address has a default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

ADDRESS_VARIABLE = "PERDURE_ADDRESS"
DEFAULT_ADDRESS = "127.0.0.1:7400"
DOOR_VARIABLE = "PERDURE_HANDLERS_ADDRESS"
DEFAULT_DOOR = "127.0.0.1:7420"
API_KEY_VARIABLE = "PERDURE_API_KEY"
STACK_FILE = Path(".perdure") / "stack.json"
"""What a running dev stack writes below the directory it was started in."""


INGEST, DOOR = "ingest_address", "worker_address"
"""What it says of its services, by member."""

KEY_FILE = "api_key"
"""Beside it: the stack's key, for its owner only."""


def find_address(given: str | None, environ: Mapping[str, str], directory: Path) -> str:
    """Return the first address that is said anywhere; `directory` is where the search begins."""
    return given or environ.get(ADDRESS_VARIABLE) or stack_address(directory) or DEFAULT_ADDRESS


def find_door(given: str | None, environ: Mapping[str, str], directory: Path) -> str:
    """Return the first address of a workers' door that is said anywhere."""
    stack = _stack_file(directory)
    told = _read_address(stack, DOOR) if stack is not None else None
    return given or environ.get(DOOR_VARIABLE) or told or DEFAULT_DOOR


def find_api_key(
    given: str | None, address: str, environ: Mapping[str, str], directory: Path
) -> str:
    """Return the key to present at `address`, empty if there is none.

    That of a dev stack is presented to that stack alone.
    """
    if given is not None:
        return given
    return environ.get(API_KEY_VARIABLE, "").strip() or _stack_key(address, directory)


def stack_address(directory: Path) -> str | None:
    """Return the address of the dev stack of `directory` or of the nearest folder above it."""
    file = _stack_file(directory)
    return _read_address(file, INGEST) if file is not None else None


def _stack_key(address: str, directory: Path) -> str:
    file = _stack_file(directory)
    if file is None or address not in (_read_address(file, INGEST), _read_address(file, DOOR)):
        return ""
    try:
        return file.with_name(KEY_FILE).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _stack_file(directory: Path) -> Path | None:
    for folder in (directory, *directory.parents):
        file = folder / STACK_FILE
        if file.is_file():
            return file
    return None


def _read_address(file: Path, member: str) -> str | None:
    # A file that is being replaced, or of another release, says nothing; it is no reason to stop.
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    address = content.get(member) if isinstance(content, dict) else None
    return address if isinstance(address, str) else None
