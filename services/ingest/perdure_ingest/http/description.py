"""The OpenAPI document of the routes, as it is served; `tools/write_openapi.py` makes it."""

from __future__ import annotations

from importlib.resources import files

DESCRIPTION_PATH = "/openapi.json"
DESCRIPTION_FILE = "openapi.json"


def description() -> bytes:
    """Return the document."""
    return (files("perdure_ingest.http") / DESCRIPTION_FILE).read_bytes()
