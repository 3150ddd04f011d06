"""What PostgreSQL counts of its own work: log, rows, sizes and statements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg

SETTLING = 1.2
"""Seconds after which idle backends have told what they counted."""

_LOG = """
SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 AS bytes,
       (SELECT wal_fpi FROM pg_stat_wal)::float8 AS full_pages,
       (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8
           AS commits,
       (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')::float8 AS syncs,
       (SELECT sum(fsync_time) FROM pg_stat_io WHERE object = 'wal')::float8 AS sync_ms
"""
# A partition counts as its parent.
_TABLES = """
SELECT coalesce(whole.relname, s.relname)::text AS name,
       sum(s.n_tup_ins)::float8 AS inserted, sum(s.n_tup_upd)::float8 AS updated,
       sum(s.n_tup_hot_upd)::float8 AS in_place, sum(s.n_tup_del)::float8 AS deleted,
       sum(s.n_dead_tup)::float8 AS dead, sum(s.autovacuum_count)::float8 AS vacuums,
       sum(pg_table_size(s.relid))::float8 AS heap, sum(pg_indexes_size(s.relid))::float8 AS indexes
  FROM pg_stat_user_tables AS s
  LEFT JOIN pg_inherits AS i ON i.inhrelid = s.relid
  LEFT JOIN pg_class AS whole ON whole.oid = i.inhparent
 WHERE s.schemaname = 'public'
 GROUP BY 1
"""
_STATEMENTS = """
SELECT query, sum(calls)::float8 AS calls, sum(total_exec_time + total_plan_time)::float8 AS ms
  FROM pg_stat_statements
 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND userid <> current_user::regrole
 GROUP BY query
"""

Counted = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counters:
    """Everything that was counted up to one moment, or between two.

    `log` has bytes, full pages, commits, syncs and their milliseconds; `tables` by name rows and
    bytes; `statements` by text calls and milliseconds.
    """

    log: Counted
    tables: Mapping[str, Counted]
    statements: Mapping[str, Counted]

    def since(self, before: Counters) -> Counters:
        """Return what was counted after `before`."""
        return Counters(
            _difference(self.log, before.log),
            _differences(self.tables, before.tables),
            _differences(self.statements, before.statements),
        )


async def prepare(database: asyncpg.Connection) -> None:
    """Let statements be counted from here on."""
    await database.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")


async def counted(database: asyncpg.Connection) -> Counters:
    """Return what is counted by now, once the backends have told it."""
    await asyncio.sleep(SETTLING)
    (log,) = await database.fetch(_LOG)
    return Counters(
        {name: value or 0.0 for name, value in log.items()},
        _by(await database.fetch(_TABLES), "name"),
        _by(await database.fetch(_STATEMENTS), "query"),
    )


def _by(rows: list[asyncpg.Record], key: str) -> Mapping[str, Counted]:
    return {row[key]: {n: v for n, v in row.items() if n != key} for row in rows}


def _difference(after: Counted, before: Counted) -> Counted:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _differences(
    after: Mapping[str, Counted], before: Mapping[str, Counted]
) -> Mapping[str, Counted]:
    return {name: _difference(value, before.get(name, {})) for name, value in after.items()}
