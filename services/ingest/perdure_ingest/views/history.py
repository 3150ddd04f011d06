"""Lines of a run's history as messages, with their words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping

from perdure_contracts.v1 import run_pb2
from perdure_machine.history import describe
from perdure_store.reads.rows import HistoryRow

from perdure_ingest.views.instants import timestamp


def history_event(row: HistoryRow) -> run_pb2.HistoryEvent:
    """Show a line; its words are made here, so that old lines speak as the newest release does."""
    return run_pb2.HistoryEvent(
        seq=row.seq,
        at=timestamp(row.at),
        kind=row.kind,
        step=row.step or 0,
        node=row.node or "",
        scope=row.scope or "",
        fence=row.fence or 0,
        text=describe(row.kind, _known(row), row.fence),
        details=row.details or b"",
    )


def _known(row: HistoryRow) -> Mapping[str, object]:
    details = json.loads(row.details) if row.details else {}
    return {**({"node": row.node} if row.node else {}), **details}
