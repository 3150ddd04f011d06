"""Where ingest listens: the argument, `PERDURE_ADDRESS`, the dev stack's file, the default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

ADDRESS_VARIABLE = "PERDURE_ADDRESS"
DEFAULT_ADDRESS = "127.0.0.1:7400"
STACK_FILE = Path(".perdure") / "stack.json"
"""What a running dev stack writes below the directory it was started in."""


def find_address(given: str | None, environ: Mapping[str, str], directory: Path) -> str:
    """Return the first address that is said anywhere; `directory` is where the search begins."""
    return given or environ.get(ADDRESS_VARIABLE) or stack_address(directory) or DEFAULT_ADDRESS


def stack_address(directory: Path) -> str | None:
    """Return the address of the dev stack of `directory` or of the nearest folder above it."""
    for folder in (directory, *directory.parents):
        file = folder / STACK_FILE
        if file.is_file():
            return _read_address(file)
    return None


def _read_address(file: Path) -> str | None:
    # A file that is being replaced, or of another release, says nothing; it is no reason to stop.
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    address = content.get("ingest_address") if isinstance(content, dict) else None
    return address if isinstance(address, str) else None
