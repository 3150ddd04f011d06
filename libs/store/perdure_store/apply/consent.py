"""Whom runs and steps are about, and whether a list forbids what they do (protocol p1).

A subject stands in the tables as its hash only. The lists belong to the org, not to a run: so a
decision reads them in the transaction that writes it, under a lock of the subject that it shares
with others of its kind and that whoever adds to the lists has alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from perdure_machine.changes import Changes
from perdure_machine.subjects import SubjectKey

from perdure_store.apply.rowsets import RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

_SUBJECTS = RowSet.of(
    "subjects", "run_id uuid, step integer, org text, subject_hash bytea, purpose text"
)
_WRITE = Statement(sql("consent.write_subjects"), [_SUBJECTS])
_NAMED_LATE = Statement(sql("erasure.send_named_late"), [_SUBJECTS])


async def write_subjects(
    connection: Connection, changes: Sequence[Changes], key: SubjectKey
) -> None:
    """Write whom new runs and steps are about; only where they say so."""
    rows = [
        (
            c.run.run.run_id,
            one.step,
            c.run.run.org,
            key.hash(c.run.run.org, one.subject),
            one.purpose,
        )
        for c in changes
        for one in c.subjects
    ]
    if not rows:
        return
    await connection.execute(sql("consent.share_hashes"), sorted({row[3] for row in rows}))
    await connection.execute(_WRITE.text, *_WRITE.arguments({"subjects": rows}))
    await connection.execute(_NAMED_LATE.text, *_NAMED_LATE.arguments({"subjects": rows}))


async def load_suppressed(
    connection: Connection, run_id: UUID, steps: Iterable[int]
) -> Mapping[int, bool]:
    """Tell of steps of a locked run whether a list forbids their work, until the transaction ends.

    Two statements, because one that waits for the lock would read the lists as they were before.
    """
    wanted = sorted(steps)
    if not wanted:
        return {}
    await connection.execute(sql("consent.share_subjects"), run_id, wanted)
    rows = await connection.fetch(sql("consent.load_suppressed"), run_id, wanted)
    return dict.fromkeys(wanted, False) | {row["step"]: row["suppressed"] for row in rows}
