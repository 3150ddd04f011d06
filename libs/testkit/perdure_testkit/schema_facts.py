"""What two databases must agree in to have the same schema."""

from __future__ import annotations

from importlib.resources import files

import asyncpg

_FACTS = (files("perdure_testkit") / "schema_facts.sql").read_text(encoding="utf-8")


async def schema_facts(connection: asyncpg.Connection) -> set[str]:
    """Return every fact about the schema of a database: relations, rights, functions and so on."""
    rows = await connection.fetch(_FACTS)
    return {f"{row['kind']} {row['name']}: {row['fact']}" for row in rows}
