"""The exclusive keys of a batch of starts, and what each start finds there after others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure_machine.changes import Changes
from perdure_machine.decide.exclusive import after
from perdure_machine.events import Start
from perdure_machine.replacing import replace
from perdure_machine.view import KeyQueue

from perdure_store.apply.exclusive import Key, load_queues, lock_keys, tidy_keys
from perdure_store.pool import Connection
from perdure_store.sql import sql


class Turns:
    """The keys that the starts which begin at once want; those put off take their turn later."""

    def __init__(self, starts: Iterable[Start]) -> None:
        self._runs: dict[Key, Start] = {}
        for start in starts:
            if start.exclusive_key is not None and start.start is None:
                self._runs.setdefault((start.org, start.exclusive_key), start)
        self._queues: dict[Key, KeyQueue] = {}

    async def lock(self, connection: Connection) -> None:
        """Lock the keys in their order, before those of start keys (R14)."""
        await lock_keys(connection, self._runs)

    async def load(self, connection: Connection) -> None:
        """Read who has and wants each key, in a later statement than the lock."""
        if self._runs:
            runs = {start.run_id: key for key, start in self._runs.items()}
            found = await load_queues(connection, runs)
            self._queues = {key: found[run_id] for run_id, key in runs.items()}

    def with_queue(self, start: Start) -> Start:
        """Return the start with what it finds at its key."""
        queue = self._queues.get((start.org, start.exclusive_key or ""))
        return start if queue is None else replace(start, queue=queue)

    def note(self, changes: Changes) -> None:
        """Let the next start find what this one does."""
        run = changes.run.run
        key = (run.org, run.exclusive_key or "")
        if changes.key_moves:
            self._queues[key] = after(
                self._queues[key], run.run_id, changes.key_moves, open_=not changes.run.ended
            )

    async def tidy(self, connection: Connection) -> None:
        """Forget keys that were locked and that nobody took."""
        await tidy_keys(connection, self._runs)


async def release_start_keys(connection: Connection, refused: Sequence[Start]) -> None:
    """Give back the start keys that starts have claimed which were refused after that."""
    if refused:
        await connection.execute(sql("starts.release"), [start.run_id for start in refused])
