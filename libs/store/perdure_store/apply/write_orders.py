"""Tells in the audit log what people ordered of runs; only where there is any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from perdure_machine.changes import Changes

from perdure_store.apply.rowsets import Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

ACTIONS: Mapping[str, str] = MappingProxyType(
    {
        "run_cancelled": "run.cancel",
        "run_terminated": "run.terminate",
        "run_paused": "run.pause",
        "run_resumed": "run.resume",
        "run_retried": "run.retry",
        "dead_letter_discarded": "dead_letter.discard",
        "effect_decided": "effect.decide",
    }
)
"""What the audit log calls a line of a run's history that names who ordered it."""

_TOLD = ("effect", "decision")
"""Members of such a line that are told besides: reasons stand in the history, which is erasable."""

_WRITE = Statement(
    sql("audit.add_orders"),
    [RowSet.of("orders", "org text, actor text, action text, target text, details bytea")],
)


async def write_orders(connection: Connection, changes: Sequence[Changes]) -> None:
    """Add a line for each order in the transaction that carries it out."""
    orders = list(_orders(changes))
    if orders:
        await connection.execute(_WRITE.text, *_WRITE.arguments({"orders": orders}))


def _orders(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        run = one.run.run
        for line in one.history:
            actor = line.details.get("actor")
            if actor and line.kind in ACTIONS:
                told = {name: line.details[name] for name in _TOLD if name in line.details}
                details = json.dumps({"workflow": run.workflow, **told}, sort_keys=True).encode()
                yield run.org, actor, ACTIONS[line.kind], str(run.run_id), details
