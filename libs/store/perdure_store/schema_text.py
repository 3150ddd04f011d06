"""Writes the schema of a migrated database as one readable file, `migrations/schema.sql`.

The file is for reading and for proving: a database made from it equals one made by the
migrations. Rows that migrations insert are not in it, nor are the roles, which are the server's.
"""

from __future__ import annotations

import asyncpg

from perdure_store.sql import sql

HEADING = """\
-- The whole schema, generated from a migrated database by `make schema`; edit the migrations.
-- Roles are made by 0001_pre_roles.sql, partitions by ensure_month.

SET check_function_bodies = off;
"""

SECTIONS = (
    ("Types", "enums"),
    ("Functions", "functions"),
    ("Tables", "tables"),
    ("References", "foreign_keys"),
    ("Indexes", "indexes"),
    ("Views", "views"),
    ("Triggers", "triggers"),
    ("Rights", "schema_grants"),
    (None, "table_grants"),
    (None, "column_grants"),
    (None, "function_grants"),
    ("Rows", "row_security"),
)
"""Heading, or None to go on under the one before, and query of `queries/schema_text.sql`."""

_SPACED = {"functions", "tables", "views"}

CONNECT_GRANT = """\
DO $$
BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO {roles}', current_database());
END
$$;
"""

MONTHS = """\
-- This month and the next two.
SELECT ensure_month((date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + n * interval '1 month')::date)
  FROM generate_series(0, 2) AS n;
"""  # noqa: E501


async def schema_text(connection: asyncpg.Connection) -> str:
    """Return the statements that make the schema `public` of this database again."""
    parts = [HEADING]
    for heading, query in SECTIONS:
        rows = [row["ddl"].rstrip() for row in await connection.fetch(sql(f"schema_text.{query}"))]
        if heading is not None:
            parts.append(f"\n-- ---- {heading}\n")
        gap = "\n\n" if query in _SPACED else "\n"
        parts.append("\n" + gap.join(rows) + "\n" if rows else "")
    roles = await connection.fetchval(sql("schema_text.database_grants"))
    if roles:
        parts.append("\n" + CONNECT_GRANT.format(roles=roles))
    return "".join([*parts, "\n", MONTHS])
